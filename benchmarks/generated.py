"""Generated months of a given size, and batches of generated global hours, for the benchmarks to load."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import RawMonth, Request

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable

# --- Generated months of a given size, made by the pipeline's own stages, for the benchmarks to load ---


# Months of 744 hours.
_MONTHS = (Month(2023, 7), Month(2023, 8), Month(2023, 10), Month(2023, 12), Month(2024, 1), Month(2024, 3))
LAST = Month(2024, 12)
# The corner of an area with land, sea, coasts and mountains.
_NORTH, _WEST = 60.0, -20.0
STEP = 0.25
# From 60 degrees north there are 600 rows of points to the south pole; higher areas start further north.
_HEIGHT_SOUTHWARD, _MOST_HEIGHT = 600, 721


def last_months(count: int) -> tuple[Month, ...]:
    """The last months until 2024-12."""
    return tuple(Month.from_number(LAST.number - back) for back in reversed(range(count)))


@dataclass(frozen=True)
class GeneratedMonths:
    """Months of about `rows` rows each, in `folder`; `variables` None: the default ones."""

    folder: Path
    rows: int
    variables: tuple[Variable, ...] | None = None

    def raw(self, count: int) -> list[RawMonth]:
        """The first `count` months, as netCDF."""
        area = area_of(self.rows / _MONTHS[0].hours)
        return [generated_files(self.folder, month, area, self.variables) for month in _MONTHS[:count]]

    def flat(self, count: int) -> list[FlatMonth]:
        """The first `count` months, as Parquet."""
        return [flattened(raw, self.folder) for raw in self.raw(count)]


def generated_files(
    folder: Path, month: Month, area: Area, variables: tuple[Variable, ...] | None = None, hours: int | None = None
) -> RawMonth:
    """A month of the area, as netCDF in `folder`; `hours`: only its first ones."""
    return SampleSource(folder / "raw", Request(variables, area), hours).fetch(month)


def flattened(raw: RawMonth, folder: Path, **options: Any) -> FlatMonth:  # noqa: ANN401  # those of `flatten_month`
    """The month as Parquet in `folder`."""
    return flatten_month(raw, folder / "flat", home=folder, flat_format="parquet", **options)


def fresh_folder(folder: Path) -> Path:
    """The folder, emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def area_of(locations: float) -> Area:
    """A rectangle of about `locations` grid points, twice as wide as high."""
    locations = max(1, round(locations))
    height = min(math.ceil(math.sqrt(locations / 2)), _MOST_HEIGHT)
    width = min(math.ceil(locations / height), 1440)
    north = min(_NORTH + max(0, height - _HEIGHT_SOUTHWARD) * STEP, 90.0)
    return Area(north, _WEST, north - STEP * (height - 1), _WEST + STEP * (width - 1))


def square(north: float, west: float, side: int) -> Area:
    """`side` x `side` grid points."""
    return Area(north, west, north - STEP * (side - 1), west + STEP * (side - 1))


# --- Batches of generated global hours: the study loads an hour of the globe (1,038,240 rows) at a time ---


_MONTH = Month(2023, 7)
_FIRST = datetime(2023, 7, 1, tzinfo=UTC)
# The number of distinct batches; further ones repeat their values at later times.
_DISTINCT = 4


@dataclass(frozen=True)
class GeneratedHours:
    """Batches of about `rows` rows: an hour of that many places, or several hours of the globe.

    Nothing is generated before the first batch is requested.
    """

    folder: Path
    rows: int

    @property
    def hours_per_batch(self) -> int:
        """Hours in each batch: one, unless a batch is larger than the globe."""
        return max(1, round(self.rows / ERA5_GRID.locations))

    @cached_property
    def flat(self) -> FlatMonth:
        """The flat month of the distinct hours."""
        area = Area.parse("global") if self.rows >= ERA5_GRID.locations else area_of(self.rows)
        hours = _DISTINCT * self.hours_per_batch
        return flattened(generated_files(self.folder, _MONTH, area, hours=hours), self.folder)

    @cached_property
    def _by_time(self) -> pa.Table:
        return pq.read_table(self.flat.path).sort_by([("time", "ascending"), ("location_id", "ascending")])

    @property
    def rows_per_batch(self) -> int:
        """The exact number of rows of every batch."""
        return self.flat.rows // _DISTINCT

    def batch(self, number: int) -> pa.Table:
        """The batch with this number, from 0, with times that follow those of the batch before."""
        size = self.rows_per_batch
        rows = self._by_time.slice((number % _DISTINCT) * size, size).combine_chunks()
        first = _FIRST + timedelta(hours=number * self.hours_per_batch)
        locations = size // self.hours_per_batch
        times = [first + timedelta(hours=hour) for hour in range(self.hours_per_batch)]
        column = pa.array([time for time in times for _ in range(locations)], type=rows.schema.field("time").type)
        return rows.set_column(0, rows.schema.field("time"), column)


def scaled(rows: int, share: int, least: int = 20) -> int:
    """The study's choice of `share` rows of a global hour, scaled to `rows` rows; at least `least`."""
    return max(least, math.ceil(rows * share / ERA5_GRID.locations))
