"""Fixtures of tests that kill services in the middle of a backfill: each module has its own `era5 up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.backfills import Backfill, RunningUp, running_up
from era5_pipeline_tests.commands import new_home

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def up() -> Iterator[RunningUp]:
    with new_home() as home, running_up(home) as up:
        yield up


@pytest.fixture(scope="module")
def backfills() -> list[Backfill]:
    """Those that the tests launched."""
    return []
