"""`era5 watch`: what the server does during a load, and what limits the load."""
