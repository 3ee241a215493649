"""What is created in a database and described there, what it may contain already, and which users may load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from era5_pipeline.model import grid
from era5_pipeline.model.errors import ServerUnsuitableError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import database_of
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import COLUMNS, assert_holds, rows_of_table
from era5_pipeline_tests.postgres.test_connect import as_role
from era5_pipeline_tests.servers import fresh_database, fresh_role
from era5_pipeline_tests.warehouse.loads import ask, rows_in
from era5_pipeline_tests.warehouse.test_views import undescribed

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
    found = (
        "SELECT array_agg(relnamespace::regnamespace::text) FROM pg_class WHERE relname = %s AND relkind IN ('r', 'p')"
    )
    return list(ask(warehouse.url, found, table))


def test_the_schema_is_created_once(empty_warehouse: Warehouse) -> None:
    with empty_warehouse.connect() as connection:
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
    empty_warehouse: Warehouse, flat_months: FlatMonths, table: LiteralString, problem: str
) -> None:
    with psycopg.connect(empty_warehouse.url, autocommit=True) as connection:
        connection.execute(table)
    with pytest.raises(ServerUnsuitableError, match=f"{problem}\nUse another database, or rename that table"):
        load_month(empty_warehouse, flat_months())
    assert rows_in(empty_warehouse) == (1 if "VIEW" in table else 0)


def test_a_hypertable_of_another_project_is_refused_and_not_changed(
    empty_warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    if host.license is None:
        return
    with psycopg.connect(empty_warehouse.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION timescaledb")
        connection.execute("CREATE TABLE weather (time timestamptz NOT NULL, city text)")
        connection.execute("SELECT create_hypertable('weather', by_range('time'))")
        connection.execute("INSERT INTO weather VALUES ('2023-07-15Z', 'Jakarta')")
    with pytest.raises(ServerUnsuitableError, match="another table weather: its column location_id is missing"):
        load_month(empty_warehouse, flat_months())
    assert rows_in(empty_warehouse) == 1


def test_partitions_are_kept_if_timescaledb_is_added_later(
    empty_warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    """Also if somebody wants partitions although TimescaleDB is available."""
    with empty_warehouse.connect() as connection:
        MonthPartitions().create(connection)
    assert load_month(empty_warehouse, flat_months()).layout == "partitions"
    with empty_warehouse.connect() as connection:
        if host.license is not None:
            connection.execute("CREATE EXTENSION timescaledb")
    assert load_month(empty_warehouse, flat_months(seed=2)).layout == "partitions"
    assert_holds(empty_warehouse, flat_months(seed=2))


def test_the_table_may_be_in_any_schema(empty_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    with psycopg.connect(empty_warehouse.url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Climate Data"')
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET search_path = 'Climate Data', public").format(
                sql.Identifier(database_of(empty_warehouse.url))
            )
        )
    for flat in (flat_months(), flat_months("2023-08"), flat_months(seed=2)):
        load_month(empty_warehouse, flat)
    assert_holds(empty_warehouse, flat_months("2023-08"), flat_months(seed=2))
    assert schemas_of(empty_warehouse, "weather") == ['"Climate Data"']


# Users


def test_the_owner_of_a_database_can_load(
    empty_warehouse: Warehouse, host: Host, host_url: str, flat_months: FlatMonths
) -> None:
    with fresh_role(host_url) as role:
        own(empty_warehouse, role)
        theirs = Warehouse(as_role(empty_warehouse.url, role))
        for flat in (flat_months(), flat_months(seed=2), flat_months("2023-08")):
            assert load_month(theirs, flat).layout == host.layout
            assert verify_month(theirs, flat) == ()
        assert_holds(theirs, flat_months(seed=2), flat_months("2023-08"))
        own(empty_warehouse, "postgres")
        release(empty_warehouse, role)


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


def test_a_user_without_privileges_is_refused(
    empty_warehouse: Warehouse, host_url: str, flat_months: FlatMonths
) -> None:
    with fresh_role(host_url) as role:
        theirs = Warehouse(as_role(empty_warehouse.url, role))
        with pytest.raises(ServerUnsuitableError, match=r"(permission denied|may not create the extension)") as refused:
            load_month(theirs, flat_months())
        assert "CREATE EXTENSION timescaledb" in refused.value.remedy or "grant the privilege" in refused.value.remedy
        load_month(empty_warehouse, flat_months())
        with pytest.raises(ServerUnsuitableError, match=r"permission denied .*\n.*grant the privilege"):
            load_month(theirs, flat_months(seed=2))
    assert_holds(empty_warehouse, flat_months())


def test_a_read_only_server_is_refused(empty_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    database = sql.Identifier(database_of(empty_warehouse.url))

    def execute(statement: LiteralString) -> None:
        with psycopg.connect(empty_warehouse.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(sql.SQL(statement).format(database))

    for _ in range(2):  # before the table exists, and after
        execute("ALTER DATABASE {} SET default_transaction_read_only = on")
        with pytest.raises(ServerUnsuitableError, match=r"read-only transaction\n.*read-only \(a standby\?\)"):
            load_month(empty_warehouse, flat_months(seed=2))
        execute("ALTER DATABASE {} RESET default_transaction_read_only")
        load_month(empty_warehouse, flat_months())
    assert_holds(empty_warehouse, flat_months())


# Comments

# Tables and views of the project, whatever they are called: all of its schema, and the table weather.
_OWN_RELATIONS = """
    SELECT c.oid, c.oid::regclass::text AS name FROM pg_class c
    WHERE c.relkind IN ('r', 'p', 'v', 'm')
      AND (c.relnamespace = to_regnamespace('era5')
           OR c.oid IN (to_regclass('weather'), to_regclass('weather_monthly')))
"""

# Not of a version of the schema era5: these get their columns, with comments, from loads.
_OF_LOADS = "name ~ '^(era5[.])?(weather|monthly|missing_hours|preliminary_hours|location|variable|catalogue)'"


def comments_of(warehouse: Warehouse, relation: str) -> list[tuple[str, str, str]]:
    """List number and text of the relation's comments, and the transaction that wrote each."""
    with psycopg.connect(warehouse.url) as connection:
        return connection.execute(
            "SELECT objsubid::text, description, xmin::text FROM pg_description "
            "WHERE objoid = to_regclass(%s) AND classoid = 'pg_class'::regclass ORDER BY 1",
            (relation,),
        ).fetchall()


def remove_descriptions(warehouse: Warehouse) -> None:
    """Remove what loads make by themselves: comments of tables other than the ledger, and functions."""
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM pg_description WHERE classoid = 'pg_class'::regclass "
            f"AND objoid IN (SELECT oid FROM ({_OWN_RELATIONS}) AS own WHERE {_OF_LOADS})"
        )
        connection.execute("DROP FUNCTION era5.location_id, era5.at, era5.refuse_coordinates")
        connection.execute(
            "CREATE FUNCTION era5.location_id(latitude double precision, longitude double precision) "
            "RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT 1'"
        )


def test_the_comment_on_location_id_has_its_formula(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    text = next(text for number, text, _ in comments_of(warehouse, "weather") if number == "2")
    formula = text.split(": ")[1].split(", or")[0]
    with warehouse.connect() as connection:
        places = "(VALUES (-90.0, -179.75), (90.0, 180.0), (0.0, 0.0), (51.5, -0.25)) AS place (latitude, longitude)"
        rows = connection.execute(f"SELECT {formula} = era5.at(latitude, longitude) FROM {places}").fetchall()
    assert rows == [(True,)] * 4


def test_comments_and_functions_that_were_removed_are_made_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    remove_descriptions(warehouse)
    assert len(undescribed(warehouse.url)) > len(COLUMNS)
    load_month(warehouse, flat_months("2023-08"))
    assert undescribed(warehouse.url) == []
    with warehouse.connect() as connection:
        assert connection.execute("SELECT era5.at(-30, 30.25), era5.location_id(-30, 30.25)").fetchone() == (
            346441,
            346441,
        )
    assert_holds(warehouse, flat_months(), flat_months("2023-08"))


def test_comments_are_written_once(warehouse: Warehouse) -> None:
    """Also if others added columns, which have no comment."""
    with warehouse.connect() as connection:
        ensure_schema(connection)
        connection.execute("ALTER TABLE weather ADD COLUMN speed real")
        written = [comments_of(warehouse, name) for name in ("weather", "era5.ledger", "era5.load_attempt")]
        assert all(written)
        ensure_schema(connection)
    assert [comments_of(warehouse, name) for name in ("weather", "era5.ledger", "era5.load_attempt")] == written


def test_a_user_who_is_not_the_owner_leaves_comments_to_the_owner(warehouse: Warehouse, host_url: str) -> None:
    with warehouse.connect() as connection:
        layout = ensure_schema(connection).layout
    remove_descriptions(warehouse)
    with fresh_role(host_url) as role:
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA era5 TO {}").format(sql.Identifier(role)))
        with Warehouse(as_role(warehouse.url, role)).connect() as connection:
            assert ensure_schema(connection).layout == layout
        release(warehouse, role)
    assert len(undescribed(warehouse.url)) > len(COLUMNS)


def test_comments_wait_for_a_locked_table_no_longer_than_a_second(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    remove_descriptions(warehouse)
    with psycopg.connect(warehouse.url) as other, warehouse.connect() as connection:
        other.execute("LOCK TABLE weather IN SHARE UPDATE EXCLUSIVE MODE")
        ensure_schema(connection)  # it would wait for ever: the other session goes on below
        assert "weather" in undescribed(warehouse.url)
        other.rollback()
        ensure_schema(connection)
    assert undescribed(warehouse.url) == []


# The SQL functions era5.at and era5.location_id


@pytest.fixture(scope="module")
def located(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    with fresh_database(server_url) as url, Warehouse(url).connect() as connection:
        ensure_schema(connection)
        yield connection


def location_id(connection: psycopg.Connection[Any], latitude: float, longitude: float) -> int:
    row = connection.execute(
        "SELECT era5.at(lat, lon), era5.location_id(lat, lon) "
        "FROM (VALUES (%s::float8, %s::float8)) AS place (lat, lon)",
        (latitude, longitude),
    ).fetchone()
    assert row is not None
    assert row[0] == row[1]
    return int(row[0])


def quarters(least: int, greatest: int) -> st.SearchStrategy[float]:
    """Degrees on the grid, and any others."""
    return st.integers(4 * least, 4 * greatest).map(lambda steps: steps / 4) | st.floats(least, greatest)


@settings(deadline=None, max_examples=300)
@given(quarters(-90, 90), quarters(-180, 360))
@example(0.0, -180.0)
@example(0.0, 180.0)
@example(90.0, 360.0)
@example(-90.0, -179.75)
@example(-30.0, 30.25)
@example(0.125, 0.125)
@example(-0.125, -180.0)
@example(89.875, 359.875)
@example(0.0, -179.875)
def test_location_id_in_sql_is_that_of_the_nearest_grid_point(
    located: psycopg.Connection[Any], latitude: float, longitude: float
) -> None:
    """-180 and 180 are the same meridian, as are 0 and 360."""
    expected = grid.ERA5_GRID.nearest_location(latitude, longitude).location_id
    assert location_id(located, latitude, longitude) == expected
    assert 1 <= expected <= grid.ERA5_GRID.locations


@pytest.mark.parametrize(
    "coordinates", ["106.75, -6.25", "-90.001, 0", "0, 360.001", "0, -180.001", "'NaN', 0", "0, 'NaN'", "'Infinity', 0"]
)
def test_coordinates_out_of_range_are_an_error(located: psycopg.Connection[Any], coordinates: str) -> None:
    for function in ("at", "location_id"):
        query = f"SELECT era5.{function}({coordinates})"
        with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="is out of range") as raised:
            located.execute(query)
        assert "the latitude first, from -90 to 90" in str(raised.value.diag.message_hint)


def test_unknown_coordinates_have_no_location(located: psycopg.Connection[Any]) -> None:
    row = located.execute(
        "SELECT era5.at(NULL, 1), era5.at(1, NULL), era5.at(NULL, 1000), era5.location_id(NULL, NULL)"
    )
    assert row.fetchone() == (None, None, None, None)


def test_the_functions_are_inlined(located: psycopg.Connection[Any]) -> None:
    """The planner sees a constant for constants, for anything else the arithmetic."""
    for function in ("at", "location_id"):
        query = f"EXPLAIN VERBOSE SELECT era5.{function}(51.5, 0)"
        assert [line for (line,) in located.execute(query) if "Output" in line] == ["  Output: 815760"]
        query = (
            f"EXPLAIN VERBOSE SELECT era5.{function}(lat, lon) FROM (VALUES (51.5, 0.0), (52, 1)) AS place (lat, lon)"
        )
        plan = "\n".join(line for (line,) in located.execute(query))
        assert f"era5.{function}(" not in plan
        assert "1440" in plan
