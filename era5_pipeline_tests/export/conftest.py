"""Real months in a table on each layout, and the netCDF files that they came from, as for Python."""

from __future__ import annotations

from era5_pipeline_tests.api.conftest import gulf, load_real_months, norway, real, real_months  # noqa: F401  # fixtures
