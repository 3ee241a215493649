"""The columnstore of TimescaleDB's Community edition; runs if a server of that edition is given (see `servers`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline import stages
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import LAYOUTS, columnstore
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import ask, make_heap_hypertable

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

MAX_BYTES_PER_ROW = 20


@pytest.fixture(autouse=True)
def _community(host: Host) -> None:
    if host.license != "timescale":
        pytest.skip("no columnstore in this edition: SHOW timescaledb.license is not timescale")


def sizes(warehouse: Warehouse) -> tuple[int, int]:
    """Bytes of the chunks' heaps, and of the whole hypertable."""
    with warehouse.connect() as connection:
        row = connection.execute(
            "SELECT sum(pg_relation_size(format('%I.%I', chunk_schema, chunk_name)::regclass))::bigint, "
            "hypertable_size('weather') FROM timescaledb_information.chunks WHERE hypertable_name = 'weather'"
        ).fetchone()
    assert row is not None
    return row[0] or 0, row[1]


def compressed_chunks(warehouse: Warehouse) -> int:
    return int(ask(warehouse.url, "SELECT count(*) FROM timescaledb_information.chunks WHERE is_compressed"))


def without_direct_compress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load as on TimescaleDB before 2.21."""
    monkeypatch.setitem(LAYOUTS, columnstore.Columnstore.name, columnstore.Columnstore(direct=False))


def test_direct_compress_writes_one_batch_per_location(warehouse: Warehouse, large: FlatMonth) -> None:
    loaded = load_month(warehouse, large)
    assert (loaded.layout, loaded.notes) == ("columnstore", ())
    heap, whole = sizes(warehouse)
    assert heap == 0  # never written as rows
    assert whole / large.rows < MAX_BYTES_PER_ROW
    assert compressed_chunks(warehouse) == 1
    batches = "SELECT attrelid::regclass::text FROM pg_attribute WHERE attname = '_ts_meta_count'"
    table = ask(warehouse.url, batches)
    with psycopg.connect(warehouse.url) as connection:
        # One batch per location, with its whole month: this makes the table small and queries fast.
        counts = connection.execute(f"SELECT DISTINCT _ts_meta_count, count(*) FROM {table} GROUP BY 1").fetchall()
    assert counts == [(744, large.locations)]


def test_finished_batches_take_no_more_space_than_those_of_the_server(warehouse: Warehouse, tmp_path: Path) -> None:
    if not is_available():
        pytest.skip("numba is told not to compile: NUMBA_DISABLE_JIT")
    # Like weather, whose values take more or less room from place to place.
    raw = SampleSource(tmp_path, Request(None, Area.parse("10/0/7.75/4.75"))).fetch(Month(2023, 7))
    flat = flatten_month(raw, tmp_path, home=tmp_path, flat_format="parquet")
    stages.load_in_advance()
    taken = {}
    for batches in (True, False):
        loaded = load_month(warehouse, flat, batches=batches)
        assert loaded.is_read_back == batches
        _, taken[batches] = sizes(warehouse)
        with warehouse.connect() as connection:
            connection.execute("SELECT drop_chunks('weather', newer_than => '1900-01-01'::timestamptz)")
            connection.execute("TRUNCATE era5.ledger")
    assert taken[True] <= 1.02 * taken[False]  # 1.1 in a table of the same transaction


def test_a_table_that_refuses_rows_without_a_place_is_loaded(warehouse: Warehouse, large: FlatMonth) -> None:
    with warehouse.connect() as connection:
        connection.execute("ALTER TABLE weather ADD CONSTRAINT has_place CHECK (location_id IS NOT NULL)")
    assert load_month(warehouse, large).rows == large.rows


def test_an_aggregate_of_a_month_is_computed_on_batches(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """TimescaleDB does so for a month by several processes only if its chunk is partial (docs/decisions.md)."""
    # More batches than one process would be planned for, and few hours, so that they are made quickly.
    load_month(warehouse, flat_months(points=(50, 60), names=("t2m",), hours=24))
    with psycopg.connect(warehouse.url) as connection:
        for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
            connection.execute("SELECT set_config(%s, '0', false)", (name,))
        month = "time >= '2023-07-01Z' AND time < '2023-08-01Z'"
        plan = connection.execute(f"EXPLAIN SELECT avg(temperature_2m) FROM weather WHERE {month}").fetchall()
    assert any("Gather" in line for (line,) in plan)
    assert any("VectorAgg" in line for (line,) in plan)


def test_without_direct_compress_a_month_is_compressed_afterwards(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_direct_compress(monkeypatch)
    load_month(warehouse, large)
    heap, whole = sizes(warehouse)
    assert heap == 0
    assert whole / large.rows < MAX_BYTES_PER_ROW
    assert compressed_chunks(warehouse) == 1
    assert_holds(warehouse, large)
    for flat in (flat_months(points=(10, 20), seed=2), large):
        load_month(warehouse, flat)
        assert_holds(warehouse, flat)
        assert sizes(warehouse)[0] == 0


def test_the_space_of_a_replaced_month_is_freed(warehouse: Warehouse, large: FlatMonth) -> None:
    load_month(warehouse, large)
    once = sizes(warehouse)[1]
    assert load_month(warehouse, large, force=True).notes == ()
    assert sizes(warehouse)[1] <= 1.1 * once


def test_the_space_of_a_large_replaced_month_is_kept_and_a_note_says_how_to_free_it(
    warehouse: Warehouse, large: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnstore, "_MAX_COMPACTED_BYTES", 0)  # every month counts as large
    load_month(warehouse, large)
    once = sizes(warehouse)[1]
    for _ in range(3):
        (note,) = load_month(warehouse, large, force=True).notes
    assert sizes(warehouse)[1] < 2.5 * once
    command = note[note.index("VACUUM FULL") :]
    with warehouse.connect() as connection:
        connection.execute(command)  # the note's command works
    assert sizes(warehouse)[1] <= 1.1 * once
    assert_holds(warehouse, large)


def test_a_reader_that_stays_does_not_delay_a_load_whose_space_is_then_kept(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url) as reader:
        reader.execute("SELECT count(*) FROM weather")
        loaded = load_month(warehouse, large)
        assert loaded.changed
        (note,) = loaded.notes
        assert "VACUUM FULL" in note
    assert_holds(warehouse, large)


def test_failed_loads_do_not_accumulate_space(warehouse: Warehouse, large: FlatMonth, tmp_path: Path) -> None:
    load_month(warehouse, large)
    once = sizes(warehouse)[1]
    harmed = tmp_path / large.path.name
    content = large.path.read_bytes()
    harmed.write_bytes(content[: len(content) // 2] + bytes(len(content) // 4) + content[len(content) // 4 * 3 :])
    for _ in range(5):
        with pytest.raises(BadFileError):
            load_month(warehouse, replace(large, path=harmed), force=True)
    load_month(warehouse, large, force=True)
    assert sizes(warehouse)[1] < 2.5 * once


def test_a_table_without_a_columnstore_is_not_converted(empty_warehouse: Warehouse, large: FlatMonth) -> None:
    """A table that was created under the Apache edition, before the server's edition changed."""
    make_heap_hypertable(empty_warehouse)
    with empty_warehouse.connect() as connection:
        assert ensure_schema(connection).layout.name == "calendar hypertable"
    for force in (False, True):
        assert load_month(empty_warehouse, large, force=force).layout == "calendar hypertable"
        assert_holds(empty_warehouse, large)
    assert compressed_chunks(empty_warehouse) == 0
    indexes = "SELECT count(*) FROM pg_indexes WHERE tablename ~ '^_hyper_' AND indexdef ~ 'USING brin .location_id.'"
    assert ask(empty_warehouse.url, indexes) == 1


def test_a_table_can_be_converted_to_a_columnstore(
    empty_warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    """As docs advise after a change of edition: months loaded from then on are in the columnstore."""
    earlier = flat_months("2023-06")
    make_heap_hypertable(empty_warehouse)
    load_month(empty_warehouse, earlier)
    load_month(empty_warehouse, flat_months())
    with empty_warehouse.connect() as connection:
        connection.execute(
            "ALTER TABLE weather SET (timescaledb.enable_columnstore, "
            "timescaledb.segmentby = 'location_id,latitude,longitude', timescaledb.orderby = 'time')"
        )
    assert load_month(empty_warehouse, large).layout == "columnstore"
    assert_holds(empty_warehouse, earlier, large)
    assert compressed_chunks(empty_warehouse) == 1
