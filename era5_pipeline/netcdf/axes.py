"""Find the time, latitude and longitude axes of a netCDF variable by metadata, whatever their names.

Identifies the coordinates, and converts their values to hours and grid indices. For variables, units and versions see
`contents`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline.model.grid import TOLERANCE_DEGREES, Shift
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.model.times import as_datetime64, from_datetime64, hour_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import xarray as xr

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Grid

ProblemKind = Literal["unreadable", "grid", "units", "dimensions", "time", "aggregate", "packing", "nothing", "library"]

# Copies of an hour are in memory together when they are compared; a damaged time axis may have nothing else.
_MOST_COPIES = 10
# Hours since 1970-01-01 UTC.
FIRST_HOUR = hour_of(Month(FIRST_YEAR, 1).start)
_TIME_NAMES = ("valid_time", "time")
_CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
_GRID_TYPE = "regular_ll"
# Those that files are recognised to be on.
GRIDS = tuple(dataset.grid for dataset in DATASETS.values())
_LATITUDE = ("degrees_north", "degree_north", "degrees_n", "latitude")
_LONGITUDE = ("degrees_east", "degree_east", "degrees_e", "longitude")

AGAIN = "Download it again, or move it out of the folder."
_NO_NEAREST = "--off-grid nearest does not apply"


def get_hours(dataset: Dataset) -> str:
    """The remedy for a file without hourly values of the data set."""
    how = "product type reanalysis (era5 load --source cds does)" if dataset == ERA5 else "with all its hours"
    return (
        f"Request hourly data from the Climate Data Store: dataset {dataset.cds_name}, {how}, or move the file out of "
        "the folder."
    )


def other_names(dataset: Dataset) -> str:
    """The data sets that are not this one, for messages."""
    return " or ".join(one.short_title for one in DATASETS.values() if one != dataset)


def _on_grid(dataset: Dataset) -> str:
    return (
        f"Request {dataset.cds_name} from the Climate Data Store with area borders on multiples of "
        f"{dataset.grid.step_degrees:g} degrees ({other_names(dataset)} and regridded files do not fit this table)."
    )


@dataclass(eq=False)
class ProblemError(Exception):
    """A variable cannot be used; all attributes go into the file's `Problem`.

    `area` is the one to request instead, as text; `shift` is that of values between the grid points, which can be used
    if the user says so. `is_of_origin`: the values are not those of the data set, by the file's word, which can be used
    if the user says otherwise. `lacks_accumulation`: nothing tells over what the values run, which the user may say.
    `instead` says how the values are loaded into the table of the other data set that they are of.
    """

    kind: ProblemKind
    text: str
    remedy: str
    area: str | None = None
    shift: Shift | None = None
    is_of_origin: bool = field(default=False, kw_only=True)
    lacks_accumulation: bool = field(default=False, kw_only=True)
    instead: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class GridIndices:
    """Grid indices of latitudes and longitudes in file order; with `off_grid`, the problem, they are the nearest."""

    latitude: npt.NDArray[np.int32]
    longitude: npt.NDArray[np.int32]
    off_grid: ProblemError | None = None


def _is(coordinate: xr.DataArray, words: tuple[str, ...]) -> bool:
    meanings = (coordinate.attrs.get("units"), coordinate.attrs.get("standard_name"), coordinate.name)
    return any(str(meaning).lower() in words for meaning in meanings if meaning is not None)


def horizontal_axis(
    array: xr.DataArray, what: Literal["latitude", "longitude"], dataset: Dataset = ERA5
) -> xr.DataArray:
    """Find the latitude or longitude coordinate of the array by its units, standard name or name."""
    words = _LATITUDE if what == "latitude" else _LONGITUDE
    found: list[xr.DataArray] = [coordinate for coordinate in array.coords.values() if _is(coordinate, words)]
    grid_type = array.attrs.get("GRIB_gridType", _GRID_TYPE)
    if grid_type != _GRID_TYPE:
        kind = "a Gaussian grid" if str(grid_type).endswith("_gg") else "another grid"
        text = f"is on {kind} ({grid_type}), not on {dataset.short_title}'s regular one of latitudes and longitudes"
        raise ProblemError("dimensions", text, get_hours(dataset))
    if not found:
        raise ProblemError("dimensions", f"{array.name} has no {what}", "Request a regular latitude-longitude grid.")
    if len(found) > 1 or found[0].ndim > 1:
        raise ProblemError(
            "dimensions",
            f"{array.name} is not on a latitude-longitude grid ({what} is two-dimensional)",
            _on_grid(dataset),
        )
    return found[0]


def time_axis(array: xr.DataArray, dataset: Dataset = ERA5) -> xr.DataArray:
    """Find the coordinate with the valid time of the values: one-dimensional, or a single time."""
    found: list[xr.DataArray] = [array.coords[name] for name in _TIME_NAMES if name in array.coords]
    found += [c for c in array.coords.values() if c.name not in _TIME_NAMES and c.attrs.get("standard_name") == "time"]
    # valid_time comes first: in cfgrib's files, `time` may be the start of the forecast.
    times = [c.squeeze(drop=True) if c.ndim > 1 else c for c in found if np.issubdtype(c.dtype, np.datetime64)]
    if not times or times[0].ndim > 1:
        # Of a calendar with other days, and of years that datetime64 does not have, xarray makes objects.
        for other in (c for c in found if c.dtype == object and c.size):
            calendar = str(other.encoding.get("calendar", _CALENDARS[0])).lower()
            if calendar not in _CALENDARS:
                name = dataset.short_title
                text = f"its times are of the calendar {calendar}, and {name}'s are of the Gregorian calendar"
                raise ProblemError("time", text, get_hours(dataset))
            raise ProblemError("time", f"time {other.values.flat[0]} is none of {dataset.short_title}", AGAIN)
        raise ProblemError(
            "dimensions", f"{array.name} has no time coordinate that can be read", "Request hourly data with times."
        )
    return times[0]


def times_along(array: xr.DataArray, dataset: Dataset = ERA5) -> npt.NDArray[np.datetime64]:
    """The valid times (n,), rounded to the second: times stored as fractions of days are off by nanoseconds.

    A `ProblemError` if there are no times, or some are fill values.
    """
    times = np.atleast_1d(time_axis(array, dataset).values).astype("datetime64[ms]")
    if np.isnat(times).any():
        raise ProblemError("time", "its time coordinate holds fill values", AGAIN)
    return (times + np.timedelta64(500, "ms")).astype("datetime64[s]")


def hours_along(array: xr.DataArray, dataset: Dataset = ERA5) -> npt.NDArray[np.int64]:
    """The times as hours since 1970-01-01 UTC (n,), n > 0, in file order; files that were joined repeat some."""
    times = times_along(array, dataset)
    if not times.size:
        raise ProblemError("time", f"{array.name} has no times: the file was not written completely", AGAIN)
    hours = times.astype("datetime64[h]")
    off = times != hours
    if (times - hours == np.timedelta64(30, "m")).all():
        # The middle of 24 hours, as CDO stamps the mean of a day.
        text = f"{array.name} holds daily statistics or other means (all its times are on the half hour)"
        raise ProblemError("aggregate", f"{text}, not values of hours", get_hours(dataset))
    if off.any():
        raise ProblemError("time", f"time {times[off][0]} is not on the hour", "Request hourly data, on the hour.")
    numbers = from_datetime64(hours)
    first = min(dataset.first_valid.values())
    if numbers.min() < hour_of(first):
        name = dataset.short_title
        raise ProblemError("time", f"time {hours.min()}:00 is before {name} begins, {first.year}", AGAIN)
    if not (numbers[1:] > numbers[:-1]).all():
        distinct, counts = np.unique(numbers, return_counts=True)
        if counts.max() > _MOST_COPIES:
            often = as_datetime64(distinct)[counts.argmax()]
            raise ProblemError("time", f"time {often}:00 occurs {counts.max():,} times", AGAIN)
    return numbers


def horizontal_indices(
    latitude: xr.DataArray, longitude: xr.DataArray, dataset: Dataset, *, is_stated: bool
) -> GridIndices:
    """The grid's indices of both axes in degrees; of points between the grid's, the nearest, if that is unambiguous.

    `is_stated`: the file says that it is of the data set. A single point off the grid that does not may be of another.
    """
    grid = dataset.grid
    axes: tuple[Literal["latitude", "longitude"], ...] = ("latitude", "longitude")
    north, east = (degrees_of(coordinate, what) for coordinate, what in zip((latitude, longitude), axes, strict=True))
    try:
        indices = GridIndices(grid.latitude_indices(north), grid.longitude_indices(east))
    except ValueError as error:
        other = next((one for one in GRIDS if one != grid and _is_on(one, north, east)), None)
        text = str(error)
        if other is not None:
            text = f"is on a grid of {other.step_degrees:g} degrees, {other.name}'s: {error}"
    else:
        # Some global files repeat the first meridian at the end (0 and 360), which `flat.tiles` compares.
        for degrees, what in zip((north, east), axes, strict=True):
            if np.unique(np.rint(degrees / grid.step_degrees)).size != degrees.size:
                raise ProblemError("grid", f"a {what} occurs more than once", AGAIN)
        return indices
    try:
        area = str(grid.area_around(north, east))
    except ValueError:  # no degrees
        raise ProblemError("grid", text, _on_grid(dataset)) from None
    try:
        (rows, to_north), (columns, to_east) = map(grid.nearest_indices, (north, east), axes)
    except ValueError as error:
        raise ProblemError("grid", text, f"{error}: {_NO_NEAREST}", area) from None
    if not is_stated and north.size == east.size == 1:
        why = f"its only point may be of {other_names(dataset)}, and it does not say"
        raise ProblemError("grid", text, f"{why}: {_NO_NEAREST}", area)
    shift = Shift(to_north, to_east)
    degrees_off = max(abs(shift.north), abs(shift.east))
    remedy = f"take each value to its nearest point, {degrees_off:g} degrees off: --off-grid nearest"
    return GridIndices(rows, columns, ProblemError("grid", text, remedy, area, shift))


def _is_on(grid: Grid, *axes: npt.NDArray[np.float64]) -> bool:
    """Return True if the degrees along the axes are the grid's, one after another: several along one at least."""
    step = grid.step_degrees
    in_steps = [degrees / step for degrees in axes]
    are_multiples = all((np.abs(values - np.rint(values)) * step < TOLERANCE_DEGREES).all() for values in in_steps)
    steps = np.concatenate([np.abs(np.diff(np.rint(values))) for values in in_steps])
    return are_multiples and steps.size > 0 and bool((steps == 1.0).all())


def degrees_of(coordinate: xr.DataArray, what: Literal["latitude", "longitude"]) -> npt.NDArray[np.float64]:
    """The degrees (n,) of a latitude or longitude; a `ProblemError` if there are none."""
    degrees = np.atleast_1d(np.asarray(coordinate.values, dtype=np.float64))
    # netCDF's default fill value 9.97e36 is often undeclared; it is far from any degree.
    if not (np.abs(degrees) < 1e6).any():
        raise ProblemError("grid", f"{what} holds only fill values", AGAIN)
    return degrees
