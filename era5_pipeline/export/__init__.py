"""Parts of the table as files: CSV, Parquet, netCDF and Zarr, in pieces of bounded size; complete or absent."""
