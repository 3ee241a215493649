"""Reading the warehouse: a location's series, an hour's map, and what they may be credited to.

Here: the two questions the table is laid out for, as numpy arrays. Not here: drawing or printing the answers.

Every function takes an open connection in autocommit mode, and changes nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model import grid
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]

ERA5_CREDIT = "Contains modified Copernicus Climate Change Service information; data ERA5, C3S/ECMWF"
SAMPLE_CREDIT = "Generated sample data, not ERA5"
UNKNOWN_CREDIT = "Source unknown"
_EVERYWHERE = grid.Area(90.0, -180.0, -90.0, 180.0)


@dataclass(frozen=True, eq=False)
class Series:
    """One location's rows: `times` (n,) ascending, in UTC, and of each column `values` (n,).

    Values are float32 in the table's units; NULL is NaN. Hours that the table lacks are left out.
    """

    times: npt.NDArray[np.datetime64]
    values: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One variable at one hour, on the smallest rectangle of the grid that holds all locations found.

    `latitudes` (n,) ascend from the south, `longitudes` (m,) from the west; both are degrees in float32, 0.25
    apart. Longitudes are in (-180, 180] but where the rectangle crosses the antimeridian: there they go on
    past 180, so that they ascend (180.25 is 179.75 W). `values` (n, m) float32 are in the table's units, NaN
    where there is no row or NULL.
    """

    time: datetime
    variable: Variable
    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray


def series(
    connection: psycopg.Connection[Any],
    location: grid.Location,
    columns: tuple[Variable, ...],
    start: datetime | None,
    end: datetime | None,
) -> Series:
    """All rows of a location with `start <= time < end` (aware; None: from the first, to the last).

    Raises:
        NoDataError: if there are none; it says what the table holds there, or where the nearest point is.
    """
    query = sql.SQL(read_sql("series")).format(
        columns=sql.SQL(", ").join(_or_nan(variable.column) for variable in columns)
    )
    dtype = np.dtype([("time", "i8"), *((variable.column, "f4") for variable in columns)])
    rows = _fetch(connection, query, {"location_id": location.location_id, "start": start, "end": end}, dtype)
    if not rows.size:
        raise _no_series(connection, location, start, end)
    return Series(
        times=rows["time"].astype("datetime64[s]"),
        values={variable.column: np.ascontiguousarray(rows[variable.column]) for variable in columns},
    )


def snapshot(
    connection: psycopg.Connection[Any], time: datetime, variable: Variable, area: grid.Area | None = None
) -> Snapshot:
    """One variable at the hour `time` (aware), in `area` or wherever the table has it.

    Raises:
        NoDataError: if there is no row; it says which hours the table holds, or where the nearest point is.
    """
    rows = _locations_at(connection, time, variable.column, area or _EVERYWHERE)
    if not rows.size:
        raise _no_snapshot(connection, time, area)
    return snapshot_of(time, variable, rows["location_id"], rows["value"])


def snapshot_of(
    time: datetime, variable: Variable, location_ids: npt.NDArray[np.int32], values: FloatArray
) -> Snapshot:
    """Arrange values (k,) at locations (k,), in any order, k > 0, on the rectangle of a `Snapshot`."""
    rows, columns = np.divmod(location_ids - 1, grid.N_LONGITUDES)
    south = int(rows.min())
    west, width = _narrowest_arc(columns)
    filled = np.full((int(rows.max()) - south + 1, width), np.nan, dtype=np.float32)
    filled[rows - south, (columns - west) % grid.N_LONGITUDES] = values
    return Snapshot(
        time=time.astimezone(UTC),
        variable=variable,
        latitudes=grid.latitudes_of(np.arange(south, south + filled.shape[0])),
        longitudes=grid.longitudes_of(np.arange(west, west + width)),
        values=filled,
    )


def credit(connection: psycopg.Connection[Any], start: datetime | None, end: datetime | None) -> str:
    """Give the line to print below data with `start <= time < end` (aware; None: open), by the ledger.

    Copernicus is credited only where the ledger says that a month came from elsewhere than the source
    `sample`.
    """
    first = start.astimezone(UTC).date().replace(day=1) if start else None
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date().replace(day=1) if end else None
    sources = _sources(connection, first, last)
    credits_ = {SAMPLE_CREDIT if source_kind(source).is_generated else ERA5_CREDIT for source in sources}
    if len(credits_) == 2:
        return f"{ERA5_CREDIT}; some months are generated sample data, not ERA5"
    return credits_.pop() if credits_ else UNKNOWN_CREDIT


def _sources(connection: psycopg.Connection[Any], first: date | None, last: date | None) -> list[str]:
    try:
        rows = connection.execute(read_sql("sources"), {"first": first, "last": last}).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
    return [source for (source,) in rows]


def _or_nan(column: str) -> sql.Composed:
    return sql.SQL("coalesce({}, 'NaN')").format(sql.Identifier(column))


def _fetch(
    connection: psycopg.Connection[Any],
    query: sql.Composed,
    parameters: Mapping[str, object],
    dtype: np.dtype[np.void],
) -> npt.NDArray[np.void]:
    """All rows, (n,), of a query whose columns are numbers without NULL and in the order of `dtype`."""
    # Numbers in binary, straight into the array: a global map, a million rows, takes 0.6 s beyond the
    # server's own time. COPY sends the same rows one block each, which takes four times as long to read in
    # Python.
    with _table_there(), connection.cursor(binary=True) as cursor:
        cursor.execute(query, parameters)
        return np.fromiter(cursor, dtype=dtype, count=cursor.rowcount)


@contextmanager
def _table_there() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.UndefinedTable:
        raise _nothing_loaded() from None


def _locations_at(
    connection: psycopg.Connection[Any], time: datetime, column: str, area: grid.Area
) -> npt.NDArray[np.void]:
    """`location_id` and `value`, (n,), of the rows at an hour within an area."""
    latitudes = area.latitude_indices()
    west, width = _narrowest_arc(area.longitude_indices())
    parameters = {
        "time": time,
        "first_id": int(grid.location_ids(latitudes[0], 0)),
        "last_id": int(grid.location_ids(latitudes[-1], grid.N_LONGITUDES - 1)),
        "columns": grid.N_LONGITUDES,
        "west_index": west,
        "width": width,
    }
    query = sql.SQL(read_sql("snapshot")).format(column=sql.Identifier(column))
    return _fetch(connection, query, parameters, np.dtype([("location_id", "i4"), ("value", "f4")]))


def _narrowest_arc(columns: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Find the western end and the width, in columns, of the shortest arc with all these columns."""
    found = np.unique(columns)
    gaps = np.diff(found, append=found[0] + grid.N_LONGITUDES)
    # The arc leaves out the widest gap. Of equally wide ones it is the one at the antimeridian, so that the
    # whole parallel begins there.
    widest = len(gaps) - 1 - int(np.argmax(gaps[::-1]))
    west = int(found[(widest + 1) % len(found)])
    return west, grid.N_LONGITUDES - int(gaps[widest]) + 1


def _nothing_loaded() -> NoDataError:
    return NoDataError(
        "the table weather is empty: no month has been loaded yet",
        remedy="Load a month first: era5 load --from 2023-01.",
    )


def _no_series(
    connection: psycopg.Connection[Any], location: grid.Location, start: datetime | None, end: datetime | None
) -> NoDataError:
    place = f"location {location.location_id} ({_point(location.latitude, location.longitude)})"
    held = _hours_held(connection, location.location_id)
    if held:
        return NoDataError(
            f"{place}: the table has no row {_range(start, end)}; it holds {held}",
            remedy="Ask for a time within that, or load the months that are missing: era5 load --from YYYY-MM.",
        )
    time, some_id = _some_row(connection)
    ids = _locations_at(connection, time, "latitude", _EVERYWHERE)["location_id"]
    nearest = _nearest(ids, location.latitude, location.longitude)
    return NoDataError(
        f"{place}: the table has nothing there; at {time:%Y-%m-%d %H:%M} UTC the nearest of its {len(ids):,} "
        f"locations is {nearest}, and it holds {_hours_held(connection, some_id)}",
        remedy="Ask for a place in the area that was loaded, or load the months with a larger area.",
    )


def _no_snapshot(connection: psycopg.Connection[Any], time: datetime, area: grid.Area | None) -> NoDataError:
    when = f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    ids = _locations_at(connection, time, "latitude", _EVERYWHERE)["location_id"]
    if area and ids.size:
        west, width = _narrowest_arc(area.longitude_indices())
        longitude = float(grid.longitudes_of((west + width // 2) % grid.N_LONGITUDES))
        nearest = _nearest(ids, (area.north + area.south) / 2, longitude)
        return NoDataError(
            f"{when}: the table has no location in {area}; the nearest of its {len(ids):,} is {nearest}",
            remedy="Ask for an area with that point, or leave the area out for all that the table holds.",
        )
    _, some_id = _some_row(connection)
    return NoDataError(
        f"{when}: the table has no row of that hour; it holds {_hours_held(connection, some_id)}",
        remedy=f"Ask for an hour within that, or load the month: era5 load --from {time.astimezone(UTC):%Y-%m}.",
    )


def _some_row(connection: psycopg.Connection[Any]) -> tuple[datetime, int]:
    """Find an hour and a location that the table holds.

    Raises:
        NoDataError: if it is empty.
    """
    with _table_there():
        row = connection.execute(read_sql("some_row")).fetchone()
    if row is None:
        raise _nothing_loaded()
    time, location_id = row
    return time.astimezone(UTC), location_id


def _hours_held(connection: psycopg.Connection[Any], location_id: int) -> str | None:
    """Give the first and last hour of a location as text, `2023-01-01 00:00 to ... UTC`, if it has any."""
    with _table_there():
        row = connection.execute(read_sql("hours_held"), {"location_id": location_id}).fetchone()
    if row is None or row[0] is None:
        return None
    first, last = (f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" for time in row)
    return f"{first} to {last} UTC"


def _nearest(location_ids: npt.NDArray[np.int32], latitude: float, longitude: float) -> str:
    """Name the point nearest to a place, on the sphere."""
    rows, columns = np.divmod(location_ids - 1, grid.N_LONGITUDES)
    latitudes, longitudes = grid.latitudes_of(rows), grid.longitudes_of(columns)
    south_north = np.sin(np.deg2rad((latitudes - latitude) / 2)) ** 2
    west_east = np.sin(np.deg2rad((longitudes - longitude) / 2)) ** 2
    haversine = south_north + np.cos(np.deg2rad(latitudes)) * np.cos(np.deg2rad(latitude)) * west_east
    best = int(np.argmin(haversine))
    return _point(float(latitudes[best]), float(longitudes[best]))


def _point(latitude: float, longitude: float) -> str:
    return f"latitude {latitude:g}, longitude {longitude:g}"


def _range(start: datetime | None, end: datetime | None) -> str:
    texts = []
    if start:
        texts.append(f"from {start.astimezone(UTC):%Y-%m-%d %H:%M}")
    if end:
        texts.append(f"{'to ' if start else ''}before {end.astimezone(UTC):%Y-%m-%d %H:%M}")
    return " ".join((*texts, "UTC")) if texts else "at all"
