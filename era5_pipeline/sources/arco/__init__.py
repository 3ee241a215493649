"""The source `arco`: months from ARCO-ERA5, Google's public copy of ERA5 as Zarr, without a key or a queue."""
