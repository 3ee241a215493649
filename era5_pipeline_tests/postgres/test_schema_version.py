"""Databases of other schema versions: refused everywhere, or upgraded step by step; on each layout."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

import era5_pipeline as era5
from era5_pipeline.model.errors import MonthLockedError, SchemaVersionError, TransientError, WarehouseError
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.schema_version import SCHEMA_VERSION, STEPS, require_usable, schema_version
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline.warehouse.schema import ensure_schema, upgrade_schema
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.pipelines import new_pipeline
from era5_pipeline_tests.postgres.test_connect import as_role
from era5_pipeline_tests.served import served
from era5_pipeline_tests.servers import fresh_database, fresh_role
from era5_pipeline_tests.stores import free_port
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.flat_months import FlatMonths

NEXT = SCHEMA_VERSION + 1
VERSION = "SELECT era5.schema_version()"
# A database of version 1 in the layout partitions, as pg_dump wrote it.
FIRST_DUMP = Path(__file__).with_name("schema_version_1.sql")
MONTH = ("--from", "2023-01", "--source", "sample", "--area", "-6/106/-6/106")


def add_column(connection: psycopg.Connection[Any]) -> None:
    """A step like one of a later version; taken twice, it fails."""
    connection.execute("ALTER TABLE era5.ledger ADD COLUMN mood text")
    connection.execute("COMMENT ON COLUMN era5.ledger.mood IS 'How the month felt'")


def break_down(connection: psycopg.Connection[Any]) -> None:
    """A step that fails after it changed something."""
    connection.execute("ALTER TABLE era5.ledger ADD COLUMN half text")
    connection.execute("SELECT 1 / 0")


def lose_connection(connection: psycopg.Connection[Any]) -> None:
    """A step in which the server ends the session."""
    connection.execute("ALTER TABLE era5.ledger ADD COLUMN half text")
    connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


LATER = (*STEPS, add_column)


def upgrade(url: str) -> None:
    """Upgrade the database as the next version of the program would."""
    with Warehouse(url, upgrades=True).connect() as connection:
        ensure_schema(connection, steps=LATER)


def columns_of(url: str) -> list[tuple[str, ...]]:
    """Name and type of each column and index of the tables in the schema era5, and what the columns default to."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT c.relname, a.attname, format_type(atttypid, atttypmod) || ' ' || attnotnull, "
            "coalesce(pg_get_expr(adbin, adrelid), ''), coalesce(col_description(a.attrelid, attnum), '') "
            "FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped "
            "LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
            "WHERE relnamespace = 'era5'::regnamespace AND relname !~ '_[0-9]{4}' ORDER BY 1, 2"
        ).fetchall()


def names_both(version: int, known: int) -> str:
    return f"has schema version {version}, and this era5-pipeline (knows versions up to|needs version) {known}"


def test_a_new_database_has_the_newest_version(empty_warehouse: Warehouse) -> None:
    with empty_warehouse.connect() as connection:
        assert schema_version(connection) == 0
        upgrade_schema(connection)
        assert schema_version(connection) == 0  # that creates nothing
        ensure_schema(connection)
        assert schema_version(connection) == SCHEMA_VERSION == len(STEPS)
    assert ask(empty_warehouse.url, VERSION) == SCHEMA_VERSION


def test_the_version_is_found_without_any_privilege(warehouse: Warehouse, host_url: str) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    with fresh_role(host_url) as role:
        with Warehouse(as_role(warehouse.url, role)).connect() as connection:
            assert schema_version(connection) == SCHEMA_VERSION
        upgrade(warehouse.url)
        with pytest.raises(SchemaVersionError, match=names_both(NEXT, SCHEMA_VERSION)):
            Warehouse(as_role(warehouse.url, role)).connect()


def test_steps_are_taken_in_order_and_once(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    taken: list[int] = []
    steps = (*LATER, lambda _: taken.append(3), lambda _: taken.append(4))
    flat = flat_months(points=(1, 1))
    load_month(warehouse, flat)
    held = rows_of_table(warehouse)
    with warehouse.connect() as connection:
        for _ in range(2):
            ensure_schema(connection, steps=steps)
        upgrade_schema(connection, steps=steps)
        assert taken == [3, 4]
        assert schema_version(connection) == len(steps)
        assert connection.execute("SELECT month::text, mood FROM era5.ledger").fetchall() == [("2023-07-01", None)]
        assert connection.execute("SELECT count(*) FROM weather").fetchone() == (len(held),)


@pytest.mark.parametrize(
    ("step", "error"), [(break_down, WarehouseError), (lose_connection, TransientError)], ids=["fails", "loses"]
)
def test_a_step_that_fails_leaves_the_version_before(
    warehouse: Warehouse, flat_months: FlatMonths, step: Any, error: type[WarehouseError]
) -> None:
    flat = flat_months(points=(1, 1))
    load_month(warehouse, flat)
    before = columns_of(warehouse.url)
    with (
        warehouse.connect() as connection,
        pytest.raises(error, match=f"upgrading the schema era5 to version {NEXT}") as failed,
    ):
        ensure_schema(connection, steps=(*STEPS, step))
    assert f"The database is as it was, at schema version {SCHEMA_VERSION}." in failed.value.remedy
    assert ask(warehouse.url, VERSION) == SCHEMA_VERSION
    assert columns_of(warehouse.url) == before
    assert load_month(warehouse, flat, force=True).changed
    upgrade(warehouse.url)
    assert ask(warehouse.url, VERSION) == NEXT


def test_of_two_that_upgrade_at_once_one_takes_the_steps(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    with ThreadPoolExecutor(3) as pool:
        ended = [done.exception() for done in [pool.submit(upgrade, warehouse.url) for _ in range(3)]]
    # Whoever connected when all was done was told that the database is newer.
    assert ended.count(None) >= 1
    assert all(error is None or isinstance(error, SchemaVersionError) for error in ended)
    assert ask(warehouse.url, VERSION) == NEXT


def test_no_upgrade_while_a_month_is_loaded(warehouse: Warehouse) -> None:
    with warehouse.connect() as loading, warehouse.connect() as connection:
        ensure_schema(loading)
        with (
            month_lock(loading, Month(2023, 7), timeout_seconds=1, on_wait=print),
            pytest.raises(MonthLockedError, match=f"cannot be upgraded .* session {loading.info.backend_pid}"),
        ):
            ensure_schema(connection, steps=LATER)
        assert schema_version(connection) == SCHEMA_VERSION
        upgrade_schema(connection, steps=LATER)
        assert schema_version(connection) == NEXT


def test_a_loader_leaves_the_upgrade_to_the_owner(warehouse: Warehouse, host_url: str) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    with fresh_role(host_url) as role:
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA era5 TO {}").format(sql.Identifier(role)))
        with (
            Warehouse(as_role(warehouse.url, role)).connect() as connection,
            pytest.raises(SchemaVersionError, match=f"the user {role} may not upgrade it\n.*owner .* era5 db init"),
        ):
            upgrade_schema(connection, steps=LATER)
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
    assert ask(warehouse.url, VERSION) == SCHEMA_VERSION


def test_an_older_database_is_for_those_who_upgrade_it(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        with pytest.raises(SchemaVersionError, match=f"{names_both(SCHEMA_VERSION, NEXT)}\n.*owner .* era5 db init"):
            require_usable(connection, SCHEMA_VERSION, known=NEXT)
        require_usable(connection, SCHEMA_VERSION, known=NEXT, upgrades=True)
        require_usable(connection, 0, known=NEXT)  # a new database


@pytest.mark.parametrize(
    "harm", ["DROP FUNCTION era5.schema_version", "CREATE OR REPLACE FUNCTION {} LANGUAGE sql AS 'SELECT 1 + 1'"]
)
def test_a_ledger_without_a_version_is_refused(warehouse: Warehouse, harm: str) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        connection.execute(harm.format("era5.schema_version() RETURNS integer").encode())
        with pytest.raises(SchemaVersionError, match="no schema version"):
            ensure_schema(connection)
    with pytest.raises(SchemaVersionError, match=r"no schema version .*\nLoad the months into a new database"):
        warehouse.connect()


@pytest.fixture(scope="module")
def newer(host_url: str, flat_months: FlatMonths) -> Iterator[Warehouse]:
    """A database with a month, that the next version of the program has upgraded."""
    with fresh_database(host_url) as url:
        load_month(Warehouse(url), flat_months("2023-01", points=(1, 1)))
        upgrade(url)
        yield Warehouse(url)


HERE = ("--lat", "10.5", "--lon", "20")
COMMANDS = {
    "load": ("load", *MONTH),
    "status": ("status",),
    "series": ("series", *HERE),
    "map": ("map", "--time", "2023-01-05T00", "--column", "t2m", "--out", "map.png"),
    "climate": ("climate", *HERE),
    "report": ("report", *HERE, "--out", "page.html"),
    "export": ("export", *HERE, "--out", "hours.parquet"),
    "drop": ("drop", "--from", "2023-01", "--yes"),
    "metrics": ("metrics",),
    "init": ("db", "init"),
    "summaries": ("db", "summaries"),
    "serve": ("serve", "--port", "0"),
    "up": ("up", "--port", f"{free_port()}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_database_is_refused_by_every_command(newer: Warehouse, command: str, here: InProcess) -> None:
    here.set(ERA5_DATABASE_URL=newer.url)
    before = ask(newer.url, "SELECT string_agg(l::text, '') FROM era5.ledger l")
    printed = here.run(*COMMANDS[command], code=5)
    assert_explained(printed, f"has schema version {NEXT}", "Install the newer era5-pipeline")
    assert f"knows versions up to {SCHEMA_VERSION}" in printed.err
    assert ask(newer.url, "SELECT string_agg(l::text, '') FROM era5.ledger l") == before
    assert ask(newer.url, "SELECT count(*) FROM era5.load_attempt") == 1
    assert ask(newer.url, "SELECT count(*) FROM weather") == 744


def test_a_plan_for_a_newer_database_says_so(newer: Warehouse, here: InProcess) -> None:
    here.set(ERA5_DATABASE_URL=newer.url)
    printed = here.run("plan", *MONTH)
    assert f"has schema version {NEXT}" in " ".join((printed.out + printed.err).split())


def test_a_newer_database_is_neither_opened_nor_loaded_into_in_python(
    newer: Warehouse, flat_months: FlatMonths
) -> None:
    with pytest.raises(SchemaVersionError, match=names_both(NEXT, SCHEMA_VERSION)):
        era5.open(newer.url)
    with pytest.raises(SchemaVersionError, match=names_both(NEXT, SCHEMA_VERSION)):
        load_month(Warehouse(newer.url, upgrades=True), flat_months("2023-02", points=(1, 1)))


def test_a_server_stops_answering_when_its_database_is_upgraded(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-01", points=(1, 1)))
    day = "2023-01-05"
    asked = {"latitude": "10.5", "longitude": "20", "start_date": day, "end_date": day, "hourly": "temperature_2m"}
    with served(warehouse, ServingLimits(wait_seconds=5.0)) as client:
        assert client.get("/v1/archive", params=asked).status_code == 200
        upgrade(warehouse.url)
        answer = client.get("/v1/archive", params=asked)
        assert answer.status_code == 503
        assert "schema version" in answer.json()["reason"]
        assert "postgres" not in answer.text


def test_a_run_of_dagster_does_not_load_into_a_newer_database(server_url: str, tmp_path: Path) -> None:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE="sample", ERA5_AREA="10.5/20/10.5/20") as pipeline:
        assert not pipeline.run("2023-07").errors
        upgrade(pipeline.url)
        held = ask(pipeline.url, "SELECT l::text FROM era5.ledger l")
        (error,) = pipeline.run("2023-08").errors
        assert f"has schema version {NEXT}" in str(error)
        assert "Install the newer era5-pipeline" in str(error)
        assert ask(pipeline.url, "SELECT count(*) FROM weather") == 744
        assert ask(pipeline.url, "SELECT l::text FROM era5.ledger l") == held


def test_a_database_of_the_first_version_is_upgraded_and_loaded_into(server_url: str, here: InProcess) -> None:
    with fresh_database(server_url) as url, fresh_database(server_url) as new:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(FIRST_DUMP.read_bytes())
        assert ask(url, VERSION) == 1
        here.set(ERA5_DATABASE_URL=url)
        here.run("db", "init")
        assert ask(url, VERSION) == SCHEMA_VERSION
        assert ask(url, "SELECT version FROM era5.ledger") == "generated"  # its files say that it is final
        month = [*MONTH, "--variables", "t2m,tp"]
        assert "replaced 744 rows" in here.run("load", *month, "--force").out
        here.run("load", "--from", "2023-02", *month[2:])
        assert [month["rows"] for month in here.run("status", "--json").json()] == [744, 672]
        assert here.run("series", "--lat", "-6", "--lon", "106", "--from", "2023-01", "--to", "2023-02").out
        with Warehouse(new).connect() as connection:
            ensure_schema(connection)
        # The steps end in the schema that a new database has.
        assert columns_of(url) == columns_of(new)
        upgrade(url)
        upgrade(new)
        assert columns_of(url) == columns_of(new)
        assert ask(url, "SELECT count(*) FROM weather") == 744 + 672
