"""Dagster, and nothing else: what a month's stages are called, in which order, with which retries and metadata.

Nothing here does the work; `era5_pipeline.stages` does, with or without Dagster.
"""
