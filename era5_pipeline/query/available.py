"""What the table holds instead of the requested data, for the messages of `NoDataError`."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model import grid
from era5_pipeline.query.fetch import nothing_loaded, table_required
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt
    import psycopg


def some_row(connection: psycopg.Connection[Any]) -> tuple[datetime, int]:
    """An hour and a location that the table holds.

    Raises:
        NoDataError: if it is empty.
    """
    with table_required():
        row = connection.execute(read_sql("some_row")).fetchone()
    if row is None:
        raise nothing_loaded()
    time, location_id = row
    return time.astimezone(UTC), location_id


def hours_held(connection: psycopg.Connection[Any], location_id: int) -> str | None:
    """First and last hour of a location as text, `2023-01-01 00:00 to ... UTC`; None if it has no rows."""
    with table_required():
        row = connection.execute(read_sql("hours_held"), {"location_id": location_id}).fetchone()
    if row is None or row[0] is None:
        return None
    first, last = (f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" for time in row)
    return f"{first} to {last} UTC"


def nearest_point(location_ids: npt.NDArray[np.int32], latitude: float, longitude: float) -> str:
    """Name of the location nearest to a point, by great-circle distance; `location_ids` (n,), n > 0."""
    rows, columns = np.divmod(location_ids - 1, grid.N_LONGITUDES)
    latitudes, longitudes = grid.latitudes_of(rows), grid.longitudes_of(columns)
    south_north = np.sin(np.deg2rad((latitudes - latitude) / 2)) ** 2
    west_east = np.sin(np.deg2rad((longitudes - longitude) / 2)) ** 2
    haversine = south_north + np.cos(np.deg2rad(latitudes)) * np.cos(np.deg2rad(latitude)) * west_east
    best = int(np.argmin(haversine))
    return point_name(float(latitudes[best]), float(longitudes[best]))


def point_name(latitude: float, longitude: float) -> str:
    """A point as text."""
    return f"latitude {latitude:g}, longitude {longitude:g}"
