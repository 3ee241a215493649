"""How the weather of a place has changed: days, years, anomalies, trends, indices and records, from hours."""
