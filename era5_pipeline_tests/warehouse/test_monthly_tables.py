"""Tests of `warehouse/monthly_tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.flat.monthly import is_total
from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly_tables import has_year, make_ready
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.monthly import assert_monthly, view_of
from era5_pipeline_tests.servers import fresh_database, fresh_role
from era5_pipeline_tests.sql_plans import scans_of
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.warehouse.test_views import undescribed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.flat_months import FlatMonths

WANTED: dict[str, Any] = {"timeout_seconds": 60, "on_wait": print}
YEARS, PLACES = range(2000, 2008), 3000
# Rows of `PLACES`, written month by month as loads do.
_FILL = """
WITH filled AS (
    SELECT place, month::date, (month - interval '1 month')::date AS before
    FROM generate_series(%(first)s::date, %(last)s::date, interval '1 month') month,
         generate_series(1, %(places)s) place
    ORDER BY month, place
), last_hours AS (
    INSERT INTO era5.monthly_last_hour (location_id, month, total_precipitation_last)
    SELECT place, before, 1 FROM filled
)
INSERT INTO era5.monthly_summary (location_id, month, temperature_2m_mean, temperature_2m_hours,
    total_precipitation_sum, total_precipitation_sum_hours)
SELECT place, month, mod(place, 7), 744, 100, 743 FROM filled
"""


@pytest.fixture(scope="module")
def filled(host_url: str) -> Iterator[str]:
    """The URL of a database with eight years of summaries of many places, without hours."""
    with fresh_database(host_url) as url:
        with Warehouse(url).connect() as connection:
            ensure_schema(connection)
            for year in YEARS:
                make_ready(connection, Month(year, 1), (), **WANTED)
                values = {"first": f"{year}-01-01", "last": f"{year}-12-01", "places": PLACES}
                connection.execute(_FILL, values)
                connection.execute(f"VACUUM (ANALYZE) era5_loads.monthly_summary_{year}".encode())
            connection.execute("VACUUM (ANALYZE) era5.monthly_last_hour")
        yield url


def years_read(url: str, query: str) -> dict[str, int]:
    """How many rows of each year's table the query reads."""
    found: dict[str, int] = {}
    for scan in scans_of(url, query):
        found[scan.table] = found.get(scan.table, 0) + scan.rows
    return {table: rows for table, rows in sorted(found.items()) if rows}


def test_a_place_is_found_without_reading_others(filled: str) -> None:
    query = "SELECT * FROM weather_monthly WHERE location_id = 1234 ORDER BY month"
    assert ask(filled, f"SELECT count(*) FROM ({query}) rows".encode().decode()) == 96
    read = years_read(filled, query)
    assert list(read) == ["monthly_last_hour", *(f"monthly_summary_{year}" for year in YEARS)]
    assert sum(read.values()) == 2 * 96


def test_some_years_of_a_place_read_no_others(filled: str) -> None:
    query = (
        "SELECT month, total_precipitation_sum FROM weather_monthly "
        "WHERE location_id = 1234 AND month BETWEEN '2003-01-01' AND '2004-12-01'"
    )
    read = years_read(filled, query)
    assert read == {"monthly_last_hour": 24, "monthly_summary_2003": 12, "monthly_summary_2004": 12}


def test_a_month_of_all_places_reads_that_month(filled: str) -> None:
    columns = "location_id, temperature_2m_mean, total_precipitation_sum"
    query = f"SELECT {columns} FROM weather_monthly WHERE month = '2003-07-01'"
    read = years_read(filled, query)
    assert list(read) == ["monthly_last_hour", "monthly_summary_2003"]
    # With some of the months around that are on the same pages.
    assert PLACES <= read["monthly_summary_2003"] < 4 * PLACES
    assert read["monthly_last_hour"] == PLACES


def test_last_hours_are_not_read_where_no_total_is_asked_for(filled: str) -> None:
    query = "SELECT location_id, month, temperature_2m_mean FROM weather_monthly WHERE month = '2003-12-01'"
    read = years_read(filled, query)
    assert list(read) == ["monthly_summary_2003"]
    assert read["monthly_summary_2003"] < 4 * PLACES
    assert len(scans_of(filled, query)) <= 2


def test_the_total_of_december_has_an_hour_of_the_next_year(filled: str) -> None:
    query = (
        "SELECT array_agg(ARRAY[total_precipitation_sum, total_precipitation_sum_hours] ORDER BY month) "
        "FROM weather_monthly WHERE location_id = 7 AND month IN ('2003-12-01', '2007-12-01')"
    )
    # 743 hours and the last one; that of the last December is not there.
    assert ask(filled, query) == [[101, 744], [100, 743]]


@pytest.mark.parametrize(
    ("eastward", "northward", "direction"),
    [(0, -1, 0), (-1, 0, 90), (0, 1, 180), (1, 0, 270), (1, 1, 225), (-1, -1, 45), (0, 0, None), (None, 1, None)],
)
def test_the_prevailing_direction_is_where_the_wind_comes_from(
    filled: str, eastward: float | None, northward: float | None, direction: float | None
) -> None:
    with psycopg.connect(filled) as connection:
        connection.execute(
            "UPDATE era5.monthly_summary SET zonal_wind_10m_mean = %s, meridional_wind_10m_mean = %s "
            "WHERE location_id = 1 AND month = '2003-07-01'",
            (eastward, northward),
        )
        row = connection.execute(
            "SELECT wind_direction_10m_prevailing, latitude, longitude FROM weather_monthly "
            "WHERE location_id = 1 AND month = '2003-07-01'"
        ).fetchone()
        connection.rollback()
    assert row is not None
    assert row[0] == (None if direction is None else pytest.approx(direction))
    assert row[1:] == (-90, -179.75)


# Removed objects, and objects made by others


def execute(warehouse: Warehouse, statement: str) -> None:
    with warehouse.connect() as connection:
        connection.execute(statement.encode())


def test_table_and_view_that_were_removed_are_made_by_the_next_load(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    execute(warehouse, "DROP VIEW weather_monthly; DROP TABLE era5.monthly_summary, era5.monthly_last_hour")
    execute(warehouse, "UPDATE era5.ledger SET has_summaries = false")
    load_month(warehouse, flat_months("2023-08"))
    assert len(view_of(warehouse)) == 6
    load_month(warehouse, flat_months(), force=True)
    assert_monthly(warehouse, months=2)


def test_views_over_it_and_privileges_stay_when_it_gets_columns(
    warehouse: Warehouse, host_url: str, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    with fresh_role(host_url) as role:
        execute(
            warehouse, f"CREATE VIEW mine AS SELECT * FROM weather_monthly; GRANT SELECT ON weather_monthly TO {role}"
        )
        with warehouse.connect() as connection:
            make_ready(connection, Month(2023, 7), ("dewpoint_2m", "snowmelt"), **WANTED)
            make_ready(connection, Month(2024, 7), ("dewpoint_2m", "snowmelt"), **WANTED)
        assert ask(warehouse.url, "SELECT count(*) FROM mine") == 6
        assert ask(warehouse.url, "SELECT count(snowmelt_sum) + count(dewpoint_2m_max) FROM weather_monthly") == 0
        assert ask(warehouse.url, "SELECT has_table_privilege(%s, 'weather_monthly', 'SELECT')", role) is True
        execute(warehouse, f"REVOKE SELECT ON weather_monthly FROM {role}; DROP VIEW mine")


def test_whoever_may_read_the_hours_may_read_the_summaries(
    warehouse: Warehouse, host_url: str, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    with fresh_role(host_url) as role:
        execute(warehouse, f"GRANT SELECT ON weather TO {role}")
        execute(warehouse, "DROP VIEW weather_monthly")
        load_month(warehouse, flat_months(), force=True)
        assert ask(warehouse.url, "SELECT has_table_privilege(%s, 'weather_monthly', 'SELECT')", role) is True
        assert ask(warehouse.url, "SELECT has_table_privilege(%s, 'weather_monthly', 'DELETE')", role) is False
        execute(warehouse, f"REVOKE SELECT ON weather, weather_monthly FROM {role}")


def test_a_year_is_made_while_others_read_and_columns_wait_for_them(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2022, 1), (), **WANTED)
        with warehouse.connect() as reader, reader.transaction():
            reader.execute("SELECT count(*) FROM weather_monthly").fetchone()
            said: list[str] = []
            make_ready(connection, Month(2023, 1), ("temperature_2m",), timeout_seconds=1, on_wait=said.append)
            assert has_year(connection, Month(2023, 12))
            assert said == []
            with pytest.raises(
                MonthLockedError, match=r"^columns of weather_monthly \(snowmelt\) cannot be added while"
            ):
                make_ready(connection, Month(2023, 1), ("snowmelt",), timeout_seconds=0, on_wait=said.append)
        make_ready(connection, Month(2023, 1), ("snowmelt",), **WANTED)
    assert ask(warehouse.url, "SELECT count(snowmelt_sum) FROM weather_monthly") == 0


def test_the_whole_catalogue_fits_into_the_table_and_the_view(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2022, 1), (), **WANTED)
        make_ready(connection, Month(2023, 1), BY_COLUMN, **WANTED)
    counted = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'weather_monthly'::regclass AND attnum > 0"
    totals = sum(is_total(variable) for variable in BY_COLUMN.values())
    assert ask(warehouse.url, counted) == 7 + 4 * len(BY_COLUMN) + 2 * totals
    assert undescribed(warehouse.url) == []
