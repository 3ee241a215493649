"""Columns of variables that are added to a table with months in it, on every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import MonthLockedError, ServerUnsuitableError
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_VARIABLES, find_variables
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.layouts.variable_columns import (
    add_columns,
    comment_on,
    missing_variables,
    table_columns,
    variables_in_table,
)
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.era5_files import flatten
from era5_pipeline_tests.flat_months import rows_of_file, rows_of_table
from era5_pipeline_tests.warehouse.loads import ask, loading, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

JULY, FEBRUARY = Month(2023, 7), Month(2024, 2)
DEWPOINT = find_variables("d2m")


@pytest.fixture(scope="module")
def paris(tmp_path_factory: pytest.TempPathFactory, point_series: Path) -> FlatMonth:
    """A real month with dew point and surface pressure, at one place."""
    home = tmp_path_factory.mktemp("paris")
    columns = tuple(variable.column for variable in find_variables("t2m,d2m,sp"))
    return flatten([point_series / "paris-2024-nc-zip" / "era5_2024.zip"], "2024-02", home, variables=columns)


def files_of(warehouse: Warehouse) -> set[tuple[str, int]]:
    """The files of the table, its partitions and chunks: a rewritten table has another one."""
    with warehouse.connect() as connection:
        rows = connection.execute(
            "SELECT relname, pg_relation_filenode(oid) FROM pg_class WHERE relkind = 'r' AND relname ~ "
            "'^(weather_|_hyper_|compress_hyper_|_compressed)'"
        ).fetchall()
    return {(name, file) for name, file in rows if file is not None}


def column_of(warehouse: Warehouse, column: str, month: Month) -> list[float | None]:
    with warehouse.connect() as connection:
        rows = connection.execute(
            sql.SQL("SELECT {} FROM weather WHERE time >= {} AND time < {} ORDER BY location_id, time").format(
                sql.Identifier(column), sql.Literal(month.start), sql.Literal(month.end)
            ),
            binary=True,
        ).fetchall()
    return [value for (value,) in rows]


def test_columns_are_added_by_the_load_that_brings_them_and_months_loaded_before_are_not_rewritten(
    warehouse: Warehouse, flat_months: FlatMonths, paris: FlatMonth
) -> None:
    july = flat_months()
    load_month(warehouse, july)
    before = files_of(warehouse)
    assert before
    load_month(warehouse, paris)
    assert before <= files_of(warehouse)
    assert rows_of_table(warehouse, JULY) == rows_of_file(july)
    for column in ("dewpoint_2m", "surface_pressure"):
        assert column_of(warehouse, column, JULY) == [None] * july.rows
        facts = next(facts for facts in paris.columns if facts.column == column)
        values = [value for value in column_of(warehouse, column, FEBRUARY) if value is not None]
        assert (len(values), min(values), max(values)) == (facts.values, facts.minimum, facts.maximum)
    # Default columns that the new month lacks are NULL.
    assert column_of(warehouse, "snowfall", FEBRUARY) == [None] * paris.rows
    assert verify_month(warehouse, july) == verify_month(warehouse, paris) == ()
    with warehouse.connect() as connection:
        assert variables_in_table(connection) == (*DEFAULT_VARIABLES, *find_variables("d2m,sp"))
        assert table_columns(connection)["dewpoint_2m"].comment == comment_on(ERA5, BY_COLUMN["dewpoint_2m"])
    # A month of fewer variables goes on loading as before.
    load_month(warehouse, flat_months("2023-08"))
    assert rows_of_table(warehouse, Month(2023, 8)) == rows_of_file(flat_months("2023-08"))


def test_a_month_without_an_added_column_is_verified_to_be_null_there(
    warehouse: Warehouse, flat_months: FlatMonths, paris: FlatMonth
) -> None:
    load_month(warehouse, paris)
    july = flat_months()
    load_month(warehouse, july)
    assert verify_month(warehouse, july) == ()
    with warehouse.connect() as connection:
        connection.execute("UPDATE weather SET dewpoint_2m = 1 WHERE time = '2023-07-03 00:00Z'")
    (difference,) = verify_month(warehouse, july)
    assert (difference.column, difference.file, difference.table) == ("dewpoint_2m", 0, july.locations)


@pytest.mark.parametrize(
    ("kind", "said"), [("double precision", "it is double precision, not real"), ("real", "its comment does not say")]
)
def test_a_column_that_somebody_else_added_is_left_alone(
    warehouse: Warehouse, flat_months: FlatMonths, paris: FlatMonth, kind: str, said: str
) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as connection:
        connection.execute(sql.SQL("ALTER TABLE weather ADD COLUMN dewpoint_2m {}").format(sql.SQL(kind)))
        columns = table_columns(connection)
    with pytest.raises(ServerUnsuitableError, match="dewpoint_2m that somebody else added") as raised:
        load_month(warehouse, paris)
    assert said in raised.value.message
    assert "RENAME COLUMN dewpoint_2m TO" in raised.value.remedy
    with warehouse.connect() as connection:
        # Nothing was changed: the other column was not added either.
        assert table_columns(connection) == columns
        assert find_variables("d2m")[0] not in variables_in_table(connection)
    assert rows_of_table(warehouse) == rows_of_file(flat_months())
    # Months without that variable load as before.
    load_month(warehouse, flat_months("2023-08"))
    if kind == "real":
        # The remedy, word for word, makes the column one of ours.
        statement = raised.value.remedy.partition("hold this variable: ")[2].partition(" Nothing was")[0]
        with warehouse.connect() as connection:
            connection.execute(sql.SQL(statement))
        load_month(warehouse, paris)
        assert verify_month(warehouse, paris) == ()


def test_columns_wait_for_a_reader_and_say_whose_transaction_it_is(
    warehouse: Warehouse, flat_months: FlatMonths, paris: FlatMonth
) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM weather")
        session = f"session {reader.info.backend_pid} of"
        with pytest.raises(MonthLockedError, match=r"\(dewpoint_2m, surface_pressure\) cannot be added") as raised:
            load_month(warehouse, paris, lock_timeout_seconds=0)
        assert session in raised.value.message
        with warehouse.connect() as connection:
            assert missing_variables(connection, ["dewpoint_2m"]) == DEWPOINT
        with loading(warehouse, paris) as load:
            wait_until(lambda: any(session in said for said in load.said))
            # Other readers do not wait behind it for longer than a moment.
            assert ask(warehouse.url, "SELECT count(*) FROM weather") == flat_months().rows
            reader.execute("COMMIT")
            assert load.result().rows == paris.rows
    assert verify_month(warehouse, paris) == ()


def test_a_user_who_may_not_add_columns_is_told_what_the_owner_has_to_run(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    role = f"loader_{ask(warehouse.url, 'SELECT oid FROM pg_database WHERE datname = current_database()')}"
    with warehouse.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        try:
            connection.execute(sql.SQL("GRANT SELECT, INSERT ON weather TO {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            with pytest.raises(ServerUnsuitableError, match="no column dewpoint_2m, and this user may") as raised:
                add_columns(connection, DEWPOINT, timeout_seconds=0, on_wait=lambda _: None)
            connection.execute("RESET ROLE")
            statements = raised.value.remedy.partition("Let its owner run: ")[2].partition(" Then run")[0]
            connection.execute(sql.SQL(statements))
            assert missing_variables(connection, ["dewpoint_2m"]) == ()
        finally:
            connection.execute("RESET ROLE")
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_partition_that_is_filled_while_another_month_adds_columns_gets_them_too(
    embedded_warehouse: Warehouse, large: FlatMonth, paris: FlatMonth, workers: int
) -> None:
    """Its staging tables were created without them, and a partition needs all columns of its table."""
    with loading(embedded_warehouse, large, pause=True, workers=workers) as load:
        load_month(embedded_warehouse, paris)
        load.resume()
        assert load.result().workers == workers
    assert verify_month(embedded_warehouse, large) == verify_month(embedded_warehouse, paris) == ()
    assert ask(embedded_warehouse.url, "SELECT count(dewpoint_2m) FROM weather") == paris.rows


def test_two_loads_may_add_the_same_column_at_once(
    warehouse: Warehouse, flat_months: FlatMonths, paris: FlatMonth
) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as first, warehouse.connect() as second:
        found = [missing_variables(connection, ["dewpoint_2m"]) for connection in (first, second)]
        for connection, variables in zip((first, second), found, strict=True):
            add_columns(connection, variables, timeout_seconds=5, on_wait=lambda _: None)
    load_month(warehouse, paris)
    assert verify_month(warehouse, paris) == ()


def test_no_table_has_no_columns(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert table_columns(connection) == {}
        assert variables_in_table(connection) == ()
        MonthPartitions().create(connection)
        assert variables_in_table(connection) == DEFAULT_VARIABLES
