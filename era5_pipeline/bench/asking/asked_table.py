"""The asked table: 1,020 generated months of 100 places, the last year of 1,600; and the last year's files."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import Area, Location, location_ids, location_of, nearest_location
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.prefetch import Prefetched
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.bench.target import Target
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.sources.source import RawMonth

# The 85 years that a climate is asked of; fewer months are the last of them.
MOST_MONTHS = 1020
LAST = Month(2024, 12)
# The north-western corner of the places: Java with Jakarta, land and sea.
_NORTH, _WEST, _STEP = -5.0, 105.75, 0.25
_HOURS = 744
# The last year has as many times the places: what files hold besides must be read past, as in months of a country.
YEAR_SHARE = 16


class AskedTable:
    """`weather` with the last `count` months until 2024-12, of about `rows` rows each; loaded when first asked for.

    The months of the last year have 16 times the rows, around the same place. Files are made in `folder`. Those of the
    last year stay: `year_files` as the source makes them, `netcdf_files` once they are unzipped.
    """

    def __init__(self, target: Target, folder: Path, rows: int, count: int) -> None:
        self.target = target
        self.months = tuple(Month.from_number(LAST.number - back) for back in reversed(range(count)))
        side = max(1, round(math.sqrt(rows / _HOURS)))
        self.place: Location = nearest_location(_NORTH - _STEP * (side // 2), _WEST + _STEP * (side // 2))
        self.folder = folder
        self.year_files: list[RawMonth] = []
        self.netcdf_files: list[Path] = []
        self._area, self._year_area = _square(side), _square(round(side * math.sqrt(YEAR_SHARE)))
        self._is_loaded = False

    @property
    def year(self) -> tuple[Month, ...]:
        """The last twelve months, or all if there are fewer."""
        return self.months[-12:]

    @property
    def places(self) -> tuple[Location, ...]:
        """The places that all months have."""
        rows, columns = self._area.latitude_indices(), self._area.longitude_indices()
        return tuple(location_of(int(number)) for row in rows for number in location_ids(row, columns))

    def load(self) -> None:
        """Load the months, unless an earlier call has; while one is loaded, the next is generated."""
        if self._is_loaded:
            return
        self.target.make_table(LAYOUTS[self.target.offered[0]])
        with self.target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
        with closing(Prefetched(self._flat_months())) as flat_months:
            for raw, flat in flat_months:
                load_month(self.target.warehouse, flat)
                flat.path.unlink()
                if flat.month in self.year:
                    self.year_files.append(raw)
                else:
                    for file in raw.files:
                        file.path.unlink()
        with self.target.connect() as connection:
            connection.execute("ANALYZE weather")
        self._is_loaded = True

    def _flat_months(self) -> Iterator[tuple[RawMonth, FlatMonth]]:
        for month in self.months:
            area = self._year_area if month in self.year else self._area
            raw = SampleSource(self.folder / "raw", Request(None, area)).fetch(month)
            yield raw, flatten_month(raw, self.folder / "flat", home=self.folder, flat_format="parquet")


def _square(side: int) -> Area:
    """`side` x `side` grid points."""
    return Area(_NORTH, _WEST, _NORTH - _STEP * (side - 1), _WEST + _STEP * (side - 1))
