"""Boxes of hours, latitudes and longitudes: what the table holds of one, its values, and arrays of xarray."""
