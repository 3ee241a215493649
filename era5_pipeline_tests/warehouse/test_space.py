"""The table's disk space compared with the sizes of its files; and which months are in which chunk."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema, existing_layout
from era5_pipeline.warehouse.space import Chunk, MonthSpace, Space, read_space, share_out
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask, make_heap_hypertable, without_autovacuum

if TYPE_CHECKING:
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

JULY = Month(2023, 7)

# Files of tables, of their TOAST tables and of the indexes of both, with their free space and visibility maps.
_FILES_OF_TABLES = """
WITH tables AS (SELECT oid, reltoastrelid FROM pg_class WHERE oid = ANY (%s::regclass[])),
relations AS (
    SELECT oid FROM tables UNION SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0
    UNION SELECT indexrelid FROM pg_index JOIN tables ON indrelid IN (oid, reltoastrelid)
)
SELECT coalesce(sum(pg_relation_size(oid, fork)), 0) FROM relations, unnest('{main,fsm,vm,init}'::text[]) AS fork
"""


def space_of(warehouse: Warehouse) -> Space:
    with warehouse.connect() as connection:
        return read_space(connection)


def files_of(warehouse: Warehouse, *tables: str) -> int:
    return int(ask(warehouse.url, _FILES_OF_TABLES, list(tables)))


def columnstore_tables(warehouse: Warehouse) -> list[str]:
    """List the tables with the compressed batches, which TimescaleDB keeps beside the chunks."""
    with warehouse.connect() as connection:
        return [
            name
            for (name,) in connection.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' "
                # The older and the newer naming scheme.
                "AND relname ~ '^compress_hyper_.*_chunk$|^_hyper_.*_chunk_compressed$'"
            )
        ]


def months_by_table(warehouse: Warehouse) -> dict[str, set[Month]]:
    """Find by the rows which months each partition or chunk holds."""
    with warehouse.connect() as connection:
        rows = connection.execute(
            "SELECT tableoid::regclass::text, extract(year FROM time)::int, extract(month FROM time)::int FROM weather "
            "GROUP BY 1, 2, 3"
        ).fetchall()
    found: dict[str, set[Month]] = {}
    for table, year, month in rows:
        found.setdefault(table, set()).add(Month(year, month))
    return found


def measured(warehouse: Warehouse) -> Space:
    """Measure the table, and compare the result with its rows and files."""
    with without_autovacuum(warehouse):
        space = space_of(warehouse)
        _assert_measured(warehouse, space)
    return space


def _assert_measured(warehouse: Warehouse, space: Space) -> None:
    by_table = months_by_table(warehouse)
    assert space.chunks == len(by_table)
    assert space.bytes == files_of(warehouse, "weather", *by_table, *columnstore_tables(warehouse))
    assert list(space.months) == sorted(set().union(*by_table.values()))
    for month, of_month in space.months.items():
        tables = [table for table, months in by_table.items() if month in months]
        assert of_month.chunks == len(tables)
        alone = all(by_table[table] == {month} for table in tables)
        assert of_month.is_sharing == (not alone)
        if alone and not space.chunks_in_columnstore:
            assert of_month.bytes == files_of(warehouse, *tables)
        if not alone:
            assert of_month.bytes is None
            assert of_month.bytes_per_row is None
        assert of_month.rows == ask(
            warehouse.url, "SELECT count(*) FROM weather WHERE time >= %s AND time < %s", month.start, month.end
        )
    assert space.rows == ask(warehouse.url, "SELECT count(*) FROM weather")
    assert space.bytes_per_row == space.bytes / space.rows


def test_bytes_are_the_sizes_of_the_files_on_disk(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    flats = [flat_months(month) for month in ("2024-07", "2023-05", "2023-06")]
    layouts = {load_month(warehouse, flat).layout for flat in [*flats, flat_months("2023-07", points=(10, 20))]}
    space = measured(warehouse)
    assert {space.layout} == layouts
    july = space.months[JULY]
    assert july.rows == 744 * 200
    if host.layout == "hypertable":  # chunks of 31 days
        assert [month.is_sharing for month in space.months.values()] == [True, True, True, False]
        assert space.months[Month(2024, 7)].chunks == 2
    else:
        assert space.chunks == 4
        assert all(month.chunks == 1 and not month.is_sharing for month in space.months.values())
        assert july.bytes_per_row is not None
        # A row takes 77 bytes in the heap, and a few in the columnstore.
        assert 1 < july.bytes_per_row < 90
    if host.license is not None:
        with without_autovacuum(warehouse):
            assert space_of(warehouse).bytes == ask(warehouse.url, "SELECT hypertable_size('weather')")


def test_a_replaced_month_is_measured_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", points=(10, 20)))
    before = space_of(warehouse)
    load_month(warehouse, flat_months("2023-07", points=(10, 20), seed=2), force=True)
    replaced = measured(warehouse)
    assert (replaced.chunks, replaced.rows) == (before.chunks, before.rows)
    assert before.bytes * 0.9 < replaced.bytes < before.bytes * 2.5
    drop_month(warehouse, JULY, LocationSet.of_area(Area.parse("10.5/20/8.25/23.75")))
    smaller = measured(warehouse)
    assert smaller.months[JULY].rows == 744 * 40


def test_measuring_an_empty_database_finds_and_creates_nothing(empty_warehouse: Warehouse) -> None:
    assert space_of(empty_warehouse) == Space()
    assert space_of(empty_warehouse).bytes_per_row is None
    with empty_warehouse.connect() as connection:
        assert existing_layout(connection) is None
        found = connection.execute(
            "SELECT to_regclass('weather'), to_regnamespace('era5'), "
            "(SELECT extname FROM pg_extension WHERE extname = 'timescaledb')"
        ).fetchone()
    assert found == (None, None, None)


def test_a_table_without_rows_is_measured(warehouse: Warehouse, host: Host) -> None:
    with warehouse.connect() as connection:
        layout = ensure_schema(connection).layout
        again = existing_layout(connection)
        assert again is not None
        assert again.name == layout.name
    space = space_of(warehouse)
    assert (space.layout, space.chunks, space.rows, dict(space.months)) == (layout.name, 0, 0, {})
    assert space.bytes == files_of(warehouse, "weather")
    assert space.bytes_per_row is None
    assert (space.bytes > 0) == (host.layout == "hypertable")  # a hypertable's own index has pages without rows


def test_a_table_without_a_ledger_is_measured(embedded_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(embedded_warehouse, flat_months())
    with embedded_warehouse.connect() as connection:
        connection.execute("DROP SCHEMA era5 CASCADE")
    with without_autovacuum(embedded_warehouse):
        space = space_of(embedded_warehouse)
        assert space.bytes == files_of(embedded_warehouse, "weather_2023_07")
    assert (space.chunks, space.rows, space.months, space.bytes_per_row) == (1, 0, {}, None)


def test_reading_the_ledger_is_the_only_privilege_needed_to_measure(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    with fresh_role(warehouse.url) as role:
        with warehouse.connect() as connection:
            connection.execute(f"GRANT USAGE ON SCHEMA era5 TO {role}")
            connection.execute(f"GRANT SELECT ON era5.ledger TO {role}")
        with warehouse.connect() as theirs:
            theirs.execute(f"SET ROLE {role}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                theirs.execute("SELECT FROM weather")
            with without_autovacuum(warehouse):
                assert read_space(theirs) == space_of(warehouse)


def test_the_number_of_queries_does_not_grow_with_the_chunks(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    class Counting(psycopg.Cursor[Any]):
        queries = 0

        def execute(self, *args: Any, **options: Any) -> Any:
            Counting.queries += 1
            return super().execute(*args, **options)

    def queries() -> int:
        with warehouse.connect() as connection:
            connection.cursor_factory = Counting
            Counting.queries = 0
            read_space(connection)
            return Counting.queries

    load_month(warehouse, flat_months("2023-07", points=(1, 1)))
    of_one = queries()
    for month in ("2023-08", "2023-09", "2023-10", "2023-12"):
        load_month(warehouse, flat_months(month, points=(1, 1)))
    assert queries() == of_one


def test_measuring_a_locked_table_fails_soon(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as connection:
        before = ask(warehouse.url, "SHOW lock_timeout")
        with psycopg.connect(warehouse.url) as other:
            other.execute("LOCK TABLE weather")
            with pytest.raises(MonthLockedError, match=r"table weather: .* due to lock timeout"):
                read_space(connection)
            other.rollback()
        assert read_space(connection).chunks > 0
        assert connection.execute("SHOW lock_timeout").fetchone() == (before,)


# Plain PostgreSQL


def test_bounds_of_partitions_are_read_in_every_date_style(
    embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    for month in ("2023-06", "2023-07"):
        load_month(embedded_warehouse, flat_months(month, points=(1, 1)))
    with without_autovacuum(embedded_warehouse):
        expected = space_of(embedded_warehouse)
        for setting in ("DateStyle = 'German, DMY'", "DateStyle = 'Postgres, MDY'", "TimeZone = 'Asia/Jakarta'"):
            with embedded_warehouse.connect() as connection:
                connection.execute(f"SET {setting}".encode())
                assert read_space(connection) == expected, setting


def test_partitions_made_by_others_count_but_are_no_months(
    embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(embedded_warehouse, flat_months())
    july = space_of(embedded_warehouse).months[JULY]
    with embedded_warehouse.connect() as connection:
        for name, bounds in (
            ("early", "FOR VALUES FROM (MINVALUE) TO ('1900-01-01Z')"),
            ("old", "FOR VALUES FROM ('1900-01-01Z') TO ('1940-01-01Z')"),
            ("late", "FOR VALUES FROM ('2100-01-01Z') TO ('infinity')"),
            ("rest", "DEFAULT"),
        ):
            connection.execute(f"CREATE TABLE {name} PARTITION OF weather {bounds}")
        connection.execute("INSERT INTO weather (time) VALUES ('1066-10-14Z'), ('1939-12-31 23:00Z'), ('2099-01-01Z')")
    with without_autovacuum(embedded_warehouse):
        space = space_of(embedded_warehouse)
        assert space.bytes == files_of(embedded_warehouse, "weather_2023_07", "early", "old", "late", "rest")
        # Autovacuum may have been there before the lock.
        assert space.months == {JULY: replace(july, bytes=files_of(embedded_warehouse, "weather_2023_07"))}
    assert space.chunks == 5


# Community edition


def test_chunks_converted_after_loading_have_sizes_before_and_after(
    empty_warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    if host.license != "timescale":
        return
    make_heap_hypertable(empty_warehouse)
    load_month(empty_warehouse, flat_months("2023-06", points=(10, 20)))
    load_month(empty_warehouse, flat_months("2023-07", points=(10, 20)))
    with empty_warehouse.connect() as connection:
        connection.execute(
            "ALTER TABLE weather SET (timescaledb.compress, timescaledb.compress_orderby = 'time', "
            "timescaledb.compress_segmentby = 'location_id,latitude,longitude')"
        )
        connection.execute("VACUUM weather")  # else autovacuum changes sizes later
        heap = {table: files_of(empty_warehouse, table) for table in months_by_table(empty_warehouse)}
        before = space_of(empty_warehouse)
        name = "_timescaledb_internal._hyper_1_2_chunk"
        assert before.chunks_in_columnstore == 0
        connection.execute(f"SELECT compress_chunk('{name}')")
    space = measured(empty_warehouse)
    assert (space.chunks, space.chunks_in_columnstore, space.rows) == (2, 1, before.rows)
    assert space.bytes_before_columnstore == heap[name]
    assert space.bytes_after_columnstore == files_of(empty_warehouse, *columnstore_tables(empty_warehouse))
    assert space.bytes == ask(empty_warehouse.url, "SELECT hypertable_size('weather')")
    june, july = space.months[Month(2023, 6)], space.months[JULY]
    assert june == before.months[Month(2023, 6)]
    assert july.bytes == files_of(empty_warehouse, name, *columnstore_tables(empty_warehouse))
    assert july.bytes is not None
    assert july.bytes < heap[name] / 3


def test_rows_compressed_while_loading_have_no_size_before(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        offered = connection.execute(
            "SELECT name FROM pg_settings WHERE name IN "
            "('timescaledb.enable_direct_compress_copy', 'timescaledb.enable_direct_compress_copy_client_sorted')"
        ).fetchall()
        if host.license != "timescale" or len(offered) < 2:
            return
        connection.execute(
            "ALTER TABLE weather SET (timescaledb.compress, timescaledb.compress_orderby = 'time', "
            "timescaledb.compress_segmentby = 'location_id,latitude,longitude')"
        )
    options = "%20".join(f"-c%20{name}%3Don" for (name,) in offered)
    compressing = Warehouse(f"{warehouse.url}{'&' if '?' in warehouse.url else '?'}options={options}")
    for month in ("2023-06", "2023-07"):
        load_month(compressing, flat_months(month, points=(10, 20)))
    space = measured(warehouse)
    assert (space.chunks, space.chunks_in_columnstore) == (2, 2)
    assert (space.bytes_before_columnstore, space.bytes_after_columnstore) == (None, None)
    assert all(month.bytes_per_row is not None and month.bytes_per_row < 30 for month in space.months.values())
    # The replaced rows stay beside the new ones until their space is used again.
    load_month(compressing, flat_months("2023-07", points=(10, 20), seed=2))
    replaced = measured(warehouse)
    assert replaced.months[Month(2023, 6)] == space.months[Month(2023, 6)]
    assert replaced.rows == space.rows


# Which months are in which chunk

_MONTHS = st.integers(0, 40).map(lambda number: Month(2000 + number // 12, number % 12 + 1))
_ROWS = st.dictionaries(_MONTHS, st.integers(0, 10**9), max_size=8)
_HOURS_FROM_2000 = st.integers(-2000, 34_000)
_BOUNDS = st.lists(st.one_of(_HOURS_FROM_2000, st.sampled_from((-math.inf, math.inf))), unique=True, max_size=12)


@st.composite
def _chunks(draw: st.DrawFn) -> list[Chunk]:
    """Chunks that do not overlap, with gaps, in any order; perhaps one without bounds."""
    bounds = [Month(2000, 1).start.timestamp() + 3600 * hour for hour in sorted(draw(_BOUNDS))]
    sizes = st.integers(0, 10**12)
    made = [Chunk(start, end, draw(sizes), draw(st.booleans())) for start, end in pairwise(bounds)]
    made = [chunk for chunk in made if draw(st.integers(0, 4))]
    if draw(st.booleans()):
        made.append(Chunk(None, None, draw(sizes), in_columnstore=False))
    return draw(st.permutations(made))


@given(_chunks(), _ROWS)
def test_a_month_is_assigned_the_chunks_that_hold_an_hour_of_it(chunks: list[Chunk], rows: dict[Month, int]) -> None:
    def holds(chunk: Chunk, month: Month) -> bool:
        hours = range(int(month.start.timestamp()), int(month.end.timestamp()), 3600)
        return chunk.start is not None and chunk.end is not None and any(chunk.start <= h < chunk.end for h in hours)

    expected = {}
    for month, its_rows in rows.items():
        its = [chunk for chunk in chunks if holds(chunk, month)]
        others = [other for other in rows if other != month and any(holds(chunk, other) for chunk in its)]
        size = None if others or not its else sum(chunk.bytes for chunk in its)
        expected[month] = MonthSpace(its_rows, len(its), size)
    shared_out = share_out(chunks, rows)
    assert shared_out == expected
    assert list(shared_out) == sorted(rows)


def test_bytes_per_row_is_none_without_rows_or_bytes() -> None:
    assert MonthSpace(rows=10, chunks=1, bytes=770).bytes_per_row == 77.0
    assert MonthSpace(rows=0, chunks=1, bytes=770).bytes_per_row is None
    assert MonthSpace(rows=10, chunks=1, bytes=None).bytes_per_row is None
    space = Space(layout="partitions", chunks=2, bytes=1540, rows=10)
    assert space.bytes_per_row == 154.0
    assert replace(space, rows=0).bytes_per_row is None
    assert replace(space, chunks=0, bytes=0).bytes_per_row is None
