"""The row that points to the lake's newest metadata, and the notes of files that no snapshot needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
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
