"""Generated months of a given size, made by the pipeline's own stages, for the benchmarks to load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.flat.formats import open_sink
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawMonth

# Months of 744 hours.
_MONTHS = (Month(2023, 7), Month(2023, 8), Month(2023, 10), Month(2023, 12), Month(2024, 1), Month(2024, 3))
# The corner of an area with land and sea, coasts and mountains.
_NORTH, _WEST = 60.0, -20.0
_STEP = 0.25
# From 60 degrees north there are 600 rows of points to the south pole; higher areas begin further north.
_HEIGHT_SOUTHWARD, _MOST_HEIGHT = 600, 721


@dataclass(frozen=True)
class GeneratedMonths:
    """Months of about `rows` rows each, in `folder`; `variables` None: the default ones."""

    folder: Path
    rows: int
    variables: tuple[Variable, ...] | None = None

    def raw(self, count: int) -> list[RawMonth]:
        """The first `count` months, as netCDF."""
        area = area_of(self.rows / _MONTHS[0].hours)
        source = SampleSource(self.folder / "raw", Request(self.variables, area))
        return [source.fetch(month) for month in _MONTHS[:count]]

    def flat(self, count: int) -> list[FlatMonth]:
        """The first `count` months, as Parquet."""
        return [
            flatten_month(raw, self.folder / "flat", home=self.folder, flat_format="parquet") for raw in self.raw(count)
        ]


def area_of(locations: float) -> Area:
    """A rectangle of about so many locations, twice as wide as high in grid points."""
    locations = max(1, round(locations))
    height = min(math.ceil(math.sqrt(locations / 2)), _MOST_HEIGHT)
    width = min(math.ceil(locations / height), 1440)
    north = min(_NORTH + max(0, height - _HEIGHT_SOUTHWARD) * _STEP, 90.0)
    return Area(north, _WEST, north - _STEP * (height - 1), _WEST + _STEP * (width - 1))


def write_csv(flat: FlatMonth, path: Path) -> None:
    """Write the flat month as CSV with a header."""
    with pq.ParquetFile(flat.path) as file, open_sink(path, "csv", file.schema_arrow) as sink:
        for group in range(file.num_row_groups):
            sink.write(file.read_row_group(group))
