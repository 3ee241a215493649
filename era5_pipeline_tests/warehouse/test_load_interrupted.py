"""Interrupted loads, and concurrent loads, on every layout. Kills, crashes and readers: `test_load_faults`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import BadFileError, TransientError
from era5_pipeline.runtime.progress import listening
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.monthly import assert_monthly
from era5_pipeline_tests.warehouse.loads import (
    ask,
    copying_sessions,
    loading,
    rows_in,
    wait_until,
)
from era5_pipeline_tests.warehouse.test_load_month import last_attempt, states, versions_of_rows

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.progress import Stage
    from era5_pipeline_tests.flat_months import FlatMonths


ALL = ("t2m", "u10", "v10", "tcc", "tp", "sf")


def staging_tables(warehouse: Warehouse) -> int:
    counted = (
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'weather%%' "
        "AND relnamespace IN ('era5'::regnamespace, 'era5_loads'::regnamespace) AND NOT relispartition"
    )
    return int(ask(warehouse.url, counted))


def test_an_interrupted_first_load_leaves_no_rows(warehouse: Warehouse, large: FlatMonth) -> None:
    with loading(warehouse, large, pause=True) as load:
        assert rows_in(warehouse) == 0
        assert states(warehouse) == {"2023-07": "loading"}
        (pid,) = copying_sessions(warehouse)
        assert ask(warehouse.url, "SELECT pg_terminate_backend(%s, 5000)", pid)
        load.resume()
        with pytest.raises(TransientError):
            load.result()
    assert rows_in(warehouse) == 0
    assert states(warehouse) == {"2023-07": "failed"}


def test_a_flat_file_damaged_in_the_middle_leaves_the_month_unchanged(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth, tmp_path: Path
) -> None:
    """The loader's side fails, not the server."""
    old = flat_months(points=(1, 2))
    load_month(warehouse, old)
    before = versions_of_rows(warehouse)
    harmed = tmp_path / large.path.name
    content = large.path.read_bytes()
    harmed.write_bytes(content[: len(content) // 3] + bytes(len(content) // 3) + content[len(content) // 3 * 2 :])
    with pytest.raises(BadFileError, match=f"^{harmed}: is damaged"):
        load_month(warehouse, replace(large, path=harmed))
    assert versions_of_rows(warehouse) == before
    outcome, error = last_attempt(warehouse, "2023-07")
    assert outcome == "failed"
    assert error is not None
    assert "is damaged" in error
    assert staging_tables(warehouse) == 0


def test_ctrl_c_during_copy_leaves_the_month_unchanged(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    old = flat_months(points=(1, 2))
    load_month(warehouse, old)
    before = versions_of_rows(warehouse)

    def interrupt(stage: Stage, done: int, total: int, unit: str) -> None:
        raise KeyboardInterrupt

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        load_month(warehouse, large)
    assert versions_of_rows(warehouse) == before
    wait_until(lambda: last_attempt(warehouse, "2023-07") == ("interrupted", None))
    assert staging_tables(warehouse) == 0


def test_the_second_load_of_a_month_waits_and_finds_it_unchanged(warehouse: Warehouse, large: FlatMonth) -> None:
    with loading(warehouse, large, pause=True) as first:
        (pid,) = copying_sessions(warehouse)
        with loading(warehouse, large) as second:
            wait_until(lambda: bool(second.said))
            assert f"2023-07 is being loaded by session {pid} of postgres" in second.said[0]
            assert second.is_running()
            first.resume()
            assert first.result().changed
            assert not second.result().changed
    assert rows_in(warehouse) == large.rows
    assert ask(warehouse.url, "SELECT count(*) FROM era5.load_attempt") == 1


def test_loads_of_adjacent_months_do_not_wait_for_each_other(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    # Adjacent months share chunks of 31 days.
    before, after = flat_months("2023-06"), flat_months("2023-08")
    with loading(warehouse, large, pause=True) as load:
        for flat in (before, after):
            for force in (False, True):
                assert load_month(warehouse, flat, force=force).changed
                assert load.is_running()
        assert_holds(warehouse, before, after)
        assert copying_sessions(warehouse)
        load.resume()
        assert load.result().changed
    assert rows_in(warehouse) == before.rows + large.rows + after.rows
    assert set(states(warehouse).values()) == {"loaded"}


def test_concurrent_first_loads_create_what_they_need_once(empty_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """Extension, schema, tables, and years and columns of summaries, although all loads find none."""
    flats = [flat_months(month, names=ALL) for month in ("2021-01", "2021-02", "2022-01", "2022-02")]
    with ExitStack() as running:
        for load in [running.enter_context(loading(empty_warehouse, flat)) for flat in flats]:
            assert load.result().changed
    assert_holds(empty_warehouse, *flats)
    assert_monthly(empty_warehouse, months=4)
    years = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'era5.monthly_summary'::regclass"
    assert ask(empty_warehouse.url, years) == 2
