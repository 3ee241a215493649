"""The contract of every way to load: the same rows, NULLs, times and values as the batch, and again when repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.batches import files_in
from benchmarks.cells import CannotRunError
from benchmarks.generated import GeneratedHours
from benchmarks.methods import (
    COLUMNS,
    METHODS,
    PG_BULKLOAD,
    PSYCOPG_ROWS,
    TABLE_KINDS,
    Batch,
    LoadMethod,
    make_study_table,
    methods_of,
    require_known,
)
from benchmarks.servers import Target, new_target
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse

ALL = (*METHODS, *methods_of("tool", (2,)))
# From 23:00 UTC of one day to the next, around a change of the clocks where the machine may stand.
FIRST = 1679788800  # 2023-03-26 00:00 UTC


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Two hundred rows with a NULL in every column of a variable, zeros, negative and tiny values."""
    folder = tmp_path_factory.mktemp("hours")
    hours = GeneratedHours(folder, 200)
    rows = hours.batch(0)
    times = pa.array(
        [(FIRST + 3600 * (number % 4)) * 1_000_000 for number in range(rows.num_rows)],
        type=rows.schema.field("time").type,
    )
    rows = rows.set_column(0, rows.schema.field("time"), times)
    for number, name in enumerate(COLUMNS[4:]):
        values = rows.column(name).to_numpy(zero_copy_only=False).copy()
        values[:4] = [0.0, -0.1, 1e-30, 123456.789]
        missing = np.arange(rows.num_rows) % 7 == number % 7
        column = pa.array(values, type=pa.float32(), mask=missing)
        position = rows.column_names.index(name)
        rows = rows.set_column(position, rows.schema.field(position), column)
    return Batch(rows, hours.flat, files_in(folder))


@pytest.fixture
def target(empty_warehouse: Warehouse) -> Iterator[Target]:
    with new_target(empty_warehouse, syncs=False) as made:
        yield made


def found(target: Target) -> list[tuple[Any, ...]]:
    with target.connect() as connection:
        return connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM weather ORDER BY location_id, time".encode(), binary=True
        ).fetchall()


@pytest.mark.parametrize("method", ALL, ids=lambda method: f"{method.family} {method.name}")
def test_every_way_loads_the_same_rows_again_and_again(method: LoadMethod, batch: Batch, target: Target) -> None:
    wanted = sorted(
        zip(*(column.to_pylist() for column in batch.rows.columns), strict=True), key=lambda row: (row[1], row[0])
    )
    assert any(None in row for row in wanted)
    with target.connect() as connection:
        reason = method.why_missing(connection)
        kinds = TABLE_KINDS if target.offered[0] != "partitions" else TABLE_KINDS[:1]
    if reason is not None:
        pytest.skip(reason)
    url = target.warehouse.url
    for kind in kinds:
        for _ in range(2):
            with target.connect() as connection:
                make_study_table(connection, kind)
            with method.session(url) as session:
                try:
                    notes = method.load(session, method.prepare(batch))
                except CannotRunError as error:
                    if "the server cannot read files" in str(error):
                        pytest.skip(str(error))
                    raise
            assert all(isinstance(text, str) and text for text in notes.values())
            if method.name.startswith(PG_BULKLOAD) and kind == "hypertable":
                # It writes past the chunks: this is what the suite reports as null.
                assert len(found(target)) < len(wanted)
                continue
            assert found(target) == wanted


def test_what_was_not_committed_is_not_there(batch: Batch, target: Target) -> None:
    with target.connect() as connection:
        make_study_table(connection, "regular")
    with PSYCOPG_ROWS.session(target.warehouse.url) as session:
        PSYCOPG_ROWS.load(session, PSYCOPG_ROWS.prepare(batch))
        session.execute("DELETE FROM weather")
        session.rollback()
    assert len(found(target)) == batch.rows.num_rows


def test_names_are_unique_in_each_family() -> None:
    for family in ("insert", "multi-insert", "copy", "tool"):
        names = [method.name for method in methods_of(family, (1, 2))]
        assert len(names) == len(set(names)) > 2


def test_unknown_way_names_the_nearest() -> None:
    require_known(["psycopg rows", "timescaledb-parallel-copy, 2 workers"], (1, 2))
    with pytest.raises(UsageError) as error:
        require_known(["psycop row"], (1,))
    assert "psycopg rows" in error.value.remedy
