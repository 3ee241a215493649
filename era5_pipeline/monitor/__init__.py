"""What the server does during a load, what limits the load (`era5 watch`), and numbers for Prometheus."""
