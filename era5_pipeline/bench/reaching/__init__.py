"""The speed at which the data reaches those who work with it: tables of pandas, arrays of xarray, answers over HTTP."""
