"""The suites of `era5 bench run`: each module plans cells, and `suite_registry` lists them."""
