"""Real months in a table on each layout, as for Python."""

from __future__ import annotations

from era5_pipeline_tests.api.conftest import real  # noqa: F401  # a fixture
