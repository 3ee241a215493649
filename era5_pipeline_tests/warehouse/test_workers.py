"""One month loaded by several connections is as complete, and as safe, as by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.runtime.progress import listening
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import Reader, ask, wait_until
from era5_pipeline_tests.warehouse.test_load_interrupted import staging_tables
from era5_pipeline_tests.warehouse.test_load_month import states

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.progress import Stage
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


@pytest.fixture
def partitions(embedded_warehouse: Warehouse) -> Warehouse:
    return embedded_warehouse


def test_several_connections_load_the_whole_month_or_a_note_says_why_not(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths, large: FlatMonth
) -> None:
    neighbour = flat_months("2023-08")
    load_month(warehouse, neighbour)
    loaded = load_month(warehouse, large, workers=2)
    assert loaded.rows == large.rows
    assert_holds(warehouse, large, neighbour)
    assert states(warehouse) == {"2023-07": "loaded", "2023-08": "loaded"}
    if host.layout == "partitions":
        assert (loaded.workers, loaded.notes) == (2, ())
    else:
        assert loaded.workers == 1
        (note,) = loaded.notes
        assert note.startswith("2023-07: loaded by one connection, not 2: in a hypertable")


def test_months_loaded_by_one_and_by_two_connections_replace_each_other(
    partitions: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    small = flat_months(points=(10, 20), hours=24)
    for flat, workers, used in ((large, 2, 2), (small, 2, 1), (large, 1, 1), (large, 2, 2), (large, 2, 2)):
        loaded = load_month(partitions, flat, workers=workers, force=True, replace_more=True)
        assert loaded.workers == used
        assert_holds(partitions, flat)
        assert staging_tables(partitions) == 0
    with partitions.connect() as connection:
        left = connection.execute("SELECT relid::text FROM pg_partition_tree('weather') ORDER BY 1").fetchall()
        assert left == [("weather",), ("weather_2023_07",), ("weather_2023_07_1",), ("weather_2023_07_2",)]
        checks = connection.execute("SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'c'").fetchall()
        assert [name for (name,) in checks if name.startswith("weather")] == []
        # Each share is frozen, analyzed and indexed, and its index is a partition of the table's index.
        rows = connection.execute(
            "SELECT c.relname, c.reltuples::int > 0, c.relallvisible > 0, count(*) "
            "FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid "
            "JOIN pg_am a ON a.oid = x.relam WHERE c.relname ~ '^weather_2023_07_[12]$' AND amname = 'brin' "
            "AND x.relispartition GROUP BY 1, 2, 3 ORDER BY 1"
        ).fetchall()
        assert rows == [("weather_2023_07_1", True, True, 1), ("weather_2023_07_2", True, True, 1)]


def test_a_query_for_a_location_reads_only_its_share(partitions: Warehouse, large: FlatMonth) -> None:
    load_month(partitions, large, workers=2)
    location = ask(partitions.url, "SELECT max(location_id) FROM weather")
    with partitions.connect() as connection:
        plan = connection.execute(f"EXPLAIN SELECT * FROM weather WHERE location_id = {location}").fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "weather_2023_07_2" in text
    assert "weather_2023_07_1" not in text


def test_readers_see_the_old_month_or_the_new_one(
    partitions: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    small = flat_months(points=(3, 5))
    load_month(partitions, small)
    with Reader(partitions) as reader:
        for flat in (large, small, large):
            load_month(partitions, flat, workers=2)
    assert reader.error is None
    assert set(reader.counts) <= {small.rows, large.rows}


def test_ctrl_c_stops_all_connections(partitions: Warehouse, flat_months: FlatMonths, large: FlatMonth) -> None:
    load_month(partitions, flat_months())

    def interrupt(stage: Stage, done: int, total: int, unit: str) -> None:
        raise KeyboardInterrupt

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        load_month(partitions, large, workers=2)
    assert_holds(partitions, flat_months())
    assert staging_tables(partitions) == 0
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'era5 2023-07%%' AND datname = %s"
    database = ask(partitions.url, "SELECT current_database()")
    wait_until(lambda: ask(partitions.url, sessions, database) == 0)
