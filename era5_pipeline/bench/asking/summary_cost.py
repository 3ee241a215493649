"""The cost of monthly summaries: the same month flattened and loaded with them and without."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from era5_pipeline.bench.asking.asked_table import LAST
from era5_pipeline.bench.generated_months import area_of
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.target import Target

# A month that the table of the other cells does not have, of 744 hours.
_MONTH = Month.from_number(LAST.number + 1)


def load_with(target: Target, folder: Path, rows: int, *, summaries: bool) -> tuple[int, Numbers]:
    """Flatten and load a month of about `rows` rows into a table without it, and remove it again.

    Returns its rows and the seconds of both stages together and of each.
    """
    raw = SampleSource(folder / "raw", Request(None, area_of(rows / _MONTH.hours))).fetch(_MONTH)
    target.calm()
    started = time.perf_counter()
    flat = flatten_month(raw, folder / "flat", home=folder, flat_format="parquet", with_summaries=summaries)
    flattened = time.perf_counter()
    load_month(target.warehouse, flat, force=True)
    loaded = time.perf_counter()
    drop_month(target.warehouse, _MONTH)
    return flat.rows, {
        "seconds": loaded - started,
        "flat_seconds": flattened - started,
        "load_seconds": loaded - flattened,
    }
