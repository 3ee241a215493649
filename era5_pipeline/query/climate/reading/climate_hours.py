"""The hours that an answer on climate is made of: those of a cell, or the weighted means of an area.

Only here does an answer read hours of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from psycopg import sql

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES, latitudes_of
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.available import (
    NO_LEDGER,
    describe_months,
    months_held,
    nearest_place,
    places_held,
    point_name,
    some_row,
)
from era5_pipeline.query.climate.daily_values import MERIDIONAL, PRECIPITATION, TEMPERATURE, WIND_SPEED, ZONAL
from era5_pipeline.query.fetch import fetch_array, nothing_loaded
from era5_pipeline.query.place_hours import read_place_hours
from era5_pipeline.query.snapshots import locations_at
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.layouts.layout import locations_where
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.ledger import multirange

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area, Location
    from era5_pipeline.model.variables import Variable

    Connection = psycopg.Connection[Any]

_WANTED = (TEMPERATURE, PRECIPITATION, ZONAL, MERIDIONAL)


def columns_for_climate(connection: Connection) -> tuple[Variable, ...]:
    """The variables that answers are made of, as far as the table has columns of them.

    Raises:
        NoDataError: if it has none of them, or there is no table.
    """
    there = variables_in_table(connection)
    if not there:
        raise nothing_loaded()
    found = tuple(variable for variable in there if variable.column in _WANTED)
    if not {TEMPERATURE, PRECIPITATION} & {variable.column for variable in found}:
        raise NoDataError(
            f"the table has neither {TEMPERATURE} nor {PRECIPITATION}: no month was loaded with them",
            remedy="Load months with them: era5 load --from YYYY-MM --variables t2m,tp,u10,v10.",
        )
    return found


def hours_of_cell(
    connection: Connection, location: Location, start: datetime | None, end: datetime | None
) -> pd.DataFrame:
    """The hours of a location with `start <= time < end` (aware; None: unlimited), as `hours_by_day` takes them.

    Raises:
        NoDataError: if there are none; it names what the table holds there, or the nearest location.
    """
    return read_place_hours(connection, location.location_id, columns_for_climate(connection), start, end)


def locations_of_area(connection: Connection, area: Area) -> LocationSet:
    """The locations of an area that most months have: all hours of an answer are means of the same locations.

    Raises:
        NoDataError: if the table holds none of them; it names the nearest one.
    """
    asked = LocationSet.of_area(area)
    try:
        rows = connection.execute(read_sql("area_locations"), {"location_ids": multirange(asked)}).fetchall()
    except NO_LEDGER:
        rows = []
    sets = [(months, LocationSet(tuple((run.lower, run.upper) for run in runs))) for runs, months in rows]
    if sets:
        return max(sets, key=lambda one: (one[0], len(one[1])))[1]
    held = places_held(connection)
    if not held:
        time, _ = some_row(connection)
        found = LocationSet.of_ids(locations_at(connection, time, "latitude", area)["location_id"])
        if found:
            return found
    raise _nothing_in(connection, area, held)


def _nothing_in(connection: Connection, area: Area, held: LocationSet) -> NoDataError:
    remedy = f"Load it: era5 load --from YYYY-MM --area {area}; or ask for an area within what the table holds."
    if not held:
        return NoDataError(f"area {area}: the table has nothing there", remedy=remedy)
    middle = (area.north + area.south) / 2, area.west + ((area.east - area.west) % 360.0) / 2
    nearest, distance = nearest_place(held.ids(), *middle)
    there = months_held(connection, LocationSet(((nearest.location_id, nearest.location_id + 1),)))
    return NoDataError(
        f"area {area}: the table has nothing there; the nearest of its {len(held):,} locations is "
        f"{point_name(nearest)}, {distance:,.0f} km from the middle, and it holds {describe_months(there)}",
        remedy=remedy,
    )


def hours_of_area(
    connection: Connection, locations: LocationSet, start: datetime | None, end: datetime | None
) -> pd.DataFrame:
    """The means over locations of each hour, weighted by the area of their cells, as `hours_of_cell` gives a cell's.

    Wind is the mean of the speeds. An hour that lacks a value at any of the locations is NaN: a mean over fewer of them
    would jump. The server computes them, in one statement.
    """
    there = {variable.column for variable in columns_for_climate(connection)}
    means = {column: sql.Identifier(column) for column in (TEMPERATURE, PRECIPITATION) if column in there}
    expressions: dict[str, sql.Composable] = dict(means)
    if {ZONAL, MERIDIONAL} <= there:
        expressions[WIND_SPEED] = sql.SQL("sqrt({0}::double precision ^ 2 + {1}::double precision ^ 2)").format(
            sql.Identifier(ZONAL), sql.Identifier(MERIDIONAL)
        )
    rows = np.unique((locations.ids() - 1) // N_LONGITUDES)
    query = sql.SQL(read_sql("area_hours")).format(
        columns=sql.SQL(", ").join(
            sql.SQL(
                "coalesce(CASE WHEN count({0}) = %(points)s THEN sum({0} * weight) / sum(weight) END, 'NaN')"
            ).format(expression)
            for expression in expressions.values()
        ),
        locations=locations_where(locations),
    )
    parameters = {
        "latitudes": latitudes_of(rows).astype(np.float64).tolist(),
        "weights": cell_weights(rows).tolist(),
        "points": len(locations),
        "start": start,
        "end": end,
    }
    dtype = np.dtype([("time", "i8"), *((name, "f8") for name in expressions)])
    with connection.transaction():
        # Compiling the expressions of a thousand partitions takes longer than the query.
        connection.execute("SET LOCAL jit = off")
        found = fetch_array(connection, query, parameters, dtype)
    index = pd.DatetimeIndex(found["time"].astype("datetime64[s]"), tz="UTC", name="time")
    return pd.DataFrame({name: found[name] for name in expressions}, index=index)


def cell_weights(rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
    """The areas of cells on these rows of the grid (latitude indices), relative to one at the equator.

    They are the cosine of latitude, except at the poles: a cell there is a cap of half the height.
    """
    latitudes = latitudes_of(rows).astype(np.float64)
    north = np.sin(np.deg2rad(np.minimum(latitudes + STEP_DEGREES / 2, 90.0)))
    south = np.sin(np.deg2rad(np.maximum(latitudes - STEP_DEGREES / 2, -90.0)))
    weights: npt.NDArray[np.float64] = (north - south) / (2 * np.sin(np.deg2rad(STEP_DEGREES / 2)))
    return weights


def variable_of(column: str) -> Variable:
    """The variable whose gaps stand for those of a column of an answer's hours: of wind speed, that of a component."""
    return BY_COLUMN[ZONAL if column == WIND_SPEED else column]
