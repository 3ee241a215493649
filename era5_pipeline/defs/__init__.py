"""Dagster definitions: the names and order of a month's stages, their retries, checks and metadata.

The work itself is in `era5_pipeline.stages`, which runs without Dagster too.
"""
