"""The questions about one place, each timed from a new connection: all hours, yearly means, a year."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.bench.asking.netcdf_year import read_year, unpack
from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.query.place_hours import read_place_hours

if TYPE_CHECKING:
    import pandas as pd
    import psycopg

    from era5_pipeline.bench.asking.asked_table import AskedTable
    from era5_pipeline.bench.cells import Numbers

# The mean temperature of each year, from the hours and from the monthly summaries.
FROM_HOURS = """
    SELECT extract(year FROM time AT TIME ZONE 'UTC')::integer AS year, avg(temperature_2m)
    FROM weather
    WHERE location_id = %(location_id)s
    GROUP BY year
    ORDER BY year
"""
FROM_SUMMARIES = """
    SELECT extract(year FROM month)::integer AS year,
           sum(temperature_2m_mean * temperature_2m_hours) / sum(temperature_2m_hours)
    FROM weather_monthly
    WHERE location_id = %(location_id)s
    GROUP BY year
    ORDER BY year
"""
_REPEATS = 5
_TOLERANCE = 1e-3  # of every unit; the table's float32 are computed in other steps than xarray's


def all_hours(table: AskedTable) -> tuple[int, Numbers]:
    """All hours of the place, all variables, as a table of pandas; returns their number and the times."""
    import pandas as pd  # noqa: F401, PLC0415  # imported before the clock starts, as a program does once

    table.load()
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        hours = read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, None, None)
        seconds = time.perf_counter() - started
        again = time.perf_counter()
        read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, None, None)
        connected = time.perf_counter() - again
    wanted = sum(month.hours for month in table.months)
    if len(hours) != wanted:
        raise CannotRunError(f"{len(hours):,} hours were read, of {wanted:,}")
    return len(hours), {"seconds": seconds, "connected_seconds": connected}


def year_of_hours(table: AskedTable) -> tuple[int, Numbers]:
    """The last year of the place, all variables; returns the number of hours and the times."""
    import pandas as pd  # noqa: F401, PLC0415  # imported before the clock starts

    table.load()
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        hours = _last_year(connection, table)
        seconds = time.perf_counter() - started
        times = []
        for _ in range(_REPEATS):
            again = time.perf_counter()
            _last_year(connection, table)
            times.append(time.perf_counter() - again)
    return len(hours), {"seconds": seconds, "connected_seconds": median(times)}


def year_from_netcdf(table: AskedTable) -> tuple[int, Numbers]:
    """The same year from the months' netCDF files, which are unzipped before and in the page cache.

    Raises:
        CannotRunError: if the values are not those of the table.
    """
    table.load()
    if not table.netcdf_files:
        table.netcdf_files = unpack(table.year_files, table.folder / "netcdf")
    with table.target.warehouse.connect() as connection:
        expected = _last_year(connection, table)
    read_year(table.netcdf_files, table.place, DEFAULT_VARIABLES)
    started = time.perf_counter()
    values = read_year(table.netcdf_files, table.place, DEFAULT_VARIABLES)
    seconds = time.perf_counter() - started
    for column, found in values.items():
        if not np.allclose(found, expected[column].to_numpy(), atol=_TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{column} is not that of the table")
    return len(expected), {"seconds": seconds}


def _last_year(connection: psycopg.Connection[Any], table: AskedTable) -> pd.DataFrame:
    first, end = table.year[0].start, table.year[-1].end
    return read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, first, end)


def yearly_means(table: AskedTable, statement: str) -> tuple[int, Numbers]:
    """The mean temperature of each year, by one of the statements; returns the number of hours and the times.

    Raises:
        CannotRunError: if the means are not those of the hours.
    """
    table.load()
    parameters = {"location_id": table.place.location_id}
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        means = connection.execute(statement, parameters).fetchall()
        seconds = time.perf_counter() - started
        again = time.perf_counter()
        connection.execute(statement, parameters).fetchall()
        connected = time.perf_counter() - again
        _require_means(connection, table, means)
    return sum(month.hours for month in table.months), {"seconds": seconds, "connected_seconds": connected}


def _require_means(connection: psycopg.Connection[Any], table: AskedTable, found: list[tuple[Any, ...]]) -> None:
    """Require the means of pandas over the hours."""
    hours = read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES[:1], None, None)
    years = hours.index.to_numpy(dtype="datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    expected = hours.iloc[:, 0].astype(np.float64).groupby(years).mean()
    if [year for year, _ in found] != expected.index.tolist() or not np.allclose(
        [mean for _, mean in found], expected, atol=_TOLERANCE
    ):
        raise CannotRunError("the means are not those of the hours")
