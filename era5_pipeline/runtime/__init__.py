"""Files, stores, processes, progress and HTTP: helpers of any long-running program, with nothing specific to ERA5."""
