"""The server's activity during a load, what limits the load (`era5 watch`), and metrics for Prometheus."""
