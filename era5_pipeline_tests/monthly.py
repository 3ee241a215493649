"""The view `weather_monthly`, compared with SQL over the hours of the table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from era5_pipeline.model.variables import BY_COLUMN

if TYPE_CHECKING:
    from datetime import date

    from era5_pipeline.postgres.connect import Warehouse

    Key = tuple[int, date]

_TOTALS = {"total_precipitation", "snowfall", "surface_solar_radiation_downwards", "snowmelt"}
# All variables at once, by the month of the time.
_STATISTICS = """
    SELECT location_id, (date_trunc('month', time, 'UTC') AT TIME ZONE 'UTC')::date AS month,
           min(latitude) AS latitude, min(longitude) AS longitude,
           avg(sqrt(zonal_wind_10m::float8 ^ 2 + meridional_wind_10m::float8 ^ 2)) AS wind_speed_10m_mean, {columns}
    FROM {weather} GROUP BY location_id, 2
"""
_OF_A_VARIABLE = "avg({0}::float8) AS {mean}, min({0}) AS {min}, max({0}) AS {max}, count({0}) AS {hours}"
# A total belongs to the month in which its hour began.
_OF_A_TOTAL = """
    SELECT location_id, (date_trunc('month', time - interval '1 hour', 'UTC') AT TIME ZONE 'UTC')::date AS month,
           sum({0}::float8) AS {sum}, count({0}) AS {sum_hours}
    FROM {weather} GROUP BY location_id, 2
"""


def view_of(warehouse: Warehouse) -> dict[Key, dict[str, Any]]:
    """Every row of the view, by location and month."""
    with psycopg.connect(warehouse.url) as connection:
        return _by_key(connection, sql.SQL(warehouse.dataset.sql("SELECT * FROM {weather}_monthly")))


def hours_of(warehouse: Warehouse) -> dict[Key, dict[str, Any]]:
    """What the view should hold, by plain SQL over the hours, in double precision."""
    with psycopg.connect(warehouse.url, options="-c TimeZone=Asia/Kolkata") as connection:
        dataset = warehouse.dataset
        names = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass", (dataset.table,)
        ).fetchall()
        columns = [name for (name,) in names if name in BY_COLUMN]
        statistics = sql.SQL(", ").join(
            _of(_OF_A_VARIABLE, column, "mean", "min", "max", "hours") for column in columns
        )
        found = _by_key(connection, sql.SQL(dataset.sql(_STATISTICS)).format(columns=statistics))
        for column in _TOTALS.intersection(columns):
            totals = _by_key(connection, _of(dataset.sql(_OF_A_TOTAL), column, "sum", "sum_hours"))
            for key, row in found.items():
                row.update(totals.get(key, {f"{column}_sum": None, f"{column}_sum_hours": 0}))
    for row in found.values():
        row["wind_direction_10m_prevailing"] = _direction(row["zonal_wind_10m_mean"], row["meridional_wind_10m_mean"])
    return found


def _of(template: str, column: str, *statistics: str) -> sql.Composed:
    named = {name: sql.Identifier(f"{column}_{name}") for name in statistics}
    return sql.SQL(template).format(sql.Identifier(column), **named)


def _by_key(connection: psycopg.Connection[Any], query: sql.SQL | sql.Composed) -> dict[Key, dict[str, Any]]:
    with connection.cursor(row_factory=dict_row, binary=True) as cursor:
        rows = cursor.execute(query).fetchall()
    found = {(row["location_id"], row["month"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def _direction(eastward: float | None, northward: float | None) -> float | None:
    """Where the wind comes from: 0 north, 90 east."""
    if eastward is None or northward is None:
        return None
    return math.degrees(math.atan2(-eastward, -northward)) % 360


def assert_monthly(warehouse: Warehouse, *, months: int | None = None) -> None:
    """The view has a row for each location and month of the hours, with their values."""
    actual, expected = view_of(warehouse), hours_of(warehouse)
    assert actual.keys() == expected.keys()
    if months is not None:
        assert len({month for _, month in actual}) == months
    for key, row in expected.items():
        own = actual[key]
        assert own.keys() == row.keys() | {"month_hours"}
        for name, value in row.items():
            if name.endswith("hours") and value == 0:
                assert own[name] in (0, None), (key, name)  # None: the load did not bring the variable
            elif isinstance(value, float):
                assert own[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (key, name)
            else:
                assert own[name] == value, (key, name)
