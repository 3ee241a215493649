"""The row that points to the lake's newest metadata, and the notes of files that no snapshot needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.lake.pointer import (
    forget_unused,
    metadata_file,
    note_unused,
    prepare,
    seconds_unused,
    take_unused,
)
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.commands import new_home

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse


@pytest.mark.parametrize("table", ["iceberg_tables", "iceberg_namespace_properties"])
def test_tables_of_another_program_are_named(embedded_warehouse: Warehouse, table: str) -> None:
    with embedded_warehouse.connect() as connection:
        connection.execute(f"CREATE TABLE public.{table} (name text, catalog_name text)".encode())
        for look in (metadata_file, prepare):
            with pytest.raises(UsageError, match=rf"public\.{table} is not a table of an Iceberg catalog"):
                look(connection)
        connection.execute(f"DROP TABLE public.{table}".encode())
        prepare(connection)
        assert metadata_file(connection) is None


def test_commands_say_so_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with new_home() as home:
        home.run("db", "start")
        sample = ("--source", "sample", "--area", "10/100/9.75/100.25")
        home.run("load", "--from", "2023-07", *sample)
        with psycopg.connect(home.run("db", "url").out.strip()) as connection:
            connection.execute("CREATE TABLE public.iceberg_tables (name text)")
        for command in (
            ("lake", "path"),
            ("lake", "verify"),
            ("lake", "snapshots"),
            ("lake", "clean"),
            ("load", "--from", "2023-07", *sample),
            ("drop", "--from", "2023-07", "--yes"),
        ):
            said = home.run(*command, code=2, ERA5_LAKE=str(tmp_path / "lake")).err
            assert "public.iceberg_tables is not a table of an Iceberg catalog" in said, command


def test_files_are_taken_once_and_only_when_their_time_has_come(embedded_warehouse: Warehouse) -> None:
    with embedded_warehouse.connect() as connection:
        prepare(connection)
        note_unused(connection, ["a", "b", "c"])
        note_unused(connection, ["a"])
        assert set(seconds_unused(connection)) == {"a", "b", "c"}
        assert take_unused(connection, seconds=60, at_most=10) == []
        forget_unused(connection, ["a"])
        taken = [take_unused(connection, seconds=-1, at_most=1) for _ in range(3)]
        assert sorted(name for names in taken for name in names) == ["b", "c"]
        assert seconds_unused(connection) == {}
