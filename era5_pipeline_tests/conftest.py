"""What tests share: the servers to test on (`servers`), flat months (`flat_months`), real files (`samples`)."""

from __future__ import annotations

pytest_plugins = ("era5_pipeline_tests.servers", "era5_pipeline_tests.flat_months", "era5_pipeline_tests.samples")
