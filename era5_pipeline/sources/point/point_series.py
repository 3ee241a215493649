"""A point's series in memory: read from the answer of the service, and cut into months.

Here: the hours of the file, its point and values. Not here: which of it is asked for (`series_inquiry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.errors import BadFileError, MonthFailedError
from era5_pipeline.model.grid import Location, location_ids
from era5_pipeline.model.hours import describe_hours, hours_of_month
from era5_pipeline.netcdf.archive import netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import inspect, open_netcdf
from era5_pipeline.netcdf.point_netcdf import point_netcdf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.contents import Field

    Floats = npt.NDArray[np.float32]

# Series in memory: the months of a load come one after another. One since 1940 takes 15 MB.
_CACHED_SERIES = 4
_AGAIN = "Run it again: it is then downloaded again."
_SHOWN_RUNS = 2


@dataclass(frozen=True, eq=False)
class PointSeries:
    """Consecutive hours of a point: from `first_hour`, since 1970-01-01; `values` (n,) by column, in units of files."""

    place: Location
    first_hour: int
    values: Mapping[str, Floats]

    @property
    def hours(self) -> int:
        """The number of hours."""
        return next(iter(self.values.values())).size

    @property
    def end_hour(self) -> int:
        """The first hour after it."""
        return self.first_hour + self.hours

    def covers(self, month: Month) -> bool:
        """Whether it has every hour of the month."""
        hours = hours_of_month(month)
        return self.first_hour <= hours.start and hours.stop <= self.end_hour

    def month_netcdf(self, month: Month, *, preliminary: bool) -> bytes | None:
        """The month as netCDF (see `point_netcdf`), None: it has no hour of it."""
        hours = hours_of_month(month)
        own = range(max(hours.start, self.first_hour), min(hours.stop, self.end_hour))
        if not own:
            return None
        within = slice(own.start - self.first_hour, own.stop - self.first_hour)
        values = {column: of_column[within] for column, of_column in self.values.items()}
        return point_netcdf(self.place, np.array(own, dtype=np.int64), values, preliminary=preliminary)


def read_series(path: Path, place: Location, home: Path, columns: frozenset[str]) -> PointSeries:
    """Read these columns of the answer at `path`, as far as it has them; it is unpacked below `home`.

    Raises:
        BadFileError: if the file is damaged, no series, or lacks hours.
        MonthFailedError: if it is of another point.
        LocalDiskError: if there is no room.
    """
    stat = path.stat()
    return _read(path, place, home, columns, (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=_CACHED_SERIES)
def _read(path: Path, place: Location, home: Path, columns: frozenset[str], _: tuple[int, int]) -> PointSeries:
    hours: npt.NDArray[np.int64] | None = None
    values: dict[str, Floats] = {}
    with scratch_folder(home) as scratch:
        for file in netcdf_files([path], scratch):
            contents = inspect(file)
            for problem in contents.problems:
                if problem.kind != "nothing" and (not problem.columns or not columns.isdisjoint(problem.columns)):
                    raise BadFileError(path, problem.text, remedy=_AGAIN)
            for field in contents.fields:
                if field.column not in columns:
                    continue
                _require_place(field, place)
                if hours is not None and not np.array_equal(hours, field.hours):
                    raise BadFileError(path, f"has other hours of {field.column}", remedy=_AGAIN)
                hours = field.hours
                values[field.column] = _values(file, field, path)
    if hours is None or not hours.size:
        raise BadFileError(path, "holds none of the variables that were asked for", remedy=_AGAIN)
    _require_consecutive(hours, path)
    return PointSeries(place, int(hours[0]), values)


def _values(file: NetcdfFile, field: Field, path: Path) -> Floats:
    try:
        with open_netcdf(file) as dataset:
            read = np.asarray(dataset[field.name].values, dtype=np.float32).reshape(-1)
    except Exception as error:  # the libraries raise nearly anything for damaged files
        raise BadFileError(path, f"is damaged ({field.name}: {error})", remedy=_AGAIN) from error
    if read.size != field.hours.size:
        raise BadFileError(path, f"holds {field.name} of more than one point", remedy=_AGAIN)
    return read


def _require_place(field: Field, place: Location) -> None:
    ids = location_ids(field.latitude_index, field.longitude_index)
    if ids.size == 1 and int(ids[0]) == place.location_id:
        return
    held = f"{ids.size} points" if ids.size != 1 else f"the point {Location.of_id(int(ids[0]))}"
    raise MonthFailedError(
        f"point {place}: the service returned {held}",
        remedy="Nothing was loaded. Run it again later; if it stays so, tell the user support of the Climate Data "
        "Store, with the number of the request.",
    )


def _require_consecutive(hours: npt.NDArray[np.int64], path: Path) -> None:
    steps = np.diff(hours)
    if (steps == 1).all():
        return
    if (steps <= 0).any():
        raise BadFileError(path, "has hours twice, or in another order", remedy=_AGAIN)
    missing = np.setdiff1d(np.arange(hours[0], hours[-1] + 1), hours)
    runs = describe_hours(missing)
    more = f" and {len(runs) - _SHOWN_RUNS} more gaps" if len(runs) > _SHOWN_RUNS else ""
    text = f"lacks {missing.size:,} hours in between: {', '.join(runs[:_SHOWN_RUNS])}{more}"
    raise BadFileError(path, text, remedy=_AGAIN)
