"""Alternatives to the warehouse (files, DuckDB, ClickHouse), each with the same year and the same questions."""
