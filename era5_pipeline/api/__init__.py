"""The table from Python: `era5.open`, and answers as pandas tables and labelled xarray arrays, with units."""
