"""The locations that the table holds, for SQL: the view `era5.location` and the function `era5.nearest`."""
