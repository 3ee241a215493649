"""The source `files`: ERA5 files that the user already has."""
