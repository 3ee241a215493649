"""Dagster definitions: the names and order of a month's stages, their retries, checks and metadata."""
