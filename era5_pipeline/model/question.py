"""Parse the places, areas, times and columns that users give to commands, HTTP routes and Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.cells import CellChoice, cell_of
from era5_pipeline.model.derived_variables import find_column, find_columns
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID, Area, Grid
from era5_pipeline.model.months import Month
from era5_pipeline.model.places import AskedPlace, find_place
from era5_pipeline.model.times import parse_instant, parse_time_range
from era5_pipeline.model.variables import ERA5_CATALOGUE

if TYPE_CHECKING:
    from era5_pipeline.model.places import Place
    from era5_pipeline.model.variables import Catalogue, Variable

# A time as given by a user: `"2023"`, `"2023-07"`, `"2023-07-15T12:00"`, or an object of datetime, numpy or pandas.
# Without a zone it is in UTC.
AskedTime = str | date | np.datetime64
AskedArea = str | tuple[float, float, float, float] | Area

_AREA = "An area is NORTH/WEST/SOUTH/EAST, for example -5/106/-8/108, or the four numbers."
_COLUMNS = "Give names such as temperature_2m or t2m: era5 variables lists them."
_NUMBERS_OF_AREA = 4


@dataclass(frozen=True)
class Wording:
    """How the users of a front end write what they ask for: the names of arguments, and what to give."""

    place: str
    latitude: str
    longitude: str
    area: str
    give_place: str
    give_area: str


COMMAND = Wording(
    *("--place", "--lat", "--lon", "--area"),
    give_place="--place NAME, such as --place Jakarta, or --lat and --lon",
    give_area="--area N/W/S/E",
)
HTTP = Wording(
    *("place", "latitude", "longitude", "area"),
    give_place="place=Jakarta, or latitude=-6.2&longitude=106.8",
    give_area="area=-5/106/-8/108",
)
PYTHON = Wording(
    *("place", "latitude", "longitude", "area"),
    give_place='place="Jakarta", or latitude=-6.2, longitude=106.8',
    give_area='area="-5/106/-8/108"',
)


def asked_place(
    wording: Wording,
    place: str | None,
    latitude: float | None,
    longitude: float | None,
    cell: CellChoice = "nearest",
    grid: Grid = ERA5_GRID,
) -> AskedPlace:
    """The place for a name or coordinates, with its grid cell."""
    found = find_asked_place(wording, place, latitude, longitude, cell, grid)
    if found is None:
        raise UsageError("no place is given", remedy=f"Give {wording.give_place}.")
    return found


def find_asked_place(
    wording: Wording,
    place: str | None,
    latitude: float | None,
    longitude: float | None,
    cell: CellChoice = "nearest",
    grid: Grid = ERA5_GRID,
) -> AskedPlace | None:
    """The place for a name or coordinates, with its grid cell; None if neither is given."""
    if cell not in ("nearest", "land"):
        raise UsageError(
            f"cell is {cell!r}", remedy='Use "nearest", or "land" for the nearest cell that is at least half land.'
        )
    if place is not None:
        if latitude is not None or longitude is not None:
            raise UsageError(
                f"{wording.place} and {wording.latitude}, {wording.longitude} cannot be combined",
                remedy="Give only one of them.",
            )
        if not isinstance(place, str):
            raise UsageError(f"a place must be text, not {type(place).__name__}", remedy=f"Give {wording.give_place}.")
        return place_with_cell(find_place(place), cell, grid)
    if latitude is None and longitude is None:
        return None
    if latitude is None or longitude is None:
        missing = wording.latitude if latitude is None else wording.longitude
        raise UsageError(f"{missing} is missing", remedy=f"Give {wording.give_place}.")
    north = _degrees(wording.latitude, latitude, wording)
    east = _degrees(wording.longitude, longitude, wording)
    return AskedPlace(None, north, east, cell_of(north, east, cell, grid))


def _degrees(name: str, value: object, wording: Wording) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} is {value!r}, not a number", remedy=f"Give {wording.give_place}.")
    return float(value)


def place_with_cell(place: Place, cell: CellChoice = "nearest", grid: Grid = ERA5_GRID) -> AskedPlace:
    """The city with its grid cell."""
    return AskedPlace(place, place.latitude, place.longitude, cell_of(place.latitude, place.longitude, cell, grid))


def find_place_or_area(
    wording: Wording,
    place: str | None,
    latitude: float | None,
    longitude: float | None,
    cell: CellChoice,
    area: AskedArea | None,
    grid: Grid = ERA5_GRID,
) -> AskedPlace | Area | None:
    """The place or the rectangle; None if neither is given."""
    asked = find_asked_place(wording, place, latitude, longitude, cell, grid)
    rectangle = asked_area(area, grid)
    if asked is not None and rectangle is not None:
        raise UsageError(f"a place and {wording.area} cannot be combined", remedy="Give only one of them.")
    return asked or rectangle


def asked_place_or_area(
    wording: Wording,
    place: str | None,
    latitude: float | None,
    longitude: float | None,
    cell: CellChoice,
    area: AskedArea | None,
    grid: Grid = ERA5_GRID,
) -> AskedPlace | Area:
    """The place or the rectangle."""
    found = find_place_or_area(wording, place, latitude, longitude, cell, area, grid)
    if found is None:
        raise UsageError("no place is given", remedy=f"Give {wording.give_place}, or {wording.give_area}.")
    return found


def asked_columns(
    columns: str | Iterable[str] | None, catalogue: Catalogue = ERA5_CATALOGUE
) -> tuple[Variable, ...] | None:
    """The variables with these names, in any form that `era5 variables` lists, in table order; None: not given."""
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"columns are {columns!r}, not names", remedy=_COLUMNS)
    found = find_columns(",".join(names), catalogue)
    if not found:
        raise UsageError("no column is given", remedy=_COLUMNS)
    return found


def asked_column(column: str, catalogue: Catalogue = ERA5_CATALOGUE) -> Variable:
    """The variable with this name."""
    if not isinstance(column, str):
        raise UsageError(f"a column is {column!r}, and not a name", remedy=_COLUMNS)
    return find_column(column, catalogue)


def asked_range(start: AskedTime | None, end: AskedTime | None) -> tuple[datetime | None, datetime | None]:
    """First instant of `start`, and first after `end`, in UTC; `end` includes its whole year, month or day."""
    return parse_time_range(time_text(start), time_text(end))


def asked_hour(time: AskedTime) -> datetime:
    """The full hour in UTC."""
    text = time_text(time)
    assert text is not None  # noqa: S101
    return parse_instant(text)


def asked_month(month: str | date) -> Month:
    """The month of `"2023-07"`, a date, or a `pandas.Period`."""
    return Month(month.year, month.month) if isinstance(month, date) else Month.parse(str(month))


def time_text(time: AskedTime | None) -> str | None:
    """The time as text; None: not given."""
    if isinstance(time, np.datetime64):
        time = time.astype("datetime64[s]").item()
    if time is None or isinstance(time, str):
        return time
    if isinstance(time, datetime):
        return time.isoformat(timespec="seconds")
    if isinstance(time, date):
        return time.isoformat()
    raise UsageError(
        f"{time!r} is not a time", remedy='Give text such as "2023-07-15T12:00", or an object of datetime or pandas.'
    )


def asked_area(area: AskedArea | None, grid: Grid = ERA5_GRID) -> Area | None:
    """The rectangle of degrees; None: not given."""
    if area is None or isinstance(area, Area):
        return area
    if isinstance(area, str):
        return Area.parse(area, grid)
    try:
        numbers = tuple(float(number) for number in area)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != _NUMBERS_OF_AREA or not all(map(isfinite, numbers)):
        raise UsageError(f"{area!r} is not an area", remedy=_AREA)
    return Area(*numbers, grid=grid)
