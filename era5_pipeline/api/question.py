"""Requests of Python users: places, times, columns and areas, checked and converted to the model's types."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.cells import CellChoice, cell_of
from era5_pipeline.model.derived_variables import find_column, find_columns, ordered
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.places import AskedPlace, find_place
from era5_pipeline.model.times import parse_instant, parse_time_range

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable

# A time as given by a user: `"2023"`, `"2023-07"`, `"2023-07-15T12:00"`, or an object of datetime, numpy or pandas.
# Without a zone it is in UTC.
AskedTime = str | date | np.datetime64
AskedArea = str | tuple[float, float, float, float] | Area

_AREA = 'An area is "NORTH/WEST/SOUTH/EAST", such as "-5/106/-8/108", or a tuple of these four numbers.'
_PLACE = 'Give place="Jakarta", or latitude=-6.2, longitude=106.8.'
_NUMBERS_OF_AREA = 4


def asked_place(
    place: str | None, latitude: float | None, longitude: float | None, cell: CellChoice = "nearest"
) -> AskedPlace:
    """The place for a name or coordinates, with its grid cell.

    Raises:
        UsageError: if neither or both are given, the place is unknown, or the point impossible.
    """
    if cell not in ("nearest", "land"):
        raise UsageError(f"cell is {cell!r}", remedy='It is "nearest", or "land" for the nearest that is half land.')
    if place is not None:
        if latitude is not None or longitude is not None:
            raise UsageError("a place and coordinates exclude each other", remedy=_PLACE)
        if not isinstance(place, str):
            raise UsageError(f"a place is text, not {type(place).__name__}", remedy=_PLACE)
        found = find_place(place)
        return AskedPlace(found, found.latitude, found.longitude, cell_of(found.latitude, found.longitude, cell))
    if latitude is None or longitude is None:
        none = latitude is None and longitude is None
        raise UsageError(
            "no place is given" if none else f"{'latitude' if latitude is None else 'longitude'} is missing",
            remedy=_PLACE,
        )
    north, east = _degrees("latitude", latitude), _degrees("longitude", longitude)
    return AskedPlace(None, north, east, cell_of(north, east, cell))


def _degrees(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise UsageError(f"{name} is {value!r}, and no number", remedy=_PLACE)
    return float(value)


def asked_columns(columns: str | Iterable[str] | None) -> tuple[Variable, ...] | None:
    """The variables with these names, in any form that `era5 variables` lists, in table order; None: not given.

    Raises:
        UsageError: if a name is unknown, or the list is empty.
    """
    if columns is None:
        return None
    remedy = 'Give names such as "temperature_2m", or ["t2m", "tp"]; era5 variables lists them.'
    if isinstance(columns, str):
        found = find_columns(columns)
    else:
        names = list(columns) if isinstance(columns, Iterable) else [columns]
        if not all(isinstance(name, str) for name in names):
            raise UsageError(f"columns are {columns!r}, and not names", remedy=remedy)
        found = ordered(find_column(name).column for name in names)
    if not found:
        raise UsageError("no column is given", remedy=remedy)
    return found


def asked_column(column: str) -> Variable:
    """The variable with this name.

    Raises:
        UsageError: if the name is unknown.
    """
    found = asked_columns([column])
    assert found is not None  # noqa: S101
    return found[0]


def asked_range(start: AskedTime | None, end: AskedTime | None) -> tuple[datetime | None, datetime | None]:
    """First instant of `start`, and first after `end`, in UTC; `end` includes its whole year, month or day.

    Raises:
        UsageError: if one is not a time, or `end` is before `start`.
    """
    return parse_time_range(_time_text(start), _time_text(end))


def asked_hour(time: AskedTime) -> datetime:
    """The full hour in UTC.

    Raises:
        UsageError: if the time is not a full hour.
    """
    text = _time_text(time)
    assert text is not None  # noqa: S101
    return parse_instant(text)


def asked_month(month: str | date) -> Month:
    """The month of `"2023-07"`, a date, or a `pandas.Period`.

    Raises:
        UsageError: if it is not a month.
    """
    return Month(month.year, month.month) if isinstance(month, date) else Month.parse(str(month))


def _time_text(time: AskedTime | None) -> str | None:
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


def asked_area(area: AskedArea | None) -> Area | None:
    """The rectangle of degrees; None: not given.

    Raises:
        UsageError: if it is not a rectangle.
    """
    if area is None or isinstance(area, Area):
        return area
    if isinstance(area, str):
        return Area.parse(area)
    try:
        numbers = tuple(float(number) for number in area)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != _NUMBERS_OF_AREA or not all(map(isfinite, numbers)):
        raise UsageError(f"{area!r} is not an area", remedy=_AREA)
    return Area(*numbers)
