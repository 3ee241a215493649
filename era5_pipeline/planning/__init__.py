"""`era5 plan`: how much a load is, before anything starts."""
