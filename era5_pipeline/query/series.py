"""Hours of one location, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.derived_variables import ordered
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.available import (
    absence_of,
    describe_months,
    hours_held,
    lacking_column,
    months_held,
    nearest_place,
    places_held,
    point_name,
    require_columns,
    some_row,
    span_held,
)
from era5_pipeline.query.packed_hours import read_hours
from era5_pipeline.query.snapshots import EVERYWHERE, locations_at
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable


@dataclass(frozen=True, eq=False)
class Series:
    """One location's rows: `times` (n,) ascending, in UTC, and `values` (n,) of each column.

    Values are float32 in the table's units; NULL is NaN. Hours without a row are left out.
    """

    times: npt.NDArray[np.datetime64]
    values: Mapping[str, npt.NDArray[np.float32]]


def read_series(
    connection: psycopg.Connection[Any],
    location: Location,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> Series:
    """All rows of a location with `start <= time < end` (aware; None: unlimited); `columns` None: those of the table.

    The connection is in autocommit mode.

    Raises:
        NoDataError: if there are none; it names what the table holds of the place, or the nearest one. Or if the table
            has no such column.
    """
    require_columns(connection, columns or ())
    columns = columns or variables_in_table(connection)
    names = [variable.column for variable in columns]
    times, values = read_hours(connection, location.location_id, names, start, end)
    if not times.size:
        raise no_series(connection, location, start, end)
    return Series(times, values)


def without_single_hours(
    connection: psycopg.Connection[Any], location: Location, start: datetime | None, end: datetime | None
) -> tuple[datetime | None, datetime | None, str | None]:
    """Narrow the range (aware; None: open) where single hours are far from the location's other months, and name these.

    A side that is given stays, and so does an open one if nothing is left out.
    """
    span = span_held(connection, LocationSet(((location.location_id, location.location_id + 1),)))
    left_out = span.apart_between(start, end) if span else None
    if span is None or left_out is None:
        return start, end, None
    return start or span.first.start, end or span.last.end, left_out


def require_values(
    connection: psycopg.Connection[Any],
    series: Series,
    asked: tuple[Variable, ...] | None,
    location: Location,
    description: str,
) -> tuple[Variable, ...]:
    """The columns that were asked for, or else those that have values; `description` is of the place.

    Raises:
        NoDataError: if all of them are NULL; it names the columns that the table has at the location.
    """
    variables = ordered(name for name, values in series.values.items() if np.isfinite(values).any())
    if variables:
        return asked or variables
    names = ", ".join(variable.column for variable in asked) if asked else "all columns"
    held = months_held(connection, LocationSet(((location.location_id, location.location_id + 1),)))
    why = lacking_column(connection, asked or (), held, (location.latitude, location.longitude))
    raise NoDataError(
        f"{description}: {names} {'is' if asked and len(asked) == 1 else 'are'} NULL in these "
        f"{len(series.times):,} hours{why.instead}",
        remedy=why.remedy,
    )


def no_series(
    connection: psycopg.Connection[Any], location: Location, start: datetime | None, end: datetime | None
) -> NoDataError:
    """The error for a location without a row in the range: what the table holds of it, or the nearest one."""
    place = f"location {location.location_id} ({point_name(location)})"
    months = months_held(connection, LocationSet(((location.location_id, location.location_id + 1),)))
    if months:
        why = absence_of(months, start, end)
        return NoDataError(
            f"{place}: the table has no row {_range(start, end)}; {why.instead}",
            remedy=why.remedy,
        )
    held = hours_held(connection, location.location_id)
    if held:
        return NoDataError(
            f"{place}: the table has no row {_range(start, end)}; it holds {held}",
            remedy="Ask for a time within that, or load the months that are missing: era5 load --from YYYY-MM.",
        )
    remedy = "Ask for a place in the area that was loaded, or load the months with a larger area."
    places = places_held(connection)
    if places:
        nearest, distance = nearest_place(places.ids(), location.latitude, location.longitude)
        there = months_held(connection, LocationSet(((nearest.location_id, nearest.location_id + 1),)))
        return NoDataError(
            f"{place}: the table has nothing there; the nearest of its {len(places):,} locations is "
            f"{point_name(nearest)}, {distance:,.0f} km away, and it holds {describe_months(there)}",
            remedy=remedy,
        )
    time, _ = some_row(connection)
    ids = locations_at(connection, time, "latitude", EVERYWHERE)["location_id"]
    nearest, distance = nearest_place(ids, location.latitude, location.longitude)
    return NoDataError(
        f"{place}: the table has nothing there; at {time:%Y-%m-%d %H:%M} UTC the nearest of its {len(ids):,} "
        f"locations is {point_name(nearest)}, {distance:,.0f} km away, and it holds "
        f"{hours_held(connection, nearest.location_id)}",
        remedy=remedy,
    )


def _range(start: datetime | None, end: datetime | None) -> str:
    texts = []
    if start:
        texts.append(f"from {start.astimezone(UTC):%Y-%m-%d %H:%M}")
    if end:
        texts.append(f"{'to ' if start else ''}before {end.astimezone(UTC):%Y-%m-%d %H:%M}")
    return " ".join((*texts, "UTC")) if texts else "at all"
