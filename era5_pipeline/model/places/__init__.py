"""Places: cities by name, the grid cell of a place with its share of land, and its time zone; no network is needed."""
