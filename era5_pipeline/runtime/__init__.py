"""Files, folders, processes and progress: helpers of any long-running program, with nothing specific to ERA5."""
