"""One hour of one variable on a rectangle of the grid, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql

from era5_pipeline.model import grid
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.read.fetch import fetch_array, value_of
from era5_pipeline.read.held import (
    absence_of,
    hours_held,
    lacking_column,
    months_held,
    nearest_place,
    places_held,
    point_name,
    require_columns,
    some_row,
)
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]

EVERYWHERE = grid.Area(90.0, -180.0, -90.0, 180.0)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One variable at one hour, on the smallest rectangle of the grid that holds all locations found.

    `latitudes` (n,) ascend from the south, `longitudes` (m,) from the west; both are degrees in float32, 0.25 apart.
    Longitudes are in (-180, 180], except where the rectangle crosses the antimeridian: there they continue past 180, so
    that they ascend (180.25 is 179.75 W). `values` (n, m) float32 are in the table's units, NaN for NULL or no row.
    """

    time: datetime
    variable: Variable
    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray


def read_snapshot(
    connection: psycopg.Connection[Any], time: datetime, variable: Variable, area: grid.Area | None = None
) -> Snapshot:
    """One variable at the hour `time` (aware), in `area`, or at all locations of the table.

    The connection is in autocommit mode.

    Raises:
        NoDataError: if there is no row (the message names the months held there, or the nearest location), or the table
            has no such column.
    """
    require_columns(connection, (variable,))
    rows = locations_at(connection, time, variable.column, area or EVERYWHERE)
    if not rows.size:
        raise _no_snapshot(connection, time, area)
    return snapshot_of(time, variable, rows["location_id"], rows["value"])


def snapshot_of(
    time: datetime, variable: Variable, location_ids: npt.NDArray[np.int32], values: FloatArray
) -> Snapshot:
    """Arrange values (k,) at locations (k,), in any order, k > 0, on the rectangle of a `Snapshot`."""
    latitudes, longitudes, filled = on_rectangle(location_ids, values)
    return Snapshot(time.astimezone(UTC), variable, latitudes, longitudes, filled)


def on_rectangle(location_ids: npt.NDArray[np.int32], values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Arrange values as a `Snapshot` does: latitudes (n,), longitudes (m,), values (n, m), NaN between locations.

    The values (k,) belong to the locations (k,), in any order, k > 0.
    """
    rows, columns = np.divmod(location_ids - 1, grid.N_LONGITUDES)
    south = int(rows.min())
    west, width = narrowest_arc(columns)
    filled = np.full((int(rows.max()) - south + 1, width), np.nan, dtype=np.float32)
    filled[rows - south, (columns - west) % grid.N_LONGITUDES] = values
    latitudes = grid.latitudes_of(np.arange(south, south + filled.shape[0]))
    return latitudes, grid.longitudes_of(np.arange(west, west + width)), filled


def locations_at(
    connection: psycopg.Connection[Any], time: datetime, column: str, area: grid.Area
) -> npt.NDArray[np.void]:
    """`location_id` and `value`, (n,), of the rows at an hour (aware) within an area."""
    parameters = {"time": time, **rectangle_parameters(area)}
    query = sql.SQL(read_sql("snapshot")).format(column=value_of(column))
    return fetch_array(connection, query, parameters, np.dtype([("location_id", "i4"), ("value", "f4")]))


def rectangle_parameters(area: grid.Area) -> dict[str, int]:
    """Parameters for statements that select the locations of a rectangle, as in sql/snapshot.sql."""
    latitudes = area.latitude_indices()
    west, width = narrowest_arc(area.longitude_indices())
    return {
        "first_id": int(grid.location_ids(latitudes[0], 0)),
        "last_id": int(grid.location_ids(latitudes[-1], grid.N_LONGITUDES - 1)),
        "columns": grid.N_LONGITUDES,
        "west_index": west,
        "width": width,
    }


def narrowest_arc(columns: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Western end and width, in grid columns, of the shortest arc that contains all these columns (n,)."""
    found = np.unique(columns)
    gaps = np.diff(found, append=found[0] + grid.N_LONGITUDES)
    # The arc leaves out the widest gap; if several are equal, the last, so that a whole parallel starts at the
    # antimeridian.
    widest = len(gaps) - 1 - int(np.argmax(gaps[::-1]))
    west = int(found[(widest + 1) % len(found)])
    return west, grid.N_LONGITUDES - int(gaps[widest]) + 1


def describe_absent(
    connection: psycopg.Connection[Any], snapshot: Snapshot, area: grid.Area | None = None
) -> list[str]:
    """Describe which locations of `area` have no value in the snapshot; empty if all have one.

    Without an area, the locations are those held in that month by the ledger, or those with a row at that hour.

    Raises:
        NoDataError: if no location has a value; the message names the columns that the table holds there.
    """
    if not np.isfinite(snapshot.values).any():
        when = f"at {snapshot.time:%Y-%m-%d %H:%M} UTC"
        raise only_null(connection, snapshot.variable, {Month.of(snapshot.time)}, area, when)
    if snapshot.variable.extent != "everywhere":
        return []  # undefined over land, or where there is no cloud, ice or the like: no gap
    month = Month.of(snapshot.time)
    wanted = LocationSet() if area else places_held(connection, month)
    kind = f"places that the table holds in {month}"
    if not (area or wanted):
        ids = locations_at(connection, snapshot.time, "latitude", EVERYWHERE)["location_id"]
        wanted, kind = LocationSet.of_ids(ids), "places of that hour"
    drawn = drawn_places(snapshot.latitudes, snapshot.longitudes, snapshot.values)
    return line_of_absent(snapshot.variable, drawn, area, wanted, kind)


def drawn_places(latitudes: FloatArray, longitudes: FloatArray, values: FloatArray) -> LocationSet:
    """The locations that have a value on the rectangle of a `Snapshot`."""
    rows, columns = np.nonzero(np.isfinite(values))
    row, column = grid.latitude_indices(latitudes[:1]), grid.longitude_indices(longitudes[:1])
    return LocationSet.of_ids(grid.location_ids(rows + row, (columns + column) % grid.N_LONGITUDES))


def line_of_absent(
    variable: Variable, drawn: LocationSet, area: grid.Area | None, wanted: LocationSet, kind: str
) -> list[str]:
    """Describe which locations of the area (without one: of `wanted`) are not drawn."""
    if area:
        wanted, kind = LocationSet.of_area(area), f"grid points of {area}"
    absent = wanted - drawn
    if not absent:
        return []
    named = str(absent)
    which = "" if "within" in named else f": {named}"
    return [f"no {variable.column} at {len(absent):,} of {len(wanted):,} {kind}{which}"]


def only_null(
    connection: psycopg.Connection[Any],
    variable: Variable,
    months: Collection[Month],
    area: grid.Area | None,
    when: str,
) -> NoDataError:
    """The error for rows of these months that have no value; `when` ends a clause."""
    there = LocationSet.of_area(area) if area else None
    held = {one: columns for one, columns in months_held(connection, there).items() if one in months}
    why = lacking_column(connection, (variable,), held, _middle(area) if area else None)
    return NoDataError(f"{variable.column} is NULL everywhere {when}{why.instead}", remedy=why.remedy)


def _no_snapshot(connection: psycopg.Connection[Any], time: datetime, area: grid.Area | None) -> NoDataError:
    when = f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return no_rows(connection, time, time + timedelta(hours=1), area, when, "that hour")


def no_rows(
    connection: psycopg.Connection[Any],
    start: datetime,
    end: datetime,
    area: grid.Area | None,
    when: str,
    which: str,
) -> NoDataError:
    """The error for no row with `start <= time < end` (aware); `when` names that time, `which` the kind of row."""
    places = places_held(connection)
    if not places:
        return _no_row(connection, start, area, when, which)
    months = months_held(connection, LocationSet.of_area(area) if area else None)
    if area and not months:
        nearest, distance = nearest_place(places.ids(), *_middle(area))
        return NoDataError(
            f"{when}: the table has no location in {area}; the nearest of its {len(places):,} is "
            f"{point_name(nearest)}, {distance:,.0f} km from the middle",
            remedy="Ask for an area with that point, or leave the area out for all that the table holds.",
        )
    why = absence_of(months, start, end)
    where = f" in {area}" if area else ""
    return NoDataError(f"{when}: the table has no row of {which}{where}; {why.instead}", remedy=why.remedy)


def _no_row(
    connection: psycopg.Connection[Any], time: datetime, area: grid.Area | None, when: str, which: str
) -> NoDataError:
    """The error for a table whose ledger does not say what the table holds."""
    ids = locations_at(connection, time, "latitude", EVERYWHERE)["location_id"]
    if area and ids.size:
        nearest, distance = nearest_place(ids, *_middle(area))
        return NoDataError(
            f"{when}: the table has no location in {area}; the nearest of its {len(ids):,} is "
            f"{point_name(nearest)}, {distance:,.0f} km from the middle",
            remedy="Ask for an area with that point, or leave the area out for all that the table holds.",
        )
    _, some_id = some_row(connection)
    return NoDataError(
        f"{when}: the table has no row of {which}; location {some_id} holds {hours_held(connection, some_id)}",
        remedy=f"Ask for a time within that, or load the month: era5 load --from {time.astimezone(UTC):%Y-%m}.",
    )


def _middle(area: grid.Area) -> tuple[float, float]:
    """Latitude and longitude of the centre of an area."""
    west, width = narrowest_arc(area.longitude_indices())
    longitude = float(grid.longitudes_of((west + width // 2) % grid.N_LONGITUDES))
    return (area.north + area.south) / 2, longitude
