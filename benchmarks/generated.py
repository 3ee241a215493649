"""Generated months of a given size, and batches of generated global hours, for the benchmarks to load."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.land_mask import mask_of
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.netcdf.cds_files import Axes, CdsFilePart, write_cds
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.sample_weather import SampleWeather
from era5_pipeline.sources.source import RawFile, RawMonth, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.variables import Variable

# --- Generated months of a given size, made by the pipeline's own stages, for the benchmarks to load ---


# Months of 744 hours.
_MONTHS = (Month(2023, 7), Month(2023, 8), Month(2023, 10), Month(2023, 12), Month(2024, 1), Month(2024, 3))
LAST = Month(2024, 12)
# The north-western corners of areas, in degrees: with land, sea, coasts and mountains; and of land alone where small.
_CORNER, _LAND_CORNER = (60.0, -20.0), (52.0, 8.0)
STEP = ERA5_GRID.step_degrees


def last_months(count: int) -> tuple[Month, ...]:
    """The last months until 2024-12."""
    return tuple(Month.from_number(LAST.number - back) for back in reversed(range(count)))


@dataclass(frozen=True)
class GeneratedMonths:
    """Months of about `rows` rows each, in `folder`; `variables` None: the default ones.

    With `as_served`, amounts of a data set that is served with sums since 00 UTC are such sums.
    """

    folder: Path
    rows: int
    variables: tuple[Variable, ...] | None = None
    dataset: Dataset = ERA5
    as_served: bool = False

    def raw(self, count: int) -> list[RawMonth]:
        """The first `count` months, as netCDF."""
        area = area_of(self.rows / _MONTHS[0].hours, self.dataset)
        make = served_files if self.as_served else generated_files
        return [make(self.folder, month, area, self.variables, dataset=self.dataset) for month in _MONTHS[:count]]

    def flat(self, count: int) -> list[FlatMonth]:
        """The first `count` months, as Parquet."""
        return [flattened(raw, self.folder) for raw in self.raw(count)]


def generated_files(
    folder: Path,
    month: Month,
    area: Area,
    variables: tuple[Variable, ...] | None = None,
    hours: int | None = None,
    *,
    dataset: Dataset = ERA5,
) -> RawMonth:
    """A month of the area, as netCDF in `folder`; `hours`: only its first ones."""
    return SampleSource(folder / "raw", Request(variables, area, dataset=dataset), hours).fetch(month)


def served_files(
    folder: Path,
    month: Month,
    area: Area,
    variables: tuple[Variable, ...] | None = None,
    hours: int | None = None,
    *,
    dataset: Dataset,
) -> RawMonth:
    """The same as its store serves them: amounts summed since 00 UTC, and none at sea; with the hour before the month.

    The sums of that hour, and of the first one, begin with it.
    """
    wanted = hours_of_month(month)[:hours]
    wanted = range(wanted.start - 1, wanted.stop)
    chosen = Request(variables, area, dataset=dataset).wanted
    part = CdsFilePart("accum" if all(one.step_type == "accum" for one in chosen) else "instant", chosen, wanted)
    path = folder / "raw" / f"{month}-served.nc"
    path.parent.mkdir(parents=True, exist_ok=True)
    axes = Axes.of(area)
    write_cds(path, (part,), axes, {"Conventions": "CF-1.7"}, _served(axes, wanted, chosen, dataset))
    file = RawFile(path, sha256_of(path), path.stat().st_size)
    return RawMonth(month, "files", (file,), tuple(one.column for one in chosen), str(area), dataset=dataset)


def _served(
    axes: Axes, wanted: range, variables: Sequence[Variable], dataset: Dataset
) -> Iterator[tuple[range, dict[str, npt.NDArray[np.float32]]]]:
    weather = SampleWeather(axes.latitudes, axes.longitudes, axes.grid)
    rows, columns = axes.grid.latitude_indices(axes.latitudes), axes.grid.longitude_indices(axes.longitudes)
    mask = mask_of(dataset)
    at_sea = None if mask is None else ~mask[np.ix_(rows, columns)]
    sums: dict[str, npt.NDArray[np.float64]] = {}
    for start in wanted[:: weather.hours_at_once]:
        hours = range(start, min(start + weather.hours_at_once, wanted.stop))
        fields = weather.at(np.array(hours, dtype=np.int64), variables)
        for variable in variables:
            field = fields[variable.column]
            if variable.step_type == "accum":
                for hour, values in zip(hours, field, strict=True):
                    before = sums.get(variable.column, 0.0) if hour % 24 != 1 else 0.0
                    sums[variable.column] = before + values.astype(np.float64)
                    values[:] = sums[variable.column]
            if at_sea is not None:
                field[:, at_sea] = np.nan
        yield hours, fields


def flattened(raw: RawMonth, folder: Path, **options: Any) -> FlatMonth:  # noqa: ANN401  # those of `flatten_month`
    """The month as Parquet in `folder`."""
    return flatten_month(raw, folder / "flat", home=folder, flat_format="parquet", **options)


def fresh_folder(folder: Path) -> Path:
    """The folder, emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def area_of(locations: float, dataset: Dataset = ERA5) -> Area:
    """A rectangle of about `locations` grid points, twice as wide as high."""
    grid = dataset.grid
    step = grid.step_degrees
    north, west = _LAND_CORNER if dataset.is_land_only else _CORNER
    locations = max(1, round(locations))
    height = min(math.ceil(math.sqrt(locations / 2)), grid.rows)
    width = min(math.ceil(locations / height), grid.columns)
    # Areas that are too high to end at the south pole start further north.
    north = min(north + max(0, height - round((north + 90.0) / step)) * step, 90.0)
    south, east = (
        round(degrees, grid.decimals) for degrees in (north - step * (height - 1), west + step * (width - 1))
    )
    return Area(north, west, south, east, grid=grid)


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
