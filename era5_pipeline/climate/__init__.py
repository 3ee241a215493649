"""How the weather of a place has changed: days, years, anomalies, trends, indices, records, from the table's hours."""
