"""The plugins of the tests. Here, because pytest looks for options (`--test-dsn`) before it looks into the folders."""

from __future__ import annotations

pytest_plugins = (
    "era5_pipeline_tests.servers",
    "era5_pipeline_tests.commands",
    "era5_pipeline_tests.own_servers",
    "era5_pipeline_tests.flat_months",
    "era5_pipeline_tests.samples",
    "era5_pipeline_tests.real_months",
    "era5_pipeline_tests.weather_table",
    "era5_pipeline_tests.stores",
    "era5_pipeline_tests.wheels",
    "era5_pipeline_tests.expected_skips",
)
