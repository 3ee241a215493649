"""`era5 plan`: months, requests, bytes and hours of a load, before anything starts."""
