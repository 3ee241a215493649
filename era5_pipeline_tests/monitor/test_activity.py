"""Tests of `monitor/activity`."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import TransientError
from era5_pipeline.monitor.activity import (
    CPU,
    HIDDEN,
    IDLE,
    Kind,
    Loader,
    Report,
    Sample,
    SampledSession,
    find_bottleneck,
    kind_of_wait,
    summarize_loaders,
    wait_shares,
    watch,
)
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import SECONDS, Load, ask, copying_sessions, loading, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

JULY = "2023-07"
HEADER_BYTES = 19
# Bytes of a row with two variables in a binary COPY: the number of columns, six lengths, a time, three numbers of the
# location, and the values.
ROW_BYTES = 2 + 6 * 4 + 8 + 3 * 4 + 2 * 4
# The server reports the rows of a COPY a thousand at a time, and its bytes a buffer at a time.
UNREPORTED_ROWS = 1_000
BUFFER_BYTES = 65_536

# --- From samples to loaders ---


def session(**changes: Any) -> SampledSession:
    made = SampledSession(7, datetime(2026, 11, 21, tzinfo=UTC), "era5", None, "COPY", CPU, loads=True, bytes=0, rows=0)
    return made._replace(**changes)


def samples(*sampled: SampledSession | None, seconds: float = 1.0) -> list[Sample]:
    """Samples of one session, `seconds` apart; None: it was not connected."""
    return [Sample(100 + n * seconds, {one[:2]: one} if one else {}) for n, one in enumerate(sampled)]


def test_rates_are_increases_over_the_interval() -> None:
    before, after = session(bytes=8_600_000, rows=100_000), session(bytes=17_200_000, rows=200_000)
    (loader,) = summarize_loaders(samples(before, after, seconds=0.5), {}, {}, {})
    assert (loader.rows_per_second, loader.rows) == (200_000, 200_000)
    assert (loader.bytes_per_second, loader.bytes) == (17_200_000, 17_200_000)
    assert loader.waits == {CPU: 1}


@pytest.mark.parametrize("before", [session(bytes=900, rows=90), session(rows=None, bytes=None), None])
def test_a_copy_that_began_within_the_interval_began_at_zero(before: SampledSession | None) -> None:
    (loader,) = summarize_loaders(samples(before, session(bytes=860, rows=10)), {}, {}, {})
    assert (loader.rows_per_second, loader.bytes_per_second) == (10, 860)


def test_progress_that_the_server_does_not_show_is_unknown_and_rows_are_those_reported() -> None:
    hidden = samples(session(bytes=1_000, rows=10), session(bytes=None, rows=None))
    (loader,) = summarize_loaders(hidden, {}, {}, {})
    assert (loader.rows_per_second, loader.bytes_per_second, loader.rows, loader.bytes) == (None,) * 4
    (loader,) = summarize_loaders(hidden, {}, {7: (300, 200)}, {})
    assert (loader.rows, loader.rows_per_second) == (300, 200)
    # What the server counts takes precedence.
    (loader,) = summarize_loaders(samples(session(), session(rows=5)), {}, {7: (300, 200)}, {})
    assert loader.rows == 5


def test_a_session_that_loads_in_no_sample_and_has_locked_no_month_is_no_loader() -> None:
    idle = session(loads=False, wait=IDLE, month=None)
    assert summarize_loaders(samples(idle, idle), {}, {}, {}) == ()
    (loader,) = summarize_loaders(samples(idle, session(), idle), {}, {}, {})
    assert loader.waits == {CPU: 1, IDLE: 1}
    (loader,) = summarize_loaders(samples(idle, idle), {7: JULY}, {}, {})
    assert loader.month == JULY
    assert summarize_loaders(samples(session(), session(), None), {}, {}, {}) == ()


# --- The bottleneck ---


def loader_of(
    waits: dict[str, int], *, pid: int = 7, month: str | None = None, blocked_by: tuple[str, ...] = ()
) -> Loader:
    return Loader(pid, "era5", month, "COPY", 0, 0, 0, 0, waits, blocked_by)


def report_of(*loaders: Loader) -> Report:
    return Report(datetime(2026, 11, 21, tzinfo=UTC), loaders)


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
        # Waits of the same kind add up.
        ({"IO:WalSync": 2, "IO:WalWrite": 2, "LWLock:WALWrite": 1, CPU: 4}, "wal", "56 %"),
        ({"Lock:relation": 9, CPU: 1}, "lock", "granted since"),
        ({"Lock:relation": 1, CPU: 9}, "processor", "90 %"),
        ({IDLE: 10}, "idle", "between two statements"),
        # Idle sessions say nothing about busy ones: a load's first session is idle while its workers copy.
        ({IDLE: 10, CPU: 1}, "processor", "100 %"),
        ({HIDDEN: 10}, "hidden", "GRANT pg_monitor"),
        ({HIDDEN: 6, CPU: 4}, "processor", "100 %"),
    ],
)  # fmt: skip
def test_the_bottleneck_follows_from_the_waits(waits: dict[str, int], kind: Kind, words: str) -> None:
    found = find_bottleneck(report_of(loader_of(waits)))
    assert found.kind == kind
    assert words in found.text


@pytest.mark.parametrize("waits", [{"Lock:relation": 6, CPU: 4}, {HIDDEN: 10}], ids=["seen", "hidden"])
def test_a_lock_takes_precedence_and_its_holder_is_named(waits: dict[str, int]) -> None:
    blocked = loader_of(waits, month=JULY, blocked_by=("session 9 of ana",))
    found = find_bottleneck(report_of(loader_of({CPU: 100}, pid=8), blocked))
    assert found.kind == "lock"
    assert "2023-07 (session 7) waits for session 9 of ana" in found.text
    short = loader_of({"Lock:relation": 1, CPU: 9}, blocked_by=("session 9 of ana",))
    assert find_bottleneck(report_of(short)).kind == "processor"


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


@given(st.lists(WAITS, min_size=1))
def test_any_sample_has_a_bottleneck(sampled: list[dict[str, int]]) -> None:
    found = find_bottleneck(report_of(*(loader_of(waits, pid=n) for n, waits in enumerate(sampled))))
    assert found.kind in {kind_of_wait(wait) for wait in sum(map(Counter, sampled), Counter[str]())} | {"idle"}
    assert "\n" not in found.text


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


# --- Watching real loads ---


def one_report(warehouse: Warehouse, seconds: float = 0.2) -> Report:
    (report,) = watch(warehouse, interval_seconds=seconds, seconds=seconds)
    return report


def report_that(warehouse: Warehouse, holds: Callable[[Report], bool]) -> Report:
    """The first report for which that holds."""
    with closing(watch(warehouse, interval_seconds=0.3, seconds=SECONDS)) as watching:
        for report in watching:
            if holds(report):
                return report
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


def blocked_sessions(warehouse: Warehouse) -> int:
    return int(
        ask(
            warehouse.url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
    )


def test_a_load_that_is_sent_no_rows_waits_for_the_loader(warehouse: Warehouse, large: FlatMonth, host: Host) -> None:
    with paused_load(warehouse, large) as (_, pid):
        # TimescaleDB counts no rows: there they are known after the load has reported them.
        report = report_that(warehouse, lambda report: report.loaders[0].rows_per_second is not None)
        taken = taken_bytes(warehouse, pid)
        (loader,) = report.loaders
        assert (loader.pid, loader.month, loader.phase) == (pid, JULY, "COPY")
        assert (loader.bytes_per_second, loader.bytes) == (0, taken)
        assert (loader.rows_per_second == 0) is (host.layout == "partitions")
        rows_of_bytes = (taken - HEADER_BYTES) / ROW_BYTES
        assert loader.rows == pytest.approx(rows_of_bytes, abs=UNREPORTED_ROWS + BUFFER_BYTES / ROW_BYTES)
        assert report.waits["Client:ClientRead"] == sum(loader.waits.values()) >= 1
        assert find_bottleneck(report).kind == "loader"


def test_rows_of_a_months_first_load_are_shown_on_every_layout(warehouse: Warehouse, large: FlatMonth) -> None:
    """The columnstore shows no progress of it: its bytes are unknown, not zero, and its rows are those it reports."""
    with loading(warehouse, large, pause=True, batches=False):
        report = report_that(
            warehouse,
            lambda report: (report.loaders[0].rows or 0) > 60_000 and find_bottleneck(report).kind == "loader",
        )
        shown = ask(warehouse.url, "SELECT count(*) FROM pg_stat_progress_copy WHERE datname = current_database()")
        (loader,) = report.loaders
        assert (loader.month, loader.phase) == (JULY, "COPY")
        assert loader.rows == pytest.approx(65_536, abs=UNREPORTED_ROWS + BUFFER_BYTES / ROW_BYTES)
        assert (loader.bytes is None) == (not shown)


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
            assert f"waits for {described}" in find_bottleneck(report).text
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
            named = f"waits for session {reader.info.backend_pid} of postgres"
            assert report_that(warehouse, lambda report: named in find_bottleneck(report).text).loaders[0].month == JULY
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
        (loader,) = one_report(warehouse).loaders
        assert (loader.pid, loader.phase) == (copying.info.backend_pid, "waits for a lock")
        assert (loader.rows_per_second, loader.bytes_per_second) == (0, 0)
        (described,) = loader.blocked_by
        assert described.startswith(f"session {holder.info.backend_pid} ")


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
        report = report_that(
            warehouse, lambda report: len(report.loaders) == 3 and find_bottleneck(report).kind == "loader"
        )
        assert {loader.month for loader in report.loaders} == {JULY}
        # The first connection waits for the two workers.
        assert sorted(loader.phase for loader in report.loaders) == ["COPY", "COPY", "idle"]


@pytest.mark.parametrize(
    ("name", "month"),
    [("era5 2023-07 worker 2", JULY), ("era5 2023-071", None), ("era5 worker 2", None), ("psql", None), ("", None)],
)
def test_any_session_that_copies_into_weather_is_a_loader(
    shared_warehouse: Warehouse, name: str, month: str | None
) -> None:
    with shared_warehouse.connect() as connection:
        ensure_schema(connection)
    with copy_begun(shared_warehouse.url, name) as pid:
        report = one_report(shared_warehouse)
    (loader,) = report.loaders
    assert (loader.pid, loader.name, loader.month, loader.phase) == (pid, name, month, "COPY")


@pytest.mark.parametrize(
    ("statement", "phase"),
    [
        ("SELECT pg_catalog.pg_sleep(3)", "pg_sleep"),
        ("CREATE TABLE anything AS SELECT 1 AS one FROM pg_sleep(3)", "CREATE TABLE"),
        ("DELETE FROM pg_class WHERE pg_sleep(3) IS NULL", "DELETE"),
    ],
)
def test_the_phase_of_a_session_outside_copy_is_its_statement(
    shared_warehouse: Warehouse, statement: str, phase: str
) -> None:
    with closing(shared_warehouse.connect()) as working:
        working.execute("SET application_name = 'era5 2023-07 settle'")
        working.pgconn.send_query(statement.encode())
        (loader,) = one_report(shared_warehouse).loaders
        assert (loader.pid, loader.month, loader.phase) == (working.info.backend_pid, JULY, phase)
        working.cancel_safe()
        wait_until(lambda: one_report(shared_warehouse).loaders == ())


def test_other_sessions_are_no_loaders(shared_warehouse: Warehouse) -> None:
    """The watch itself, another watch, queries, reports of rows, COPY into other tables, and COPY to the client."""
    with (
        closing(shared_warehouse.connect()) as asking,
        closing(shared_warehouse.connect()) as idle,
        shared_warehouse.connect() as elsewhere,
        closing(shared_warehouse.connect()) as reporting,
    ):
        idle.execute("SET application_name = 'era5 2023-07 lookout'")
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
    assert report.loaders == ()
    assert find_bottleneck(report).kind == "nothing"


def test_watching_an_empty_database_creates_nothing(empty_warehouse: Warehouse) -> None:
    assert find_bottleneck(one_report(empty_warehouse)).kind == "nothing"
    assert ask(empty_warehouse.url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'era5'") == 0
    assert ask(empty_warehouse.url, "SELECT to_regclass('weather')") is None


def test_a_user_without_privileges_is_told_how_to_get_them(warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large) as (_, pid), fresh_role(warehouse.url) as role:
        ordinary = Warehouse(warehouse.url.replace("//postgres@", f"//{role}@"))
        assert ordinary.url != warehouse.url
        report = one_report(ordinary)
        (loader,) = report.loaders
        # Visible to every user: the session, that it copies, and its month.
        assert (loader.pid, loader.month, loader.phase) == (pid, JULY, "COPY")
        assert set(loader.waits) == {HIDDEN}
        assert (loader.rows_per_second, loader.bytes_per_second, loader.rows) == (None, None, None)
        bottleneck = find_bottleneck(report)
        assert bottleneck.kind == "hidden"
        assert "GRANT pg_monitor" in bottleneck.text

        # The GRANT it recommends is enough.
        with warehouse.connect() as connection:
            connection.execute(f"GRANT pg_monitor TO {role}".encode())
        assert find_bottleneck(one_report(ordinary)).kind == "loader"


def test_a_watch_is_one_session_and_leaves_no_transaction_open(warehouse: Warehouse, large: FlatMonth) -> None:
    load_month(warehouse, large)
    query = (
        "SELECT state, xact_start, backend_xmin FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'era5 watch'"
    )
    with closing(watch(warehouse, interval_seconds=0.1)) as watching, warehouse.connect() as witness:
        for _ in range(10):
            next(watching)
            assert witness.execute(query).fetchall() == [("idle", None, None)]
        watching.close()
        wait_until(lambda: witness.execute(query).fetchall() == [])


def test_a_watch_does_not_wait_for_a_locked_ledger(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with (
        warehouse.connect() as holder,
        closing(watch(warehouse, interval_seconds=0.2)) as watching,
        holder.transaction(),
    ):
        holder.execute("LOCK TABLE era5.load_attempt IN ACCESS EXCLUSIVE MODE")
        assert next(watching).loaders == ()  # it would wait for ever: the lock ends below


def test_a_lost_connection_is_an_error(warehouse: Warehouse) -> None:
    with closing(watch(warehouse, interval_seconds=0.2, seconds=SECONDS)) as watching:
        next(watching)
        ask(
            warehouse.url,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'era5 watch'",
        )
        with pytest.raises(TransientError, match="watching the server: "):
            next(watching)


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_a_watch_ends_after_the_given_seconds(shared_warehouse: Warehouse, seconds: float) -> None:
    began = time.monotonic()
    reports = list(watch(shared_warehouse, interval_seconds=0.4, seconds=seconds))
    assert time.monotonic() - began >= seconds
    assert 1 <= len(reports) <= 3
