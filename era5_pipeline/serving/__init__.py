"""The warehouse over HTTP (`era5 serve`): answers as JSON and CSV, pages of places, health and metrics."""
