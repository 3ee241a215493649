"""What is created in a database, what it may contain already, and which users may load."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from era5_pipeline.flat.formats import COLUMNS
from era5_pipeline.model import grid
from era5_pipeline.model.errors import ServerUnsuitableError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import database_of
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import assert_holds, rows_of_table
from era5_pipeline_tests.postgres.test_connect import as_role
from era5_pipeline_tests.servers import fresh_database, fresh_role
from era5_pipeline_tests.warehouse.loads import rows_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


def own(warehouse: Warehouse, role: str) -> None:
    """Make the role the owner of the database."""
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(
                sql.Identifier(database_of(warehouse.url)), sql.Identifier(role)
            )
        )


def schemas_of(warehouse: Warehouse, table: str) -> list[str]:
    with psycopg.connect(warehouse.url) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = %s AND relkind IN ('r', 'p')",
                (table,),
            )
        ]


def test_the_schema_is_created_once(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        first = ensure_schema(connection)
        connection.execute("INSERT INTO era5.load_attempt (month) VALUES ('2023-07-01')")
        assert ensure_schema(connection) == first
        assert connection.execute("SELECT count(*) FROM era5.load_attempt").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM weather").fetchone() == (0,)
        columns = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'weather'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        assert tuple(name for (name,) in columns) == COLUMNS
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.execute(locks).fetchone() == (0,)


def test_concurrent_sessions_create_the_schema_once(warehouse: Warehouse) -> None:
    made: list[Any] = []

    def make() -> None:
        try:
            with warehouse.connect() as connection:
                made.append(ensure_schema(connection).layout.name)
        except BaseException as error:  # noqa: BLE001  # the test asserts on it
            made.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1


# Tables of other projects


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("CREATE TABLE weather (city text)", "its column time is missing"),
        (
            "CREATE TABLE weather (time timestamptz, location_id int, latitude float, longitude float)",
            "its column latitude is double precision, not real",
        ),
        (
            "CREATE TABLE weather (time timestamptz, location_id int, latitude real, longitude real, "
            "temperature_2m real, zonal_wind_10m real, meridional_wind_10m real, total_cloud_cover real, "
            "total_precipitation real, snowfall real)",
            "neither partitioned by time nor a hypertable",
        ),
        (
            "CREATE TABLE weather (time timestamptz, location_id int, latitude real, longitude real, "
            "temperature_2m real, zonal_wind_10m real, meridional_wind_10m real, total_cloud_cover real, "
            "total_precipitation real, snowfall real) PARTITION BY RANGE (location_id)",
            "neither partitioned by time nor a hypertable",
        ),
        ("CREATE VIEW weather AS SELECT 1 AS time", "its column time is integer, not timestamp with time zone"),
    ],
    ids=["other columns", "other types", "plain", "partitioned by location", "view"],
)
def test_a_table_of_another_project_is_refused_and_not_changed(
    warehouse: Warehouse, flat_months: FlatMonths, table: LiteralString, problem: str
) -> None:
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(table)
    with pytest.raises(ServerUnsuitableError, match=f"{problem}\nUse another database, or rename that table"):
        load_month(warehouse, flat_months())
    assert rows_in(warehouse) == (1 if "VIEW" in table else 0)


def test_a_hypertable_of_another_project_is_refused_and_not_changed(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    if host.license is None:
        return
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION timescaledb")
        connection.execute("CREATE TABLE weather (time timestamptz NOT NULL, city text)")
        connection.execute("SELECT create_hypertable('weather', by_range('time'))")
        connection.execute("INSERT INTO weather VALUES ('2023-07-15Z', 'Jakarta')")
    with pytest.raises(ServerUnsuitableError, match="another table weather: its column location_id is missing"):
        load_month(warehouse, flat_months())
    assert rows_in(warehouse) == 1


def test_partitions_are_kept_if_timescaledb_is_added_later(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    """Also if somebody wants partitions although TimescaleDB is available."""
    with warehouse.connect() as connection:
        MonthPartitions().create(connection)
    assert load_month(warehouse, flat_months()).layout == "partitions"
    with warehouse.connect() as connection:
        if host.license is not None:
            connection.execute("CREATE EXTENSION timescaledb")
    assert load_month(warehouse, flat_months(seed=2)).layout == "partitions"
    assert_holds(warehouse, flat_months(seed=2))


def test_the_table_may_be_in_any_schema(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Climate Data"')
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET search_path = 'Climate Data', public").format(
                sql.Identifier(database_of(warehouse.url))
            )
        )
    for flat in (flat_months(), flat_months("2023-08"), flat_months(seed=2)):
        load_month(warehouse, flat)
    assert_holds(warehouse, flat_months("2023-08"), flat_months(seed=2))
    assert schemas_of(warehouse, "weather") == ['"Climate Data"']


# Users


def test_the_owner_of_a_database_can_load(
    warehouse: Warehouse, host: Host, host_url: str, flat_months: FlatMonths
) -> None:
    with fresh_role(host_url) as role:
        own(warehouse, role)
        theirs = Warehouse(as_role(warehouse.url, role))
        for flat in (flat_months(), flat_months(seed=2), flat_months("2023-08")):
            assert load_month(theirs, flat).layout == host.layout
            assert verify_month(theirs, flat) == ()
        assert_holds(theirs, flat_months(seed=2), flat_months("2023-08"))
        own(warehouse, "postgres")
        release(warehouse, role)


def test_a_user_named_era5_can_load(database_url: str, server_url: str, flat_months: FlatMonths) -> None:
    """This user's default search path begins with the ledger's schema."""
    warehouse = Warehouse(database_url)
    with fresh_role(server_url, name="era5") as role:
        own(warehouse, role)
        theirs = Warehouse(as_role(warehouse.url, role))
        for flat in (flat_months(), flat_months(seed=2)):
            load_month(theirs, flat)
        assert schemas_of(warehouse, "weather") == ["public"]
        assert_holds(warehouse, flat_months(seed=2))
        assert rows_of_table(theirs) == rows_of_table(warehouse)
        own(warehouse, "postgres")
        release(warehouse, role)


def release(warehouse: Warehouse, role: str) -> None:
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(sql.SQL("REASSIGN OWNED BY {} TO postgres").format(sql.Identifier(role)))
        connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))


def test_a_user_without_privileges_is_refused(warehouse: Warehouse, host_url: str, flat_months: FlatMonths) -> None:
    with fresh_role(host_url) as role:
        theirs = Warehouse(as_role(warehouse.url, role))
        with pytest.raises(ServerUnsuitableError, match=r"(permission denied|may not create the extension)") as refused:
            load_month(theirs, flat_months())
        assert "CREATE EXTENSION timescaledb" in refused.value.remedy or "grant the privilege" in refused.value.remedy
        load_month(warehouse, flat_months())
        with pytest.raises(ServerUnsuitableError, match=r"permission denied .*\n.*grant the privilege"):
            load_month(theirs, flat_months(seed=2))
    assert_holds(warehouse, flat_months())


def test_a_read_only_server_is_refused(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    database = sql.Identifier(database_of(warehouse.url))

    def execute(statement: LiteralString) -> None:
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(sql.SQL(statement).format(database))

    for _ in range(2):  # before the table exists, and after
        execute("ALTER DATABASE {} SET default_transaction_read_only = on")
        with pytest.raises(ServerUnsuitableError, match=r"read-only transaction\n.*read-only \(a standby\?\)"):
            load_month(warehouse, flat_months(seed=2))
        execute("ALTER DATABASE {} RESET default_transaction_read_only")
        load_month(warehouse, flat_months())
    assert_holds(warehouse, flat_months())


# The SQL function era5.location_id


@pytest.fixture(scope="module")
def located(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    with fresh_database(server_url) as url, Warehouse(url).connect() as connection:
        ensure_schema(connection)
        yield connection


def location_id(connection: psycopg.Connection[Any], latitude: float, longitude: float) -> int:
    row = connection.execute("SELECT era5.location_id(%s::float8, %s::float8)", (latitude, longitude)).fetchone()
    assert row is not None
    return int(row[0])


@settings(deadline=None, max_examples=200)
@given(st.integers(-360, 360), st.integers(-720, 1440))
@example(0, -720)
@example(0, 720)
@example(360, 1440)
@example(-360, -719)
@example(-120, 121)
def test_location_id_in_sql_is_that_of_the_grid(
    located: psycopg.Connection[Any], latitude_steps: int, longitude_steps: int
) -> None:
    """Longitudes may be any multiple: -180, 180 and 540 are the same meridian, as are 0 and 360."""
    latitude, longitude = latitude_steps / 4, longitude_steps / 4
    expected = grid.nearest_location(latitude, longitude).location_id
    assert location_id(located, latitude, longitude) == expected
    assert 1 <= expected <= grid.N_LOCATIONS


@settings(deadline=None, max_examples=200)
@given(st.floats(-90, 90), st.floats(-180, 360))
@example(0.125, 0.125)
@example(-0.125, -180.0)
@example(89.875, 359.875)
@example(0.0, -179.875)
def test_location_id_in_sql_is_that_of_the_nearest_grid_point(
    located: psycopg.Connection[Any], latitude: float, longitude: float
) -> None:
    assert location_id(located, latitude, longitude) == grid.nearest_location(latitude, longitude).location_id
