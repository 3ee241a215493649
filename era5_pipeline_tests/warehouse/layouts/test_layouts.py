"""How the table is divided by time, and what that means for readers."""

from __future__ import annotations

import time
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.model.errors import MonthLockedError, WarehouseError
from era5_pipeline.warehouse.layouts import layout_for
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import ask, loading, rows_in, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

STAGING_TABLES = (
    "SELECT count(*) FROM pg_class WHERE relname LIKE 'weather_2023_07%%' AND relkind = 'r' "
    "AND relnamespace IN ('era5'::regnamespace, 'era5_loads'::regnamespace)"
)


@pytest.fixture
def partitions(embedded_warehouse: Warehouse) -> Warehouse:
    return embedded_warehouse


def plan_of(warehouse: Warehouse, query: str) -> list[dict[str, Any]]:
    """List every node of the query's plan."""

    def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for below in plan.get("Plans", []):
            yield from nodes(below)

    explained = ask(warehouse.url, "EXPLAIN (FORMAT json) " + query)
    return list(nodes(explained[0]["Plan"]))


def chunks(warehouse: Warehouse) -> list[tuple[str, str]]:
    """List the start and end of each chunk."""
    with psycopg.connect(warehouse.url, options="-c TimeZone=UTC") as connection:
        return [
            (f"{start:%Y-%m-%d}", f"{end:%Y-%m-%d}")
            for start, end in connection.execute(
                "SELECT range_start, range_end FROM timescaledb_information.chunks ORDER BY range_start"
            )
        ]


def test_a_query_for_a_location_and_month_uses_the_index(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths, large: FlatMonth
) -> None:
    load_month(warehouse, flat_months("2023-06"))
    load_month(warehouse, large)
    load_month(warehouse, flat_months("2023-09"))
    location = ask(warehouse.url, "SELECT max(location_id) FROM weather WHERE time = '2023-07-15Z'")
    nodes = plan_of(
        warehouse,
        f"SELECT * FROM weather WHERE location_id = {location} AND time >= '2023-07-01Z' AND time < '2023-08-01Z'",
    )
    kinds = {node["Node Type"] for node in nodes}
    if host.layout == "columnstore":
        # A test's few batches fit on one page, which is scanned; those of a global month are found by their index.
        assert any(f"location_id = {location}" in str(node.get("Filter")) for node in nodes if "compress" in str(node))
        return
    assert "Bitmap Index Scan" in kinds
    assert "Seq Scan" not in kinds
    scanned = {node["Relation Name"] for node in nodes if "Relation Name" in node}
    if host.layout == "hypertable":
        assert len(scanned) <= 2  # 31 days touch two chunks of 31 days
    else:
        assert len(scanned) == 1
    indexes = {node["Index Name"] for node in nodes if "Index Name" in node}
    kind = "SELECT DISTINCT amname::text FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = ANY (%s)"
    assert ask(warehouse.url, kind, list(indexes)) == "brin"


def test_only_the_requested_months_are_scanned(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    for month in ("2023-05", "2023-06", "2023-07", "2023-08", "2024-07"):
        load_month(warehouse, flat_months(month, points=(1, 1)))
    nodes = plan_of(warehouse, "SELECT count(*) FROM weather WHERE time >= '2023-06-01Z' AND time < '2023-07-01Z'")
    scanned = {node["Relation Name"] for node in nodes if "Relation Name" in node}
    # In the columnstore: a chunk, and the table of its batches.
    assert len(scanned) <= (1 if host.layout == "partitions" else 2)


def test_partitions_and_chunks_have_the_layouts_ranges(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    for month in ("2024-02", "2023-12", "2024-01"):
        load_month(warehouse, flat_months(month, points=(1, 1)))
    if host.layout == "partitions":
        with warehouse.connect() as connection:
            partitions = connection.execute(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'weather'::regclass ORDER BY 1"
            ).fetchall()
        assert partitions == [("weather_2023_12",), ("weather_2024_01",), ("weather_2024_02",)]
        return
    found = chunks(warehouse)
    if host.layout == "columnstore":
        assert found == [("2023-12-01", "2024-01-01"), ("2024-01-01", "2024-02-01"), ("2024-02-01", "2024-03-01")]
    else:
        assert {(date.fromisoformat(end) - date.fromisoformat(start)).days for start, end in found} == {31}
        assert all(before[1] == after[0] for before, after in pairwise(found))


# Partitions: the result of exchanging two tables, and who waits for it.


def test_a_partition_is_frozen_analyzed_and_indexed_once(partitions: Warehouse, flat_months: FlatMonths) -> None:
    for _ in range(3):
        load_month(partitions, flat_months(), force=True)
    with partitions.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE pg_get_indexdef(indexrelid) LIKE '%USING brin (location_id)%'), count(*) "
            "FROM pg_index WHERE indrelid = 'weather_2023_07'::regclass"
        ).fetchone()
        assert row == (1, 1)
        row = connection.execute(
            "SELECT reltuples::int, relallvisible = (SELECT count(DISTINCT (ctid::text::point)[0]) FROM weather) "
            "FROM pg_class WHERE oid = 'weather_2023_07'::regclass"
        ).fetchone()
        assert row == (flat_months().rows, True)
        constraints = connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = 'weather_2023_07'::regclass AND contype = 'c'"
        ).fetchall()
        assert constraints == []
        left = connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'weather%' AND relkind <> 'v' ORDER BY 1"
        ).fetchall()
    assert left == [
        ("weather",),
        ("weather_2023_07",),
        ("weather_2023_07_location_id_idx",),
        ("weather_location_id_idx",),
    ]


def test_a_partition_gets_the_columns_that_a_user_added_to_the_index(
    partitions: Warehouse, flat_months: FlatMonths
) -> None:
    """It has them before the exchange: built during it, readers would wait."""
    load_month(partitions, flat_months("2023-06"))
    with partitions.connect() as connection:
        connection.execute("DROP INDEX weather_location_id_idx")
        connection.execute(
            "CREATE INDEX ON weather USING brin (location_id, latitude, longitude) WITH (pages_per_range = 16)"
        )
    load_month(partitions, flat_months())
    with partitions.connect() as connection:
        for table in ("weather_2023_06", "weather_2023_07"):
            rows = connection.execute(
                "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass", (table,)
            ).fetchall()
            assert ["brin (location_id, latitude, longitude)" in text for (text,) in rows] == [True]
    assert_holds(partitions, flat_months("2023-06"), flat_months())


def test_staging_tables_of_a_killed_load_are_dropped(partitions: Warehouse, flat_months: FlatMonths) -> None:
    load_month(partitions, flat_months())
    with partitions.connect() as connection:
        # The first two by an older version; the last is not ours.
        for name in ("era5.weather_2023_07", "era5.weather_2023_07_12", "era5_loads.weather_2023_07_1"):
            connection.execute(f"CREATE TABLE {name} (half integer)")
        connection.execute("CREATE TABLE era5.weather_2023_071 (half integer)")
    load_month(partitions, flat_months(seed=2))
    assert_holds(partitions, flat_months(seed=2))
    assert ask(partitions.url, STAGING_TABLES) == 1
    assert ask(partitions.url, "SELECT count(*) FROM era5.weather_2023_071") == 0


def test_columns_added_by_others_are_kept(partitions: Warehouse, flat_months: FlatMonths) -> None:
    load_month(partitions, flat_months(names=("u10", "v10")))
    with partitions.connect() as connection:
        connection.execute(
            "ALTER TABLE weather ADD COLUMN speed real "
            "GENERATED ALWAYS AS (sqrt(zonal_wind_10m ^ 2 + meridional_wind_10m ^ 2)) STORED, "
            "ADD CONSTRAINT slow CHECK (zonal_wind_10m < 1000)"
        )
    load_month(partitions, flat_months(names=("u10", "v10"), seed=2))
    assert_holds(partitions, flat_months(names=("u10", "v10"), seed=2))
    assert ask(partitions.url, "SELECT count(*) FROM weather WHERE speed > 0") == flat_months().rows


def test_a_detached_partition_is_not_dropped(partitions: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load_month(partitions, flat)
    with partitions.connect() as connection:
        connection.execute("ALTER TABLE weather DETACH PARTITION weather_2023_07")
    with pytest.raises(WarehouseError, match="there is a table weather_2023_07 that is not a partition of weather"):
        load_month(partitions, flat, force=True)
    assert ask(partitions.url, "SELECT count(*) FROM weather_2023_07") == flat.rows
    assert rows_in(partitions) == 0


def test_a_long_reader_delays_a_replacement_but_no_other_reader(partitions: Warehouse, flat_months: FlatMonths) -> None:
    old, new = flat_months(), flat_months(seed=2)
    load_month(partitions, old)
    with psycopg.connect(partitions.url) as reader:
        reader.execute("SELECT count(*) FROM weather")
        with loading(partitions, new) as load:
            wait_until(lambda: bool(load.said))
            pid = reader.info.backend_pid
            assert f"2023-07 is ready, but the table weather is in use by session {pid} of postgres" in load.said[0]
            # While the load waited for its lock without a pause, no other reader would come before the first one ends.
            for _ in range(14):
                assert rows_in(partitions) == old.rows
                time.sleep(0.05)
            # The first load of a month replaces nothing, and does not wait.
            assert load_month(partitions, flat_months("2023-08")).changed
            assert load.is_running()
            reader.commit()
            assert load.result().changed
        assert len(load.said) == 1
    assert_holds(partitions, new, flat_months("2023-08"))


def test_a_reader_that_never_ends_is_named_in_the_error(partitions: Warehouse, flat_months: FlatMonths) -> None:
    load_month(partitions, flat_months())
    with psycopg.connect(partitions.url) as reader:
        reader.execute("SELECT * FROM weather_2023_07 LIMIT 1")
        expected = f"2023-07 cannot be replaced while the table weather is in use by session {reader.info.backend_pid}"
        with pytest.raises(MonthLockedError, match=expected):
            load_month(partitions, flat_months(seed=2), lock_timeout_seconds=0)
    assert_holds(partitions, flat_months())
    assert ask(partitions.url, STAGING_TABLES) == 0
    assert ask(partitions.url, "SELECT outcome FROM era5.load_attempt ORDER BY id DESC LIMIT 1") == "failed"


# Hypertables


def test_long_readers_never_delay_a_hypertable(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    if host.layout == "partitions":
        return
    old, new = flat_months(), flat_months(seed=2)
    load_month(warehouse, old)
    with psycopg.connect(warehouse.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        count = "SELECT count(*) FROM weather"
        assert reader.execute(count).fetchone() == (old.rows,)
        # Autovacuum may hold the chunk's lock, and gives it up after a second (deadlock_timeout); the reader does not.
        assert load_month(warehouse, new, lock_timeout_seconds=20).changed
        assert reader.execute(count).fetchone() == (old.rows,)
    assert_holds(warehouse, new)


def test_existing_chunks_that_overlap_months_are_used(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    """As on a server that once ran the Apache edition, or into which others inserted rows."""
    if host.layout == "partitions":
        return
    load_month(warehouse, flat_months("2020-01"))
    with warehouse.connect() as connection:
        connection.execute("INSERT INTO weather (time) VALUES ('2023-07-15Z')")
        connection.execute("DELETE FROM weather WHERE location_id IS NULL")
    flats = [flat_months(month) for month in ("2023-06", "2023-08", "2023-07")]
    for flat in flats:
        load_month(warehouse, flat)
    assert_holds(warehouse, *flats, flat_months("2020-01"))
    load_month(warehouse, flat_months("2023-07", seed=2))
    assert_holds(warehouse, flats[0], flats[1], flat_months("2023-07", seed=2), flat_months("2020-01"))


def test_space_of_deleted_rows_is_reused(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    """A month that is replaced repeatedly takes no more than 2.5 times its space."""
    flat = flat_months(points=(3, 5))
    sizes = []
    size = "SELECT hypertable_size('weather')" if host.license else "SELECT pg_total_relation_size('weather_2023_07')"
    for _ in range(5):
        load_month(warehouse, flat, force=True)
        sizes.append(ask(warehouse.url, size))
    assert max(sizes) < 2.5 * sizes[0]


def test_the_layout_of_a_new_table_is_that_for_the_server(empty_warehouse: Warehouse, host: Host) -> None:
    with empty_warehouse.connect() as connection:
        schema = ensure_schema(connection)
        assert schema.layout is layout_for(schema.server)
        assert schema.layout.name == host.layout
        assert ensure_schema(connection) == schema
