"""Tests of `era5_pipeline.bench.reaching`."""
