"""Rows to weather: the table's schema and layouts, loading a month, the ledger, summaries, views, verifying."""
