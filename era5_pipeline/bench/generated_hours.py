"""Batches of generated hours of the grid: what the study loads, an hour of the globe (1,038,240 rows) at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from era5_pipeline.bench.generated_months import area_of
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import N_LOCATIONS, Area
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth

_MONTH = Month(2023, 7)
_FIRST = datetime(2023, 7, 1, tzinfo=UTC)
# As many are generated; the next ones have their values again, at later times.
_DISTINCT = 4


@dataclass(frozen=True)
class GeneratedHours:
    """Batches of about `rows` rows: an hour at as many places as that, or several hours of the globe.

    Nothing is generated before the first batch is asked for.
    """

    folder: Path
    rows: int

    @property
    def hours_per_batch(self) -> int:
        """Hours in each batch: one, unless a batch is larger than the globe."""
        return max(1, round(self.rows / N_LOCATIONS))

    @cached_property
    def flat(self) -> FlatMonth:
        """The flat month of the distinct hours."""
        area = Area.parse("global") if self.rows >= N_LOCATIONS else area_of(self.rows)
        hours = _DISTINCT * self.hours_per_batch
        raw = SampleSource(self.folder / "raw", Request(None, area), hours).fetch(_MONTH)
        return flatten_month(raw, self.folder / "flat", home=self.folder, flat_format="parquet")

    @cached_property
    def _by_time(self) -> pa.Table:
        return pq.read_table(self.flat.path).sort_by([("time", "ascending"), ("location_id", "ascending")])

    @property
    def rows_per_batch(self) -> int:
        """The exact number of rows of every batch."""
        return self.flat.rows // _DISTINCT

    def batch(self, number: int) -> pa.Table:
        """The batch of this number, from 0: its times follow those of the one before."""
        size = self.rows_per_batch
        rows = self._by_time.slice((number % _DISTINCT) * size, size).combine_chunks()
        first = _FIRST + timedelta(hours=number * self.hours_per_batch)
        locations = size // self.hours_per_batch
        times = [first + timedelta(hours=hour) for hour in range(self.hours_per_batch)]
        column = pa.array([time for time in times for _ in range(locations)], type=rows.schema.field("time").type)
        return rows.set_column(0, rows.schema.field("time"), column)

    def first_rows(self, rows: int) -> pa.Table:
        """The first rows of the first batch."""
        return self.batch(0).slice(0, rows)


def scaled(rows: int, share: int, least: int = 20) -> int:
    """A share of the rows of an hour of the globe, as the study chose it, for `rows` instead."""
    return max(least, math.ceil(rows * share / N_LOCATIONS))
