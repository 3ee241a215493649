"""Loading sessions (`era5 watch`), metrics for Prometheus, and a check of the loaded months (`era5 verify`)."""
