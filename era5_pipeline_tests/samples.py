"""Real ERA5 files, where there are any: in the folder that ERA5_SAMPLES names, by default `shared/era5`. A plugin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SAMPLES = Path(os.environ.get("ERA5_SAMPLES", Path(__file__).parents[2] / "shared" / "era5"))


@pytest.fixture(scope="session")
def era5_samples() -> Path:
    """The folder of real ERA5 files."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no real ERA5 files in {SAMPLES} (set ERA5_SAMPLES)")
    return SAMPLES
