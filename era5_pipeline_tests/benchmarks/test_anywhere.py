"""The suite once, with the last months of the repository."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.anywhere import AGAIN, PLACE, SERIES, XARRAY
from era5_pipeline_tests.benchmarks.suite_runs import cells_of, run

if TYPE_CHECKING:
    from era5_pipeline_tests.commands import InProcess


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Icechunk 2 needs Python 3.12")
def test_a_place_a_tile_and_a_box_are_loaded_and_their_stages_measured(here: InProcess, server_url: str) -> None:
    cells = cells_of(run(here, server_url, "anywhere", "--rows", "1500"), "anywhere")
    measured = {name: cell for name, cell in cells.items() if cell["reason"] is None}
    # February and March 2026; of the tile and the box, March.
    assert {name: cell["rows"] for name, cell in measured.items()} == {
        **dict.fromkeys((PLACE, AGAIN, XARRAY, SERIES), 1416),
        "tile": 744 * 144,
        "box of four tiles": 744 * 576,
        "stages": 744,
    }
    assert all(measured[name]["medians"]["processor_seconds"][1] > 0 for name in (PLACE, AGAIN, XARRAY, SERIES))
    stages = {name for name in measured["stages"]["medians"] if name.startswith("processor_ms_per_month, ")}
    assert len(stages) == 4
    assert all("globe" in cell["reason"] for cell in cells.values() if cell["reason"])
