"""Health of the server, and its numbers for Prometheus."""
