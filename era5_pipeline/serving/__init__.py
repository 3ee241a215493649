"""The warehouse over HTTP (`era5 serve`): answers as JSON, CSV and FlatBuffers, pages of places, health and metrics."""
