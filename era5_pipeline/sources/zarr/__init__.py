"""The source `zarr`: months from any Zarr store of ERA5, read chunk by chunk; and what `arco` shares with it."""
