"""Files, folders, processes and progress: what any long-running program needs, without a word of ERA5."""
