"""Monthly summaries in the database: their table, the view `weather_monthly`, and the rows of a load."""
