"""The server's activity during a load, sampled ten times a second; and the bottleneck of the load, in words."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql

from era5_pipeline.model.errors import ServerUnreachableError, TransientError
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.monitor.sessions import (
    CPU,
    HIDDEN,
    IDLE,
    LocksAndPhases,
    Sample,
    SampledSession,
    increase,
    is_lock,
    summarize_loaders,
)
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.locks import LOCK_CLASS, describe_session

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from era5_pipeline.monitor.sessions import Loader, SessionKey
    from era5_pipeline.postgres.connect import Warehouse

# --- Rows reported by loads in the ledger, for COPYs whose rows the server does not count ---


# Loads report once a second, at different moments: over a shorter time, rates would jump.
_WINDOW_SECONDS = 5.0


class ReportedRows:
    """The latest reports of each session, by process number."""

    def __init__(self) -> None:
        self._reports: dict[int, deque[tuple[float, int]]] = {}

    def add(self, at: float, rows: Mapping[int, int]) -> None:
        """Add the rows reported by now (seconds, monotonic); forget sessions that are missing from `rows`."""
        for pid in self._reports.keys() - rows.keys():
            del self._reports[pid]
        for pid, count in rows.items():
            reports = self._reports.setdefault(pid, deque())
            if reports and count < reports[-1][1]:
                reports.clear()  # the session has started another load
            reports.append((at, count))
            while reports[0][0] < at - _WINDOW_SECONDS:
                reports.popleft()

    def complete(self, loader: Loader) -> Loader:
        """Return the loader with its reported rows and rate, if the server counts none."""
        reports = self._reports.get(loader.pid)
        if loader.rows_per_second is not None or not reports:
            return loader
        (began, first), (ended, last) = reports[0], reports[-1]
        rate = (last - first) / (ended - began) if ended > began else None
        return replace(loader, rows=last, rows_per_second=rate)


# --- The read-only queries of `era5 watch`: a statement each, without a transaction that stays open ---
#
# They write nothing.


_CHECKPOINTER_VERSION = 170000  # from this version on, checkpoints have their own view
_CHECKPOINTS = "(SELECT num_timed, num_requested FROM pg_stat_checkpointer)"
_CHECKPOINTS_BEFORE = "(SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter)"

_MAY_READ_LEDGER = """
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND has_table_privilege(to_regclass('era5.load_attempt'), 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'era5' AND c.relname = 'ledger'
"""
_REPORTED_ROWS = """
SELECT t.backend_pid, t.rows FROM era5.load_attempt t JOIN pg_stat_activity a ON a.pid = t.backend_pid
WHERE t.outcome = 'running' AND t.rows IS NOT NULL AND coalesce(a.backend_start = t.backend_start, true)
"""
_HAS_MONTHS = "SELECT FROM era5.ledger LIMIT 1"


@dataclass(frozen=True)
class ServerCounters:
    """The server's own counters at one time (seconds, monotonic). `wal_bytes` is None on a standby."""

    at: float
    wal_bytes: int | None
    checkpoints_timed: int
    checkpoints_requested: int
    active_sessions: int
    all_visible: bool
    max_wal_bytes: int


@dataclass(frozen=True)
class LedgerState:
    """The contents of the ledger at one time.

    `has_months` is None if this user may not read it; `rows` are those reported by running loads, by process number.
    """

    has_months: bool | None
    rows: dict[int, int] = field(default_factory=dict)


class ServerQueries:
    """The queries, on a connection without timeouts, named so that it does not count as a load."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute(
            "SELECT set_config(name, value, false) FROM (VALUES ('application_name', 'era5 watch'), "
            "('statement_timeout', '0'), ('idle_session_timeout', '0'), ('jit', 'off')) "
            "AS wanted (name, value)"
        )

    def sample(self) -> Sample:
        """Sample the sessions that load, or may load."""
        rows = self._connection.execute(
            read_sql("watch_sessions"), {"idle": IDLE, "hidden": HIDDEN, "cpu": CPU}
        ).fetchall()
        sessions = [SampledSession(*row) for row in rows]
        return Sample(time.monotonic(), {session.key: session for session in sessions})

    def counters(self) -> ServerCounters:
        """Read the server's own counters."""
        has_view = self._connection.info.server_version >= _CHECKPOINTER_VERSION
        query = sql.SQL(read_sql("watch_counters")).format(
            checkpoints=sql.SQL(_CHECKPOINTS if has_view else _CHECKPOINTS_BEFORE)
        )
        row = self._connection.execute(query).fetchone()
        assert row is not None  # noqa: S101  # these views have one row
        return ServerCounters(time.monotonic(), *row)

    def database_bytes(self) -> int:
        """Return the size of the database, for which the server inspects every file."""
        row = self._connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None  # noqa: S101  # an expression is one row
        return int(row[0])

    def locks_and_phases(self, pids: set[int]) -> LocksAndPhases:
        """Read which months are locked, the phases of sessions outside COPY, and who blocks the sessions of `pids`."""
        months: dict[int, Month | None] = {}
        waiting = set()
        for pid, granted, number in self._connection.execute(read_sql("watch_locks"), {"class": LOCK_CLASS}):
            if number is not None:
                months[pid] = Month.from_number(number) if number >= FIRST_YEAR * 12 else months.get(pid)
            if not granted and pid in pids:
                waiting.add(pid)
        phases = {
            pid: phase if share is None else f"{phase} {round(100 * share)} %"
            for pid, phase, share in self._connection.execute(read_sql("watch_phases"))
        }
        blocked: dict[int, tuple[str, ...]] = {}
        if waiting:
            for pid, holder, user, address, since, state in self._connection.execute(
                read_sql("watch_blockers"), (list(waiting),)
            ):
                session = describe_session(holder, user, address, since) if holder else "a prepared transaction"
                blocked[pid] = (*blocked.get(pid, ()), f"{session}, {state}" if state else session)
        return LocksAndPhases(months, phases, blocked)

    def ledger_state(self) -> LedgerState | None:
        """Read the ledger; None if it has been dropped or is locked."""
        row = self._connection.execute(_MAY_READ_LEDGER).fetchone()
        if row is None:
            return LedgerState(has_months=False)
        if row == (False,):
            return LedgerState(has_months=None)
        try:
            with self._connection.transaction():
                self._connection.execute("SELECT set_config('lock_timeout', '100ms', true)")
                has_months = self._connection.execute(_HAS_MONTHS).fetchone() is not None
                reported = self._connection.execute(_REPORTED_ROWS).fetchall()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
            return None
        return LedgerState(has_months, dict(reported))


# --- The server's activity during a load: sampled ten times a second, reported per interval, across restarts ---


_SAMPLE_SECONDS = 0.1
_LAST_MINUTE_SECONDS = 60.0
# The server computes a database's size from every file: at most this often, and in at most 1 % of the time.
_SIZE_SECONDS = 10.0
_SIZE_SHARE = 0.01


@dataclass(frozen=True)
class Report:
    """One interval. Checkpoints are counted from the start of the watch; `lately` means in the last minute.

    `wal_bytes_per_second` is None on a standby; `active_sessions` are those of this database, of all users only if
    `all_visible`; `has_months` is None if this user may not read the ledger.
    """

    time: datetime
    loaders: tuple[Loader, ...]
    wal_bytes_per_second: float | None
    checkpoints_timed: int
    checkpoints_requested: int
    requested_lately: int
    wal_bytes_lately: int
    max_wal_bytes: int
    active_sessions: int
    all_visible: bool
    has_months: bool | None
    database_bytes: int | None
    database_bytes_per_second: float | None

    @property
    def rows_per_second(self) -> float | None:
        """Rows per second of all loaders; None if one of them is unknown."""
        return _total(loader.rows_per_second for loader in self.loaders)

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of COPY data per second of all loaders; None if one of them is unknown."""
        return _total(loader.bytes_per_second for loader in self.loaders)

    @property
    def waits(self) -> Counter[str]:
        """Samples of all loaders, counted by wait."""
        return sum((Counter(loader.waits) for loader in self.loaders), Counter[str]())


@dataclass(frozen=True)
class Outage:
    """The server cannot be reached; `message` is the connection's error."""

    time: datetime
    message: str


def watch(warehouse: Warehouse, *, interval_seconds: float, seconds: float | None = None) -> Generator[Report | Outage]:
    """Sample the server and report every `interval_seconds`; for `seconds` from the connection on, or until closed.

    If the server becomes unreachable later, an `Outage` is reported each interval until it is back.
    """
    connection: _WatchedConnection | None = _WatchedConnection(warehouse)
    # Counted from here: on a busy server, connecting may take longer than a short watch, which must still report once.
    end = math.inf if seconds is None else time.monotonic() + seconds
    totals = _RunningTotals()
    try:
        while time.monotonic() < end:
            until = min(time.monotonic() + interval_seconds, end)
            result: Report | Outage
            try:
                connection = connection or _WatchedConnection(warehouse)
                result = connection.report(until, totals)
            except (TransientError, ServerUnreachableError) as error:
                if connection is not None:
                    connection.close()
                connection = None
                result = Outage(datetime.now(UTC), error.message)
            yield result
            if connection is None:
                time.sleep(max(0.0, until - time.monotonic()))
    finally:
        if connection is not None:
            connection.close()


def wal_increase(before: ServerCounters, after: ServerCounters) -> int | None:
    """Return the bytes of WAL written in between; None on a standby, or if the server returned to an older state."""
    if before.wal_bytes is None or after.wal_bytes is None or after.wal_bytes < before.wal_bytes:
        return None
    return after.wal_bytes - before.wal_bytes


def _total(rates: Iterable[float | None]) -> float | None:
    total = 0.0
    for rate in rates:
        if rate is None:
            return None
        total += rate
    return total


class _RunningTotals:
    """Totals across restarts of the server: checkpoints, WAL of the last minute, and the database's size."""

    def __init__(self) -> None:
        self._before: ServerCounters | None = None
        self.timed = 0
        self.requested = 0
        self._last_minute: deque[tuple[float, int, int]] = deque()
        self._size: tuple[float, int] | None = None
        self._size_rate: float | None = None
        self._size_due = 0.0

    def add(self, now: ServerCounters) -> None:
        before, self._before = self._before, now
        if before is None:
            return
        self.timed += increase([before.checkpoints_timed, now.checkpoints_timed])
        requested = increase([before.checkpoints_requested, now.checkpoints_requested])
        self.requested += requested
        self._last_minute.append((now.at, requested, wal_increase(before, now) or 0))
        while self._last_minute[0][0] < now.at - _LAST_MINUTE_SECONDS:
            self._last_minute.popleft()

    @property
    def requested_lately(self) -> int:
        return sum(requested for _, requested, _ in self._last_minute)

    @property
    def wal_bytes_lately(self) -> int:
        return sum(wal_bytes for _, _, wal_bytes in self._last_minute)

    def size(self, queries: ServerQueries) -> tuple[int | None, float | None]:
        """Return the size of the database in bytes, at most `_SIZE_SECONDS` old, and its growth per second."""
        began = time.monotonic()
        if began >= self._size_due:
            size = queries.database_bytes()
            now = time.monotonic()
            if self._size is not None:
                self._size_rate = (size - self._size[1]) / (now - self._size[0])
            self._size = (now, size)
            self._size_due = now + max(_SIZE_SECONDS, (now - began) / _SIZE_SHARE)
        return (self._size[1] if self._size else None), self._size_rate


class _WatchedConnection:
    """A connection, and the last results of its queries."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._connection = warehouse.connect()
        self._months: dict[SessionKey, Month | None] = {}
        self._has_months: bool | None = None
        self._reported_rows = ReportedRows()
        try:
            with server_errors("watching the server"):
                self._queries = ServerQueries(self._connection)
                self._sample = self._queries.sample()
                self._counters = self._queries.counters()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def report(self, until: float, totals: _RunningTotals) -> Report:
        """Sample until then (seconds, monotonic), at least once."""
        with server_errors("watching the server"):
            samples = [self._sample]
            while len(samples) == 1 or time.monotonic() < until:
                time.sleep(max(0.0, min(samples[-1].at + _SAMPLE_SECONDS, until) - time.monotonic()))
                samples.append(self._queries.sample())
            totals.add(self._counters)
            before, self._counters, self._sample = self._counters, self._queries.counters(), samples[-1]
            totals.add(self._counters)
            current = self._queries.locks_and_phases({key.pid for key in self._sample.sessions})
            self._read_ledger()
            size, size_rate = totals.size(self._queries)
        wal_bytes = wal_increase(before, self._counters)
        present = samples[-1].sessions
        self._months |= {key: current.months[key.pid] for key in present if key.pid in current.months}
        loaders = tuple(
            self._reported_rows.complete(loader) for loader in summarize_loaders(samples, current, self._months)
        )
        self._months = {key: month for key, month in self._months.items() if key in present}
        return Report(
            time=datetime.now(UTC),
            loaders=loaders,
            wal_bytes_per_second=None if wal_bytes is None else wal_bytes / (self._counters.at - before.at),
            checkpoints_timed=totals.timed,
            checkpoints_requested=totals.requested,
            requested_lately=totals.requested_lately,
            wal_bytes_lately=totals.wal_bytes_lately,
            max_wal_bytes=self._counters.max_wal_bytes,
            active_sessions=self._counters.active_sessions,
            all_visible=self._counters.all_visible,
            has_months=self._has_months,
            database_bytes=size,
            database_bytes_per_second=size_rate,
        )

    def _read_ledger(self) -> None:
        state = self._queries.ledger_state()
        if state is None:  # dropped or locked: keep the last state
            return
        self._has_months = state.has_months
        if state.has_months is not None:
            self._reported_rows.add(time.monotonic(), state.rows)


# --- The bottleneck of a load, in words, derived from the waits of its sessions ---
#
# Wait names are those of PostgreSQL 15 to 18: `WALWrite` became `WalWrite` in 17, reads became `AioIoCompletion` in 18.


Kind = Literal[
    "nothing", "hidden", "idle", "lock", "checkpoints", "loader", "processor", "wal", "disk", "contention", "other"
]

# PostgreSQL itself warns if checkpoints requested by a full log come within 30 s of each other.
_FREQUENT_A_MINUTE = 2

_GROUPS: tuple[tuple[Kind, str], ...] = (
    ("loader", r"Client:ClientRead"),
    ("wal", r"(IO|LWLock):WAL.*|IPC:SyncRep"),
    ("disk", r"IO:.*|IPC:BufferIO|LWLock:Aio.*|Timeout:VacuumDelay"),
    ("contention", r"LWLock:.*|Lock:extend|BufferPin:.*"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _GROUPS)


@dataclass(frozen=True)
class Bottleneck:
    """The limit of the load: its kind, and one line of text."""

    kind: Kind
    text: str


def find_bottleneck(report: Report) -> Bottleneck:
    """Find what limits the load in an interval: a lock if one blocks a session, else what took the most time."""
    if not report.loaders:
        return Bottleneck(
            "nothing", "Nothing is loading; a month that is still being read or flattened has not reached the server."
        )
    for loader in report.loaders:
        if _is_locked_out(loader):
            return Bottleneck("lock", _lock_text(loader))
    visible = Counter({wait: count for wait, count in report.waits.items() if wait not in (HIDDEN, IDLE)})
    if not visible:
        if report.waits[HIDDEN]:
            return Bottleneck(
                "hidden",
                "Unknown: this user may not see what the loading sessions wait for. "
                "An administrator can allow it: GRANT pg_monitor TO <user>;",
            )
        return Bottleneck(
            "idle", "The loader is between two statements: it prepares the next one, or waits for readers of the table."
        )
    groups = Counter[Kind]()
    for wait, count in visible.items():
        groups[kind_of_wait(wait)] += count
    (kind, count), *_ = groups.most_common()
    often = _checkpoints_by_wal(report) >= _FREQUENT_A_MINUTE
    if often and kind in ("wal", "disk"):
        return Bottleneck("checkpoints", _checkpoints_text(report))
    text = _text(kind, count / visible.total(), visible, report.loaders)
    return Bottleneck(kind, f"{text} {_checkpoints_text(report)}" if often else text)


def kind_of_wait(wait: str) -> Kind:
    """Return the kind of bottleneck that a wait (`CPU`, or the server's `Type:Event`) belongs to."""
    if wait == CPU:
        return "processor"
    if is_lock(wait):
        return "lock"
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(wait)), "other")


def wait_shares(waits: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each known wait, the largest first; they add up to 1."""
    known = {wait: count for wait, count in Counter(waits).most_common() if wait not in (HIDDEN, IDLE)}
    total = sum(known.values())
    return {wait: count / total for wait, count in known.items()}


def percent(share: float) -> str:
    """Format a share from 0 to 1 in whole percent."""
    return f"{round(100 * share)} %"


def _is_locked_out(loader: Loader) -> bool:
    seen = sum(count for wait, count in loader.waits.items() if wait != IDLE)
    locked = sum(count for wait, count in loader.waits.items() if is_lock(wait))
    # Even if waits are hidden, a requested lock that was not granted is visible.
    return 0 < seen <= 2 * locked or (bool(loader.blocked_by) and 2 * loader.waits.get(HIDDEN, 0) >= seen > 0)


def _lock_text(loader: Loader) -> str:
    who = f"{loader.month} (session {loader.pid})" if loader.month else f"session {loader.pid}"
    if not loader.blocked_by:
        return f"A lock: {who} waited for one, and has it now."
    return f"A lock: {who} waits for {' and '.join(loader.blocked_by)}. Wait until that session is done, or end it."


def _checkpoints_by_wal(report: Report) -> int:
    """Count the checkpoints of the last minute requested by a full log: about one per half of max_wal_size.

    Others are requested by people, backups or DROP DATABASE; a larger log does not help there.
    """
    return min(report.requested_lately, report.wal_bytes_lately // (report.max_wal_bytes // 2))


def _checkpoints_text(report: Report) -> str:
    return (
        f"Checkpoints: a full log requested {_checkpoints_by_wal(report)} in the last minute, and after each, "
        f"whole pages are logged again; a larger max_wal_size ({report.max_wal_bytes / 1e9:.1f} GB now) helps: "
        "see era5 doctor."
    )


def _text(kind: Kind, share: float, waits: Counter[str], loaders: Sequence[Loader]) -> str:
    of_time = f"{percent(share)} of the time"
    top = next(wait for wait, _ in waits.most_common() if kind_of_wait(wait) == kind)
    match kind:
        case "loader":
            return (
                f"The loader: for {of_time} the server waits for rows. Reading and encoding do not keep up: check "
                "that machine's processor and disk, and the network in between."
            )
        case "processor":
            busy = sum(any(wait != IDLE for wait in loader.waits) for loader in loaders)
            copies = f"{busy} sessions, one core each" if busy > 1 else "a session uses one core"
            return (
                f"The server's processor: it works for {of_time} ({copies}). More months at once, or --workers, help "
                "as long as cores are idle."
            )
        case "wal":
            return (
                f"The write-ahead log: {of_time} ({top}). A faster disk for pg_wal helps, or writing less of it: "
                "see era5 doctor."
            )
        case "disk":
            return f"The data disk: {of_time} ({top}). A faster disk for the server's data helps; more sessions do not."
        case "contention":
            return f"The sessions wait for each other: {of_time} ({top}). Fewer at once may be as fast."
        case "lock":
            return f"Locks: {of_time} ({top})."
        case _:
            return f"Something else on the server: {of_time} ({top})."
