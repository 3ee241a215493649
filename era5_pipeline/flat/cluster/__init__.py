"""Flatten on a Dask cluster: workers read and merge tiles, this process writes them in order."""
