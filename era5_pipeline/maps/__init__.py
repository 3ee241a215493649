"""Fields for maps: one variable of an hour, a day, a month, an anomaly or a trend, read from the warehouse."""
