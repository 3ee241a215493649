"""Flat files into a table: what COPY is told, and what a damaged file does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from era5_pipeline.errors import BadFileError
from era5_pipeline.progress import listening
from era5_pipeline.sqlfiles import read_sql
from era5_pipeline.warehouse.connect import Warehouse
from era5_pipeline.warehouse.copying import copy_flat
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.facts import FlatMonth
    from era5_pipeline.settings import FlatFormat
    from era5_pipeline_tests.flat_months import FlatMonths

WEATHER = sql.Identifier("weather")
FORMATS: tuple[FlatFormat, ...] = ("parquet", "csv")


@pytest.fixture
def connection(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """To a database with a plain table, which is empty."""
    with Warehouse(shared_database_url).connect() as connection:
        connection.execute("DROP TABLE IF EXISTS weather")
        connection.execute(sql.SQL(read_sql("weather")).format(partitioning=sql.SQL("")))
        yield connection


def count(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM weather").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("flat_format", FORMATS)
def test_every_row_in_the_order_of_the_file(
    connection: psycopg.Connection[Any], shared_database_url: str, flat_months: FlatMonths, flat_format: FlatFormat
) -> None:
    flat = flat_months(names=("t2m", "u10", "v10", "tcc", "tp", "sf"), missing=0.05, flat_format=flat_format)
    assert copy_flat(flat, connection, WEATHER, freeze=False) == flat.rows
    assert_holds(Warehouse(shared_database_url), flat)
    # As they lie on disk: all hours of a location, then the next; the index depends on it.
    lying = connection.execute("SELECT location_id, time FROM weather ORDER BY ctid").fetchall()
    assert lying == sorted(lying)


@pytest.mark.parametrize("flat_format", FORMATS)
def test_frozen_rows(connection: psycopg.Connection[Any], flat_months: FlatMonths, flat_format: FlatFormat) -> None:
    flat = flat_months(flat_format=flat_format)
    with connection.transaction():
        connection.execute("TRUNCATE weather")
        copy_flat(flat, connection, WEATHER, freeze=True)
    connection.execute("ANALYZE weather")
    # The file may have grown by more pages than rows are in.
    row = connection.execute(
        "SELECT relallfrozen, (SELECT count(DISTINCT (ctid::text::point)[0]) FROM weather) "
        "FROM pg_class WHERE oid = 'weather'::regclass"
    ).fetchone()
    assert row is not None
    assert row[0] == row[1] > 0


@pytest.mark.parametrize("flat_format", FORMATS)
def test_progress_ends_with_all_rows(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, flat_format: FlatFormat
) -> None:
    flat = flat_months(points=(10, 20), names=("t2m",), flat_format=flat_format)
    said: list[tuple[str, int, int, str]] = []
    with listening(lambda *told: said.append(told)):
        copy_flat(flat, connection, WEATHER, freeze=False)
    assert len(said) > 2
    assert [done for _, done, _, _ in said] == sorted(done for _, done, _, _ in said)
    assert said[-1] == ("load", flat.rows, flat.rows, "rows")


def test_a_month_of_several_row_groups(
    connection: psycopg.Connection[Any], shared_database_url: str, flat_months: FlatMonths, tmp_path: Path
) -> None:
    import pyarrow.parquet

    flat = flat_months()
    regrouped = replace(flat, path=tmp_path / "regrouped.parquet")
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(flat.path), regrouped.path, row_group_size=1000)
    assert copy_flat(regrouped, connection, WEATHER, freeze=False) == flat.rows
    assert_holds(Warehouse(shared_database_url), flat)


@pytest.mark.parametrize("flat_format", FORMATS)
def test_a_file_that_is_gone(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path, flat_format: FlatFormat
) -> None:
    gone = replace(flat_months(flat_format=flat_format), path=tmp_path / "gone")
    with pytest.raises(BadFileError, match=r"gone: is damaged \(.*No such file.*\)\nRun the month again with --force"):
        copy_flat(gone, connection, WEATHER, freeze=False)
    assert count(connection) == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"<html>not found</html>"],
    ids=["empty", "cut", "0", "html"],
)
def test_a_file_that_is_no_parquet(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path, content: bytes
) -> None:
    harmed = replace(flat_months(), path=tmp_path / "harmed.parquet")
    harmed.path.write_bytes(content)
    with pytest.raises(BadFileError, match=r"harmed\.parquet: is damaged"):
        copy_flat(harmed, connection, WEATHER, freeze=False)
    assert count(connection) == 0


def test_parquet_of_something_else(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    other = replace(flat_months(), path=tmp_path / "other.parquet")
    pyarrow.parquet.write_table(pa.table({"a": [1]}), other.path)
    with pytest.raises(BadFileError, match=r"other\.parquet: is damaged"):
        copy_flat(other, connection, WEATHER, freeze=False)


@pytest.mark.parametrize("line", ["nonsense", "2023-07-01T00:00:00Z,1,x,2,3,4,5,6,7,8", '"', "\x00"])
def test_csv_that_the_server_refuses(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path, line: str
) -> None:
    flat: FlatMonth = flat_months(flat_format="csv")
    harmed = replace(flat, path=tmp_path / "harmed.csv")
    harmed.path.write_text(flat.path.read_text() + line + "\n")
    with pytest.raises(psycopg.DataError):
        copy_flat(harmed, connection, WEATHER, freeze=False)
    assert count(connection) == 0
