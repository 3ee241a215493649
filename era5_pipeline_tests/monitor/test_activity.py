"""Tests of `monitor/activity`."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import ServerUnreachableError
from era5_pipeline.model.months import Month
from era5_pipeline.monitor import activity
from era5_pipeline.monitor.activity import (
    Kind,
    Outage,
    Report,
    ReportedRows,
    ServerCounters,
    find_bottleneck,
    kind_of_wait,
    wait_shares,
    wal_increase,
    watch,
)
from era5_pipeline.monitor.sessions import CPU, HIDDEN, IDLE, Loader, summarize_loaders
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import SECONDS, Load, ask, copying_sessions, loading, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.monitor.sessions import Sample
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

HIDDEN_ROWS = Loader(7, "era5", None, "COPY", None, None, None, None, {}, ())


@given(steps=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=20))
def test_the_rate_is_that_of_the_last_five_seconds(steps: list[int]) -> None:
    reported, counts = ReportedRows(), list(accumulate(steps))
    for second, rows in enumerate(counts):
        reported.add(float(second), {7: rows})
    loader = reported.complete(HIDDEN_ROWS)
    assert loader.rows == counts[-1]
    window = counts[-6:]
    expected = (window[-1] - window[0]) / (len(window) - 1) if len(window) > 1 else None
    assert loader.rows_per_second == expected


def test_rows_that_the_server_counts_take_precedence() -> None:
    reported = ReportedRows()
    reported.add(0.0, {7: 10})
    shown = replace(HIDDEN_ROWS, rows=5, rows_per_second=1.0)
    assert reported.complete(shown) == shown
    assert reported.complete(replace(HIDDEN_ROWS, pid=8)).rows is None


def test_a_second_load_of_the_same_session_starts_from_zero() -> None:
    reported = ReportedRows()
    for second, rows in enumerate((0, 900, 100, 300)):
        reported.add(float(second), {7: rows})
    loader = reported.complete(HIDDEN_ROWS)
    assert (loader.rows, loader.rows_per_second) == (300, 200.0)
    reported.add(4.0, {})
    assert reported.complete(HIDDEN_ROWS).rows is None


JULY = Month(2023, 7)
HEADER_BYTES = 19
# Bytes of a row with two variables in a binary COPY: the number of columns, six lengths, a time, three numbers of the
# location, and the values.
ROW_BYTES = 2 + 6 * 4 + 8 + 3 * 4 + 2 * 4
# The server reports the rows of a COPY a thousand at a time, and its bytes a buffer at a time.
UNREPORTED_ROWS = 1_000
BUFFER_BYTES = 65_536


def up(result: Report | Outage) -> Report:
    assert isinstance(result, Report), result
    return result


def one_report(warehouse: Warehouse, seconds: float = 0.2) -> Report:
    (result,) = watch(warehouse, interval_seconds=seconds, seconds=seconds)
    return up(result)


def report_that(warehouse: Warehouse, holds: Callable[[Report], bool]) -> Report:
    """The first report for which that holds."""
    with closing(watch(warehouse, interval_seconds=0.3, seconds=SECONDS)) as watching:
        for report in watching:
            if holds(up(report)):
                return up(report)
    raise AssertionError(report)


@contextmanager
def paused_load(warehouse: Warehouse, flat: FlatMonth) -> Iterator[tuple[Load, int]]:
    """A load paused in the middle of its COPY, with all taken that was sent; and its session's process number.

    It is the month's second load: during the first one, the columnstore shows no progress. A row has the same number of
    bytes unless it is sent in a batch.
    """
    load_month(warehouse, flat)
    with loading(warehouse, flat, pause=True, force=True, batches=False) as load:
        (pid,) = copying_sessions(warehouse)
        taken = [0]

        def has_taken_all() -> bool:
            time.sleep(0.2)
            taken.append(taken_bytes(warehouse, pid))
            return taken[-1] == taken[-2]

        wait_until(has_taken_all)
        yield load, pid


def taken_bytes(warehouse: Warehouse, pid: int) -> int:
    return int(ask(warehouse.url, "SELECT bytes_processed FROM pg_stat_progress_copy WHERE pid = %s", pid))


@contextmanager
def copy_begun(url: str, name: str) -> Iterator[int]:
    """Begin a COPY into weather in a session of that name, and send nothing; yields its process number."""
    with (
        psycopg.connect(url, autocommit=True, application_name=name) as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY weather (time) FROM STDIN"),
    ):
        yield connection.info.backend_pid


def test_a_load_that_is_sent_no_rows_waits_for_the_loader(warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large) as (_, pid):
        # TimescaleDB counts no rows: there they are known after the load has reported them.
        report = report_that(warehouse, lambda report: report.rows_per_second is not None)
        taken = taken_bytes(warehouse, pid)
        (loader,) = report.loaders
        assert (loader.pid, loader.month, loader.phase) == (pid, JULY, "COPY")
        assert (loader.rows_per_second, loader.bytes_per_second) == (0, 0)
        assert loader.bytes == taken
        rows_of_bytes = (taken - HEADER_BYTES) / ROW_BYTES
        assert loader.rows == pytest.approx(rows_of_bytes, abs=UNREPORTED_ROWS + BUFFER_BYTES / ROW_BYTES)
        assert report.waits["Client:ClientRead"] == sum(loader.waits.values()) >= 1
        assert find_bottleneck(report).kind == "loader"
        assert report.has_months
        assert report.all_visible


def test_rates_times_seconds_are_what_the_load_sent(
    warehouse: Warehouse, large: FlatMonth, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = took = 0.0
    seconds: list[float] = []

    def timed(samples: Sequence[Sample], *others: Any) -> tuple[Loader, ...]:
        """On a busy machine, the time between two reports is not that between their samples."""
        seconds.append(samples[-1].at - samples[0].at)
        return summarize_loaders(samples, *others)

    monkeypatch.setattr(activity, "summarize_loaders", timed)
    load_month(warehouse, large)
    with closing(watch(warehouse, interval_seconds=0.3, seconds=SECONDS)) as watching:
        next(watching)
        with loading(warehouse, large, pause=True, force=True, batches=False):
            (pid,) = copying_sessions(warehouse)
            for _ in range(4):
                report = up(next(watching))
                assert report.bytes_per_second is not None
                rows += (report.rows_per_second or 0) * seconds[-1]
                took += report.bytes_per_second * seconds[-1]
            sent = taken_bytes(warehouse, pid)
    assert took == pytest.approx(sent, rel=0.05)
    if host.layout == "partitions":  # elsewhere the server counts no rows, and the load reports them once a second
        assert rows == pytest.approx(sent / ROW_BYTES, rel=0.05)


def test_rows_of_a_months_first_load_are_shown_on_every_layout(warehouse: Warehouse, large: FlatMonth) -> None:
    """The columnstore shows no progress of it: its bytes are unknown, not zero, and its rows are those it reports."""
    with loading(warehouse, large, pause=True, batches=False):
        # Without a rate of 0, the server has not taken all that was sent yet.
        report = report_that(warehouse, lambda report: report.rows_per_second == 0)
        shown = ask(warehouse.url, "SELECT count(*) FROM pg_stat_progress_copy WHERE datname = current_database()")
        (loader,) = report.loaders
        assert (loader.month, loader.phase) == (JULY, "COPY")
        assert loader.rows == pytest.approx(65_536, abs=UNREPORTED_ROWS + BUFFER_BYTES / ROW_BYTES)
        assert report.bytes_per_second == (0 if shown else None)
        assert (loader.bytes is None) == (not shown)
        assert find_bottleneck(report).kind == "loader"


def test_a_load_that_ends_within_the_interval_keeps_its_month(warehouse: Warehouse, large: FlatMonth) -> None:
    with (
        loading(warehouse, large, pause=True) as load,
        closing(watch(warehouse, interval_seconds=0.6, seconds=SECONDS)) as watching,
    ):
        assert [loader.month for loader in up(next(watching)).loaders] == [JULY]
        later = threading.Timer(0.1, load.resume)
        later.start()
        reports = [up(next(watching))]
        while reports[-1].loaders:
            reports.append(up(next(watching)))
        later.join()
        loaders = [loader for report in reports for loader in report.loaders]
        assert {loader.month for loader in loaders} == {JULY}
        assert reports[-1].has_months


def test_a_blocking_lock_is_reported_with_its_holder(warehouse: Warehouse, large: FlatMonth) -> None:
    with warehouse.connect() as holder:
        ensure_schema(holder)
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE weather IN ACCESS EXCLUSIVE MODE")
        with loading(warehouse, large) as load:
            wait_until(lambda: blocked_sessions(warehouse) > 0)
            report = one_report(warehouse)
            (loader,) = report.loaders
            assert loader.phase == "waits for a lock"
            # With partitions it waits before it locks its month.
            assert loader.month in (JULY, None)
            (described,) = loader.blocked_by
            assert described.startswith(f"session {holder.info.backend_pid} of postgres from ")
            assert described.endswith("idle in transaction")
            bottleneck = find_bottleneck(report)
            assert bottleneck.kind == "lock"
            assert f"ession {loader.pid}" in bottleneck.text
            assert f"waits for {described}" in bottleneck.text
            holder.execute("ROLLBACK")
            assert load.result().rows == large.rows


def test_a_reader_that_blocks_the_exchange_of_partitions_is_reported(
    database_url: str, flat_months: FlatMonths
) -> None:
    """The exchange waits for a short time, repeatedly, with pauses in between."""
    warehouse = Warehouse(database_url)
    load_month(warehouse, flat_months())
    with warehouse.connect() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM weather")
        with loading(warehouse, flat_months(), force=True) as load:
            # A report of a busy machine may come when the wait has just ended.
            report = report_that(warehouse, lambda report: ") waits" in find_bottleneck(report).text)
            assert f"2023-07 (session {report.loaders[0].pid}) waits" in find_bottleneck(report).text
            assert find_bottleneck(report).kind == "lock"
            # The samples of one report may show the load both waiting and pausing; the holder is named once it is seen.
            named = f"waits for session {reader.info.backend_pid} of postgres"
            assert report_that(warehouse, lambda report: named in find_bottleneck(report).text).loaders[0].blocked_by
            assert (
                report_that(warehouse, lambda report: find_bottleneck(report).kind == "idle").loaders[0].month == JULY
            )
            reader.execute("ROLLBACK")
            assert load.result().changed


def test_the_session_at_the_head_of_a_queue_for_a_lock_is_reported(warehouse: Warehouse) -> None:
    """A COPY waits behind a session that waits itself: the session that holds the lock is named."""
    with (
        closing(warehouse.connect()) as holder,
        closing(warehouse.connect()) as first,
        closing(warehouse.connect()) as copying,
    ):
        ensure_schema(holder)
        holder.execute("BEGIN")
        holder.execute("SELECT count(*) FROM weather")
        first.pgconn.send_query(b"BEGIN; LOCK TABLE weather IN ACCESS EXCLUSIVE MODE")
        wait_until(lambda: blocked_sessions(warehouse) == 1)
        copying.pgconn.send_query(b"COPY weather (time) FROM STDIN")
        wait_until(lambda: blocked_sessions(warehouse) == 2)
        report = one_report(warehouse)
        (loader,) = report.loaders
        assert (loader.pid, loader.phase) == (copying.info.backend_pid, "waits for a lock")
        (described,) = loader.blocked_by
        assert described.startswith(f"session {holder.info.backend_pid} ")


def blocked_sessions(warehouse: Warehouse) -> int:
    return int(
        ask(
            warehouse.url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
    )


def test_a_second_load_of_a_month_waits_for_the_first(warehouse: Warehouse, large: FlatMonth) -> None:
    with loading(warehouse, large, pause=True) as first:
        (pid,) = copying_sessions(warehouse)
        with loading(warehouse, large, force=True) as second:
            wait_until(lambda: blocked_sessions(warehouse) == 1)
            report = one_report(warehouse)
            waiting = next(loader for loader in report.loaders if loader.blocked_by)
            assert (waiting.month, waiting.phase) == (JULY, "waits for a lock")
            assert f"session {pid} " in find_bottleneck(report).text
            first.resume()
            assert second.result().rows == large.rows


def test_all_connections_of_a_shared_month_are_loaders(database_url: str, large: FlatMonth) -> None:
    warehouse = Warehouse(database_url)
    with loading(warehouse, large, pause=True, workers=2):
        report = report_that(warehouse, lambda report: len(report.loaders) == 3)
        assert {loader.month for loader in report.loaders} == {JULY}
        # The first connection waits for the two workers.
        assert sorted(loader.phase for loader in report.loaders) == ["COPY", "COPY", "idle"]
        assert report.waits["Client:ClientRead"] > 0
        assert find_bottleneck(report).kind == "loader"


@pytest.mark.parametrize(("name", "month"), [("era5 2023-07 worker 2", JULY), ("psql", None), ("", None)])
def test_any_session_that_copies_into_weather_is_a_loader(
    shared_warehouse: Warehouse, name: str, month: Month | None
) -> None:
    with shared_warehouse.connect() as connection:
        ensure_schema(connection)
    with copy_begun(shared_warehouse.url, name) as pid:
        report = one_report(shared_warehouse)
    (loader,) = report.loaders
    assert (loader.pid, loader.name, loader.month, loader.phase) == (pid, name, month, "COPY")


def test_other_sessions_are_no_loaders(shared_warehouse: Warehouse) -> None:
    """The watch itself, another watch, queries, reports of rows, COPY into other tables, and COPY to the client."""
    with (
        closing(shared_warehouse.connect()) as asking,
        shared_warehouse.connect() as elsewhere,
        closing(shared_warehouse.connect()) as reporting,
    ):
        reporting.execute("SET application_name = 'era5 2023-07 progress'")
        reporting.pgconn.send_query(b"SELECT pg_sleep(3)")
        ensure_schema(asking)
        asking.execute("SELECT count(*) FROM weather")
        elsewhere.execute("SELECT set_config('application_name', 'psql', false)")
        elsewhere.execute("CREATE TEMPORARY TABLE weather_station (number int)")
        with (
            closing(watch(shared_warehouse, interval_seconds=0.1)) as another,
            elsewhere.cursor() as cursor,
            cursor.copy("COPY weather_station FROM STDIN"),
        ):
            next(another)
            asking.pgconn.send_query(b"COPY (SELECT pg_sleep(1) FROM generate_series(1, 1)) TO STDOUT")
            report = one_report(shared_warehouse)
            assert report.active_sessions >= 3
    assert report.loaders == ()
    assert (report.rows_per_second, report.bytes_per_second) == (0, 0)
    assert find_bottleneck(report).kind == "nothing"


def test_watching_an_empty_database_creates_nothing(empty_warehouse: Warehouse) -> None:
    report = one_report(empty_warehouse)
    assert report.has_months is False
    assert find_bottleneck(report).kind == "nothing"
    assert report.database_bytes == pytest.approx(
        ask(empty_warehouse.url, "SELECT pg_database_size(current_database())"), rel=0.1
    )
    assert ask(empty_warehouse.url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'era5'") == 0
    assert ask(empty_warehouse.url, "SELECT to_regclass('weather')") is None


def test_written_wal_is_reported(warehouse: Warehouse) -> None:
    with warehouse.connect() as writing, closing(watch(warehouse, interval_seconds=0.5)) as watching:
        writing.execute("CREATE TABLE anything (content text)")
        began = time.monotonic()  # before the interval of the next report does, however busy the machine is
        next(watching)
        writing.execute("INSERT INTO anything SELECT repeat(md5(n::text), 30) FROM generate_series(1, 20000) n")
        report = up(next(watching))
        written = 20_000 * 30 * 32
        assert report.wal_bytes_per_second is not None
        assert report.wal_bytes_per_second * (time.monotonic() - began) > written
        assert report.wal_bytes_lately > written


def test_a_standby_and_a_restored_server_have_no_wal_rate() -> None:
    def at(seconds: float, wal_bytes: int | None) -> ServerCounters:
        return ServerCounters(seconds, wal_bytes, 0, 0, 0, all_visible=True, max_wal_bytes=1)

    assert wal_increase(at(0, 100), at(1, 350)) == 250
    assert wal_increase(at(0, None), at(1, None)) is None
    assert wal_increase(at(0, 350), at(1, 100)) is None


def test_checkpoints_are_counted_from_the_start_of_the_watch(warehouse: Warehouse) -> None:
    with (
        warehouse.connect() as connection,
        closing(watch(warehouse, interval_seconds=0.2, seconds=SECONDS)) as watching,
    ):
        connection.execute("CHECKPOINT")
        time.sleep(0.5)  # the server counts a checkpoint at its end
        first = up(next(watching)).checkpoints_requested
        for _ in range(2):
            connection.execute("CREATE TABLE IF NOT EXISTS anything ()")
            connection.execute("CHECKPOINT")
        wait_until(lambda: up(next(watching)).checkpoints_requested >= first + 2)
        report = up(next(watching))
        assert report.requested_lately == report.checkpoints_requested
        assert report.checkpoints_requested < 1_000  # not all of the server's
        # A larger max_wal_size would not help.
        assert "max_wal_size" not in find_bottleneck(report).text


def as_role(url: str, role: str) -> str:
    return url.replace("//postgres@", f"//{role}@")


def test_a_user_without_privileges_is_told_how_to_get_them(warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large) as (_, pid), fresh_role(warehouse.url) as role:
        ordinary = Warehouse(as_role(warehouse.url, role))
        assert ordinary.url != warehouse.url
        report = one_report(ordinary)
        (loader,) = report.loaders
        # Visible to every user: the session, that it copies, and its month.
        assert (loader.pid, loader.month, loader.phase) == (pid, JULY, "COPY")
        assert set(loader.waits) == {HIDDEN}
        assert (loader.rows_per_second, loader.bytes_per_second, loader.rows) == (None, None, None)
        assert (report.rows_per_second, report.all_visible, report.has_months) == (None, False, None)
        bottleneck = find_bottleneck(report)
        assert bottleneck.kind == "hidden"
        assert "GRANT pg_monitor" in bottleneck.text

        # The GRANT it recommends is enough.
        with warehouse.connect() as connection:
            connection.execute(f"GRANT pg_monitor TO {role}".encode())
        report = one_report(ordinary)
        assert report.all_visible
        assert find_bottleneck(report).kind == "loader"


def test_a_watch_is_one_session_and_leaves_no_transaction_open(warehouse: Warehouse, large: FlatMonth) -> None:
    load_month(warehouse, large)
    with closing(watch(warehouse, interval_seconds=0.1)) as watching, warehouse.connect() as witness:
        for _ in range(10):
            next(watching)
            sessions = witness.execute(
                "SELECT state, xact_start, backend_xmin FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'era5 watch'"
            ).fetchall()
            assert sessions == [("idle", None, None)]
    wait_until(lambda: watching_sessions(warehouse) == 0)


def watching_sessions(warehouse: Warehouse) -> int:
    return int(
        ask(
            warehouse.url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ 'watch'",
        )
    )


def test_a_watch_does_not_wait_for_a_locked_ledger(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as holder, closing(watch(warehouse, interval_seconds=0.2)) as watching:
        assert up(next(watching)).has_months
        with holder.transaction():
            holder.execute("LOCK TABLE era5.ledger IN ACCESS EXCLUSIVE MODE")
            assert up(next(watching)).has_months  # it would wait for ever: the lock ends below


def test_a_lost_connection_is_reopened(warehouse: Warehouse) -> None:
    with closing(watch(warehouse, interval_seconds=0.2, seconds=SECONDS)) as watching:
        up(next(watching))
        ask(
            warehouse.url,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'era5 watch'",
        )
        assert isinstance(next(watching), Outage)
        up(next(watching))


def test_a_watch_continues_after_an_outage_of_the_server() -> None:
    with new_home() as home:
        home.server.start()
        with psycopg.connect(home.server.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE era5")
        warehouse = Warehouse(home.server.url("era5"))
        with closing(watch(warehouse, interval_seconds=0.2, seconds=60)) as watching:
            requested = up(next(watching)).checkpoints_requested
            home.server.stop(force=True)
            outages = [next(watching) for _ in range(3)]
            assert all(isinstance(one, Outage) and one.message for one in outages)
            home.server.start()
            wait_until(lambda: isinstance(next(watching), Report))
            report = up(next(watching))
            assert report.checkpoints_requested >= requested
            assert report.wal_bytes_per_second is not None
            assert report.wal_bytes_per_second >= 0


def test_a_server_that_is_unreachable_at_first_is_an_error() -> None:
    with pytest.raises(ServerUnreachableError, match=r"127\.0\.0\.1:9/nowhere"):
        next(watch(Warehouse("postgresql://me@127.0.0.1:9/nowhere"), interval_seconds=1))


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_a_watch_ends_after_the_given_seconds(shared_warehouse: Warehouse, seconds: float) -> None:
    began = time.monotonic()
    reports = list(watch(shared_warehouse, interval_seconds=0.4, seconds=seconds))
    assert time.monotonic() - began >= seconds
    assert 1 <= len(reports) <= 3


_GB = 1 << 30


def loader(
    waits: dict[str, int], *, pid: int = 7, month: Month | None = None, blocked_by: tuple[str, ...] = ()
) -> Loader:
    return Loader(
        pid=pid,
        name="era5",
        month=month,
        phase="COPY",
        rows=0,
        rows_per_second=0,
        bytes=0,
        bytes_per_second=0,
        waits=waits,
        blocked_by=blocked_by,
    )


def report(*loaders: Loader, requested: int = 0, wal_bytes: int = 0) -> Report:
    return Report(
        time=datetime(2026, 11, 21, tzinfo=UTC),
        loaders=loaders,
        wal_bytes_per_second=0,
        checkpoints_timed=0,
        checkpoints_requested=requested,
        requested_lately=requested,
        wal_bytes_lately=wal_bytes,
        max_wal_bytes=_GB,
        active_sessions=len(loaders),
        all_visible=True,
        has_months=True,
        database_bytes=None,
        database_bytes_per_second=None,
    )


@pytest.mark.parametrize(
    ("waits", "kind", "words"),
    [
        ({"Client:ClientRead": 7, CPU: 3}, "loader", "for 70 % of the time the server waits for rows"),
        ({CPU: 6, "Client:ClientRead": 4}, "processor", "for 60 % of the time"),
        ({"LWLock:WALWrite": 3, "IO:WalSync": 2, "LWLock:WALInsert": 1, CPU: 4}, "wal", "60 % of the time (LWLock:WAL"),
        # Names in PostgreSQL 15 and 16.
        ({"IO:WALWrite": 5, "IO:WALSync": 3}, "wal", "100 % of the time (IO:WALWrite)"),
        ({"IO:DataFileExtend": 4, "IO:DataFileWrite": 3, CPU: 3}, "disk", "70 % of the time (IO:DataFileExtend)"),
        ({"IO:AioIoCompletion": 9, CPU: 1}, "disk", "90 %"),
        ({"IPC:BufferIO": 5}, "disk", "IPC:BufferIO"),
        ({"Lock:extend": 6, CPU: 4}, "contention", "60 % of the time (Lock:extend)"),
        ({"LWLock:BufferMapping": 6, CPU: 4}, "contention", "LWLock:BufferMapping"),
        ({"IPC:SyncRep": 6, CPU: 4}, "wal", "IPC:SyncRep"),
        ({"IPC:MessageQueueSend": 6, CPU: 4}, "other", "IPC:MessageQueueSend"),
        ({IDLE: 10}, "idle", "between two statements"),
        # Idle sessions say nothing about busy ones: a load's first session is idle while its workers copy.
        ({IDLE: 10, CPU: 1}, "processor", "100 %"),
        ({HIDDEN: 10}, "hidden", "GRANT pg_monitor"),
        ({HIDDEN: 6, CPU: 4}, "processor", "100 %"),
    ],
)  # fmt: skip
def test_the_bottleneck_follows_from_the_waits(waits: dict[str, int], kind: Kind, words: str) -> None:
    found = find_bottleneck(report(loader(waits)))
    assert found.kind == kind
    assert words in found.text


def test_without_loaders_nothing_is_loading() -> None:
    assert find_bottleneck(report()).kind == "nothing"


def test_waits_of_the_same_kind_add_up() -> None:
    waits = {"IO:WalSync": 2, "IO:WalWrite": 2, "LWLock:WALWrite": 1, CPU: 4}
    assert find_bottleneck(report(loader(waits))).kind == "wal"


def test_only_busy_sessions_count_as_using_a_core() -> None:
    found = find_bottleneck(report(loader({IDLE: 10}), loader({CPU: 9}, pid=8), loader({CPU: 9}, pid=9)))
    assert "2 sessions, one core each" in found.text


def test_a_lock_takes_precedence_and_its_holder_is_named() -> None:
    blocked = loader({"Lock:relation": 6, CPU: 4}, month=Month(2023, 7), blocked_by=("session 9 of ana",))
    found = find_bottleneck(report(loader({CPU: 10}, pid=8), blocked))
    assert found.kind == "lock"
    assert "2023-07 (session 7) waits for session 9 of ana" in found.text


def test_a_short_wait_for_a_lock_is_no_bottleneck() -> None:
    assert find_bottleneck(report(loader({"Lock:relation": 1, CPU: 9}))).kind == "processor"
    granted = find_bottleneck(report(loader({"Lock:relation": 9, CPU: 1})))
    assert granted.kind == "lock"
    assert "and has it now" in granted.text


def test_a_lock_is_found_even_if_waits_are_hidden() -> None:
    found = find_bottleneck(report(loader({HIDDEN: 10}, blocked_by=("session 9",))))
    assert found.kind == "lock"
    assert "session 9" in found.text


def test_checkpoints_requested_by_a_full_log_are_the_bottleneck() -> None:
    writing = loader({"IO:WalSync": 8, CPU: 2})
    found = find_bottleneck(report(writing, requested=4, wal_bytes=2 * _GB))
    assert found.kind == "checkpoints"
    assert "a full log requested 4 in the last minute" in found.text
    assert "max_wal_size (1.1 GB now)" in found.text
    assert "era5 doctor" in found.text
    # If the processor is the bottleneck, they are mentioned after it.
    found = find_bottleneck(report(loader({CPU: 9}), requested=4, wal_bytes=2 * _GB))
    assert found.kind == "processor"
    assert "a full log requested 4 in the last minute" in found.text
    # An occasional one is normal.
    assert find_bottleneck(report(writing, requested=1, wal_bytes=2 * _GB)).kind == "wal"


def test_checkpoints_that_others_requested_are_not_blamed_on_a_full_log() -> None:
    found = find_bottleneck(report(loader({"IO:WalSync": 8, CPU: 2}), requested=9, wal_bytes=_GB // 10))
    assert found.kind == "wal"
    assert "Checkpoints" not in found.text


WAITS = st.dictionaries(
    st.sampled_from([CPU, IDLE, HIDDEN, "Client:ClientRead", "IO:WalSync", "Lock:tuple", "LWLock:X", "IPC:Y", "Z:z"]),
    st.integers(1, 1000),
)


@given(WAITS)
def test_wait_shares_add_up_to_1(waits: dict[str, int]) -> None:
    found = wait_shares(waits)
    assert sum(found.values()) == pytest.approx(1) or not found
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert not {IDLE, HIDDEN} & found.keys()


@given(st.lists(WAITS, min_size=1), st.integers(0, 100), st.integers(0, 100 * _GB))
def test_any_sample_has_a_bottleneck(sampled: list[dict[str, int]], requested: int, wal_bytes: int) -> None:
    loaders = [loader(waits, pid=n) for n, waits in enumerate(sampled)]
    found = find_bottleneck(report(*loaders, requested=requested, wal_bytes=wal_bytes))
    kinds = {kind_of_wait(wait) for wait in sum(map(Counter, sampled), Counter[str]())}
    assert found.kind in kinds | {"lock", "checkpoints", "idle", "hidden"}
    assert found.text
    assert "\n" not in found.text


def test_a_loader_without_waits_does_not_change_the_bottleneck() -> None:
    one = report(loader({"Client:ClientRead": 7, CPU: 3}))
    assert find_bottleneck(replace(one, loaders=(*one.loaders, loader({}, pid=8)))) == find_bottleneck(one)


def test_the_classified_waits_exist_on_the_server(shared_warehouse: Warehouse) -> None:
    """A wait that a new version of PostgreSQL renames must not go unnoticed."""
    with shared_warehouse.connect() as connection:
        if connection.info.server_version < 170000:
            pytest.skip("before PostgreSQL 17, servers do not say which waits they know")
        names = connection.execute("SELECT type || ':' || name FROM pg_wait_events").fetchall()
    groups: dict[Kind, set[str]] = {}
    for (name,) in names:
        groups.setdefault(kind_of_wait(name), set()).add(name)
    assert groups["loader"] == {"Client:ClientRead"}
    assert groups["wal"] >= {"IO:WalWrite", "IO:WalSync", "IO:WalInitWrite", "LWLock:WALWrite", "LWLock:WALInsert"}
    assert groups["disk"] >= {"IO:DataFileRead", "IO:DataFileWrite", "IO:DataFileExtend", "IPC:BufferIo"}
    assert groups["lock"] >= {"Lock:relation", "Lock:advisory", "Lock:transactionid"}
    assert groups["contention"] >= {"Lock:extend", "LWLock:BufferMapping", "LWLock:BufferContent"}
