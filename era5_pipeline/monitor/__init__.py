"""What the sessions that load wait for (`era5 watch`), metrics for Prometheus, and what differs (`era5 verify`)."""
