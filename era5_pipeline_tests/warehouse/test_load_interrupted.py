"""Interrupted loads, concurrent loads, and readers during loads, on every layout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import BadFileError, TransientError
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.runtime.progress import listening
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import (
    Reader,
    ask,
    copying_sessions,
    loading,
    loading_process,
    rows_in,
    wait_until,
)
from era5_pipeline_tests.warehouse.test_load_month import last_attempt, states, versions_of_rows

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.progress import Stage
    from era5_pipeline_tests.flat_months import FlatMonths


def staging_tables(warehouse: Warehouse) -> int:
    return int(
        ask(
            warehouse.url,
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'era5'::regnamespace AND relname LIKE 'weather%%'",
        )
    )


def test_kill_9_during_copy_leaves_the_month_unchanged(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    old = flat_months(points=(1, 2))
    load_month(warehouse, old)
    before = versions_of_rows(warehouse)
    with loading_process(warehouse, large) as process:
        assert last_attempt(warehouse, "2023-07") == ("running", None)
        process.kill()
        process.wait()
        wait_until(lambda: not copying_sessions(warehouse))
    wait_until(lambda: last_attempt(warehouse, "2023-07")[0] != "running")
    assert last_attempt(warehouse, "2023-07") == ("interrupted", None)
    assert versions_of_rows(warehouse) == before
    assert load_month(warehouse, large).changed
    assert rows_in(warehouse) == large.rows
    assert last_attempt(warehouse, "2023-07") == ("loaded", None)
    assert staging_tables(warehouse) == 0


def test_a_cut_connection_is_a_transient_error_and_leaves_the_month_unchanged(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    old = flat_months(points=(1, 2))
    load_month(warehouse, old)
    before = versions_of_rows(warehouse)
    with loading(warehouse, large, pause=True) as load:
        (pid,) = copying_sessions(warehouse)
        assert ask(warehouse.url, "SELECT pg_terminate_backend(%s, 5000)", pid)
        load.resume()
        with pytest.raises(TransientError, match=r"^loading 2023-07: .*\nNo month is left half replaced"):
            load.result()
    assert versions_of_rows(warehouse) == before
    assert last_attempt(warehouse, "2023-07") == ("interrupted", None)
    assert load_month(warehouse, large).changed
    assert rows_in(warehouse) == large.rows
    assert staging_tables(warehouse) == 0


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


def test_an_immediate_stop_of_the_server_leaves_the_month_unchanged(
    embedded: EmbeddedServer, embedded_warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    warehouse, old = embedded_warehouse, flat_months(points=(1, 2))
    load_month(warehouse, old)
    with loading(warehouse, large, pause=True) as load:
        postmaster = first_number(embedded.data_folder / "postmaster.pid")
        assert postmaster is not None
        os.kill(postmaster, signal.SIGQUIT)  # stop mode "immediate": the next start recovers as after a power failure
        wait_until(lambda: not embedded.is_running())
        load.resume()
        with pytest.raises(TransientError, match=r"loading 2023-07: .*\n.*The connection to the server was lost"):
            load.result()
    with embedded.lease():
        assert_holds(warehouse, old)
        assert last_attempt(warehouse, "2023-07") == ("interrupted", None)
        assert load_month(warehouse, large).changed
        assert rows_in(warehouse) == large.rows
        assert staging_tables(warehouse) == 0


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


# A tablespace on a small disk, in a mount namespace of its own that ends with the process.
FULL_DISK = """
import json, os, shutil, sys
from pathlib import Path
import psycopg
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.flat.flat_month import FlatMonth
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import assert_holds
home, disk = Path(sys.argv[1]), Path(sys.argv[2])
small, large = (FlatMonth.from_json(json.loads(text)) for text in sys.stdin.read().splitlines())
server = EmbeddedServer(home)
with server.lease() as url:
    os.chown(disk, server.data_folder.stat().st_uid, -1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        connection.execute("CREATE DATABASE full_up TABLESPACE small")
    warehouse = Warehouse(server.url("full_up"))
    load_month(warehouse, small)
    with warehouse.connect() as connection:
        connection.execute("CHECKPOINT")
    with (disk / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(disk).free - 5_000_000)
    try:
        load_month(warehouse, large)
    except Era5Error as error:
        assert_holds(warehouse, small)
        with warehouse.connect() as connection:
            attempt = read_ledger(connection)[0].last_attempt
        print(json.dumps([type(error).__name__, error.message, error.remedy, attempt.outcome, attempt.error]))
    assert load_month(warehouse, small, force=True).changed  # the space was freed
"""


def test_a_full_disk_of_the_server_is_reported_and_leaves_the_month_unchanged(
    flat_months: FlatMonths, large: FlatMonth
) -> None:
    home = Path(tempfile.mkdtemp(prefix="era5-test-", dir="/tmp"))
    disk = home / "disk"
    disk.mkdir()
    script = 'mount -t tmpfs -o size=64m tmpfs "$1" && exec "$2" -c "$3" "$4" "$1"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(disk), sys.executable, FULL_DISK, str(home)]
    flats = (flat_months(points=(1, 2)), large)
    try:
        done = subprocess.run(
            command,
            input="\n".join(json.dumps(flat.to_json()) for flat in flats),
            capture_output=True,
            text=True,
            check=False,
        )
        if "unshare:" in done.stderr or "mount:" in done.stderr:
            pytest.skip("needs the right to mount a small disk")
        assert done.returncode == 0, done.stderr
        kind, message, remedy, outcome, noted = json.loads(done.stdout)
    except FileNotFoundError:
        pytest.skip("needs unshare, of Linux")
    finally:
        EmbeddedServer(home).stop(force=True)
        shutil.rmtree(home, ignore_errors=True)
    assert (kind, outcome) == ("WarehouseError", "failed")
    assert message.startswith("loading 2023-07: could not extend file")
    assert message == noted
    assert "No space left on device" in message
    assert "No month is left half replaced. Free space on the database server's disk" in remedy


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


def test_concurrent_first_loads_create_the_schema_once(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """Extension, schema and table are created once, although all loads find none."""
    flats = [flat_months(month) for month in ("2023-06", "2023-07", "2023-08", "2023-10")]
    loads = []
    for flat in flats:
        context = loading(warehouse, flat)
        loads.append((context, context.__enter__()))
    for context, load in loads:
        assert load.result().changed
        context.__exit__(None, None, None)
    assert_holds(warehouse, *flats)


def test_readers_see_the_old_month_or_the_new_one(
    warehouse: Warehouse, flat_months: FlatMonths, large: FlatMonth
) -> None:
    small = flat_months(points=(3, 5))
    load_month(warehouse, small)
    with Reader(warehouse) as reader:
        for flat in (large, small, large, small):
            load_month(warehouse, flat)
    assert reader.error is None
    assert set(reader.counts) <= {small.rows, large.rows}
    assert small.rows in reader.counts
