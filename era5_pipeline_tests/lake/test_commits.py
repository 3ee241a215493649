"""Commits to the lake's table: manifests stay few, and each file that leaves is found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from era5_pipeline.lake.catalog import WarehouseCatalog
from era5_pipeline.lake.commits import commit_files
from era5_pipeline.lake.months import files_of
from era5_pipeline.model.months import Month
from era5_pipeline_tests.lake.test_months import table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def manifests(table: Any) -> int:
    return len(table.current_snapshot().manifests(table.io))


def one_hour(flat_months: FlatMonths) -> pa.Table:
    return pq.read_table(flat_months(names=("t2m",), hours=1).row_files[0].path)


def commit(lake: Lake, connection: psycopg.Connection[Any], month: Month, rows: pa.Table, path: Path) -> None:
    """Commit these rows as the month's, instead of those that it has."""
    times = pa.array([month.start] * len(rows), rows.schema.field("time").type)
    pq.write_table(rows.set_column(0, rows.schema.field("time"), times), path)
    staged = list(lake.upload(month, "0123456789abcdef", [path]))
    with connection.transaction():
        table = WarehouseCatalog(connection, lake.place).open_table(["temperature_2m"])
        commit_files(table, month, files_of(table, month), staged, {})


def test_manifests_are_merged_whether_months_come_or_are_replaced(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    rows = one_hour(flat_months)
    months = [Month.from_number(Month(2015, 1).number + number) for number in range(42)]
    with embedded_warehouse.connect() as connection:
        local_lake.require(connection)
        for month in months:
            commit(local_lake, connection, month, rows, tmp_path / "rows.parquet")
        assert manifests(table_of(local_lake, embedded_warehouse)) < 30
        for month in months[::4]:
            commit(local_lake, connection, month, rows, tmp_path / "rows.parquet")
    table = table_of(local_lake, embedded_warehouse)
    assert manifests(table) < 30
    assert [len(files_of(table, month)) for month in months] == [1] * 42
    assert table.scan().count() == 42 * len(rows)
    assert table.metadata.snapshots[-1].summary["deleted-data-files"] == "1"


@pytest.fixture
def threads_in_turns() -> Iterator[None]:
    """Let the threads of this process take turns after each few instructions, as on a busy machine."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_in_turns")
def test_a_file_to_replace_is_found_however_the_threads_take_turns(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    rows = one_hour(flat_months)
    months = [Month(2015, number) for number in range(1, 13)]
    with embedded_warehouse.connect() as connection:
        local_lake.require(connection)
        for month in months * 3:
            commit(local_lake, connection, month, rows, tmp_path / "rows.parquet")
    assert table_of(local_lake, embedded_warehouse).scan().count() == 12 * len(rows)
