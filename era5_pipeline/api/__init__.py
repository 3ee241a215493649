"""The table from Python: `era5.open`, and answers as tables of pandas and labelled arrays of xarray, with units."""
