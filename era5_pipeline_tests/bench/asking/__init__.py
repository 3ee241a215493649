"""Tests of `era5_pipeline.bench.asking`."""
