"""What tests share: the servers to test on (`servers`), flat months (`flat_months`), real files (`samples`)."""

from __future__ import annotations

from hypothesis import settings

# No deadline: how fast an example ran tells of the machine's other work.
settings.register_profile("era5", deadline=None)
settings.load_profile("era5")

pytest_plugins = ("era5_pipeline_tests.servers", "era5_pipeline_tests.flat_months", "era5_pipeline_tests.samples")
