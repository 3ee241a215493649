"""The source `zarr`: months from any Zarr store of ERA5, read chunk by chunk; `arco` is a preset of it."""
