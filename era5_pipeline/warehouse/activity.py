"""What the server does during a load: asked ten times a second, reported each interval, over its restarts.

Here: what is asked of the server. Not here: what follows for the sessions that load (`glances`), what that means
(`bottleneck`), or how a terminal shows it (`cli/watch.py`).

Nothing is asked within a transaction that stays open, and nothing is written.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from era5_pipeline.errors import ServerUnreachableError, TransientError
from era5_pipeline.months import FIRST_YEAR, Month
from era5_pipeline.variables import VARIABLES
from era5_pipeline.warehouse.failures import server_errors
from era5_pipeline.warehouse.glances import CPU, HIDDEN, IDLE, Glance, Held, Key, Loader, Session, moved, report_loaders
from era5_pipeline.warehouse.locks import LOCK_CLASS, describe_session
from era5_pipeline.warehouse.told import Told

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from era5_pipeline.warehouse.connect import Warehouse

_GLANCE_SECONDS = 0.1
_LATELY_SECONDS = 60.0
# The server reads a database's size off every file of it: no more often, and no more than a hundredth of the time.
_SIZE_SECONDS = 10.0
_SIZE_SHARE = 0.01


@dataclass(frozen=True)
class Counters:
    """The server's own counts at one time (seconds, monotonic). `wal_bytes` is None on a standby."""

    at: float
    wal_bytes: int | None
    checkpoints_timed: int
    checkpoints_requested: int
    active_sessions: int
    all_visible: bool
    max_wal_bytes: int


@dataclass(frozen=True)
class Report:
    """An interval. Checkpoints are counted since the watch began, what is called `lately` in the last minute.

    `wal_bytes_per_second` is None on a standby; `active_sessions` are of this database, and of all users only if
    `all_visible`; `has_months` is None where this user may not look.
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
        """Of all sessions; None if it is not known of one."""
        return _total(loader.rows_per_second for loader in self.loaders)

    @property
    def bytes_per_second(self) -> float | None:
        """COPY data of all sessions; None if it is not known of one."""
        return _total(loader.bytes_per_second for loader in self.loaders)

    @property
    def rows_estimated(self) -> bool:
        """Whether any of the rows follow from bytes."""
        return any(loader.rows_estimated for loader in self.loaders)

    @property
    def waits(self) -> Counter[str]:
        """Glances of all sessions, by what was waited for."""
        return sum((Counter(loader.waits) for loader in self.loaders), Counter[str]())


@dataclass(frozen=True)
class Gone:
    """The server cannot be reached; `message` is what the connection said."""

    time: datetime
    message: str


def watch(warehouse: Warehouse, *, interval_seconds: float, seconds: float | None = None) -> Generator[Report | Gone]:
    """Look at the server and report every `interval_seconds`; for `seconds`, or for ever.

    A server that goes away later is waited for: `Gone` is reported each interval until it is back.

    Raises:
        Era5Error: as `Warehouse.connect`, at the first connection.
        WarehouseError: if the server refuses to answer.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    view: _View | None = _View(warehouse)
    counted = _Counted()
    try:
        while time.monotonic() < end:
            until = min(time.monotonic() + interval_seconds, end)
            seen: Report | Gone
            try:
                view = view or _View(warehouse)
                seen = view.report(until, counted)
            except (TransientError, ServerUnreachableError) as error:
                if view is not None:
                    view.close()
                view = None
                seen = Gone(datetime.now(UTC), error.message)
            yield seen
            if view is None:
                time.sleep(max(0.0, until - time.monotonic()))
    finally:
        if view is not None:
            view.close()


def moved_wal(before: Counters, after: Counters) -> int | None:
    """Bytes of WAL written in between; None on a standby, and where the server was set back to an earlier state."""
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


class _Counted:
    """What goes on being counted over a restart of the server: checkpoints, and how large the database was."""

    def __init__(self) -> None:
        self._before: Counters | None = None
        self.timed = 0
        self.requested = 0
        self._lately: deque[tuple[float, int, int]] = deque()
        self._size: tuple[float, int] | None = None
        self._size_rate: float | None = None
        self._size_due = 0.0

    def add(self, now: Counters) -> None:
        before, self._before = self._before, now
        if before is None:
            return
        self.timed += moved([before.checkpoints_timed, now.checkpoints_timed])
        requested = moved([before.checkpoints_requested, now.checkpoints_requested])
        self.requested += requested
        self._lately.append((now.at, requested, moved_wal(before, now) or 0))
        while self._lately[0][0] < now.at - _LATELY_SECONDS:
            self._lately.popleft()

    @property
    def requested_lately(self) -> int:
        return sum(requested for _, requested, _ in self._lately)

    @property
    def wal_bytes_lately(self) -> int:
        return sum(wal_bytes for _, _, wal_bytes in self._lately)

    def size(self, connection: psycopg.Connection[Any]) -> tuple[int | None, float | None]:
        """The database's bytes, as of late, and how fast it grows."""
        began = time.monotonic()
        if began >= self._size_due:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            now = time.monotonic()
            if row is not None:
                if self._size is not None:
                    self._size_rate = (row[0] - self._size[1]) / (now - self._size[0])
                self._size = (now, row[0])
            self._size_due = now + max(_SIZE_SECONDS, (now - began) / _SIZE_SHARE)
        return (self._size[1] if self._size else None), self._size_rate


class _View:
    """A connection, and what was seen through it last."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._connection = warehouse.connect()
        self._months: dict[Key, Month | None] = {}
        self._variables = len(VARIABLES)
        self._has_months: bool | None = None
        self._told = Told()
        try:
            with server_errors("watching the server"):
                # The name, so that it is not taken for a load; no limits, which would end the watch.
                self._connection.execute(
                    "SELECT set_config(name, value, false) FROM (VALUES ('application_name', 'era5 watch'), "
                    "('statement_timeout', '0'), ('idle_session_timeout', '0'), ('jit', 'off')) "
                    "AS wanted (name, value)"
                )
                self._glance = self._look()
                self._counters = self._count()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def report(self, until: float, counted: _Counted) -> Report:
        """Look until then (seconds, monotonic), and at least once.

        Raises:
            TransientError: if the connection was lost.
            WarehouseError: if the server refuses to answer.
        """
        with server_errors("watching the server"):
            glances = [self._glance]
            while len(glances) == 1 or time.monotonic() < until:
                time.sleep(max(0.0, min(glances[-1].at + _GLANCE_SECONDS, until) - time.monotonic()))
                glances.append(self._look())
            counted.add(self._counters)
            before, self._counters, self._glance = self._counters, self._count(), glances[-1]
            counted.add(self._counters)
            held = self._ask_who_holds({key.pid for key in self._glance.sessions})
            self._look_into_the_ledger()
            size, size_rate = counted.size(self._connection)
        wal_bytes = moved_wal(before, self._counters)
        present = glances[-1].sessions
        self._months |= {key: held.months[key.pid] for key in present if key.pid in held.months}
        loaders = tuple(
            self._told.complete(loader)
            for loader in report_loaders(glances, held, self._months, variables=self._variables)
        )
        self._months = {key: month for key, month in self._months.items() if key in present}
        return Report(
            time=datetime.now(UTC),
            loaders=loaders,
            wal_bytes_per_second=None if wal_bytes is None else wal_bytes / (self._counters.at - before.at),
            checkpoints_timed=counted.timed,
            checkpoints_requested=counted.requested,
            requested_lately=counted.requested_lately,
            wal_bytes_lately=counted.wal_bytes_lately,
            max_wal_bytes=self._counters.max_wal_bytes,
            active_sessions=self._counters.active_sessions,
            all_visible=self._counters.all_visible,
            has_months=self._has_months,
            database_bytes=size,
            database_bytes_per_second=size_rate,
        )

    def _look(self) -> Glance:
        rows = self._connection.execute(_GLANCE, {"idle": IDLE, "hidden": HIDDEN, "cpu": CPU}).fetchall()
        sessions = [Session(*row) for row in rows]
        return Glance(time.monotonic(), {session.key: session for session in sessions})

    def _count(self) -> Counters:
        checkpoints = _CHECKPOINTS if self._connection.info.server_version >= 170000 else _CHECKPOINTS_BEFORE_17
        row = self._connection.execute(_COUNTERS + checkpoints).fetchone()
        assert row is not None  # noqa: S101  # these views have one row
        return Counters(time.monotonic(), *row)

    def _ask_who_holds(self, pids: set[int]) -> Held:
        months: dict[int, Month | None] = {}
        waiting = set()
        for pid, granted, number in self._connection.execute(_LOCKS, {"class": LOCK_CLASS}).fetchall():
            if number is not None:
                months[pid] = Month.from_number(number) if number >= FIRST_YEAR * 12 else months.get(pid)
            if not granted and pid in pids:
                waiting.add(pid)
        phases = {
            pid: phase if share is None else f"{phase} {round(100 * share)} %"
            for pid, phase, share in self._connection.execute(_PHASES).fetchall()
        }
        blocked: dict[int, tuple[str, ...]] = {}
        if waiting:
            for pid, holder, user, address, since, state in self._connection.execute(
                _BLOCKERS, (list(waiting),)
            ).fetchall():
                session = describe_session(holder, user, address, since) if holder else "a prepared transaction"
                blocked[pid] = (*blocked.get(pid, ()), f"{session}, {state}" if state else session)
        return Held(months, phases, blocked)

    def _look_into_the_ledger(self) -> None:
        """See whether there are months, how many variables the last one had, and what running loads have noted."""
        row = self._connection.execute(_LEDGER).fetchone()
        if row is None:
            self._has_months = False
        elif row == (False,):
            self._has_months = None
        else:
            # Removed or locked in between: what was seen last still holds.
            with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
                with self._connection.transaction():
                    self._connection.execute("SELECT set_config('lock_timeout', '100ms', true)")
                    last = self._connection.execute(_LAST_MONTH).fetchone()
                    noted = self._connection.execute(_NOTED_ROWS).fetchall()
                self._told.add(time.monotonic(), dict(noted))
                self._has_months = last is not None
                self._variables = last[0] if last is not None else len(VARIABLES)


# Who may not see a session's work still sees its name, and that it is in a COPY. A COPY that waits for the table's lock
# is in no view of progress yet: hence the look at its words.
_GLANCE = r"""
SELECT a.pid, a.backend_start, a.application_name,
       CASE WHEN a.state IS NULL THEN %(hidden)s WHEN a.state LIKE 'idle%%' THEN %(idle)s
            ELSE coalesce(a.wait_event_type || ':' || a.wait_event, %(cpu)s) END,
       CASE WHEN a.state IS NULL THEN '' ELSE a.query END,
       c.relname, p.pid IS NOT NULL OR w.copies, p.bytes_processed, p.tuples_processed
FROM pg_stat_activity a
CROSS JOIN LATERAL (
    SELECT coalesce(a.state = 'active', false)
       AND a.query ~* '^\s*copy\s+("?\w+"?\.)?"?weather(_\d{4}_\d{2}(_\d+)?)?\M.*\mfrom\M'
) w (copies)
LEFT JOIN pg_stat_progress_copy p ON p.pid = a.pid AND p.command IS DISTINCT FROM 'COPY TO'
LEFT JOIN pg_class c ON c.oid = p.relid
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.leader_pid IS NULL
  AND a.application_name NOT LIKE 'era5 watch%%'
  AND (a.application_name ~ '^era5\M' OR c.relname ~ '^weather(_\d{4}_\d{2}(_\d+)?)?$' OR w.copies)
"""

_COUNTERS = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_insert_lsn() - '0/0')::bigint END,
       timed, requested,
       (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND leader_pid IS NULL),
       pg_has_role('pg_read_all_stats', 'USAGE'),
       pg_size_bytes(current_setting('max_wal_size'))
FROM """
_CHECKPOINTS = "(SELECT num_timed, num_requested FROM pg_stat_checkpointer) AS c (timed, requested)"
_CHECKPOINTS_BEFORE_17 = "(SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter) AS c (timed, requested)"

# A load holds its month by an advisory lock (`locks`) from before its first row to after the last VACUUM, and all may
# see that; before, it holds one with no month while it sets up the database (`schema`).
_LOCKS = """
SELECT pid, granted, CASE WHEN is_ours THEN objid::bigint END
FROM pg_locks
CROSS JOIN LATERAL (
    SELECT locktype = 'advisory' AND classid = %(class)s::oid AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS m (is_ours)
WHERE is_ours OR NOT granted
"""

_PHASES = """
SELECT pid, 'CREATE INDEX', blocks_done::float / nullif(blocks_total, 0)
FROM pg_stat_progress_create_index WHERE datname = current_database()
UNION ALL
SELECT pid, 'VACUUM', heap_blks_scanned::float / nullif(heap_blks_total, 0)
FROM pg_stat_progress_vacuum WHERE datname = current_database()
UNION ALL
SELECT pid, 'ANALYZE', sample_blks_scanned::float / nullif(sample_blks_total, 0)
FROM pg_stat_progress_analyze WHERE datname = current_database()
"""

# Who holds the lock may be waiting in a queue itself: the one at its head is the one to know of.
_BLOCKERS = """
WITH RECURSIVE behind (waiting, pid) AS (
    SELECT w, b FROM unnest(%s::int[]) w, unnest(pg_blocking_pids(w)) b
    UNION
    SELECT waiting, b FROM behind, unnest(pg_blocking_pids(behind.pid)) b
)
SELECT b.waiting, b.pid, a.usename, host(a.client_addr), a.backend_start, a.state
FROM behind b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE cardinality(pg_blocking_pids(b.pid)) = 0
ORDER BY b.waiting, b.pid
"""

_LEDGER = """
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND has_table_privilege(to_regclass('era5.load_attempt'), 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'era5' AND c.relname = 'ledger'
"""
_NOTED_ROWS = """
SELECT t.backend_pid, t.rows FROM era5.load_attempt t JOIN pg_stat_activity a ON a.pid = t.backend_pid
WHERE t.outcome = 'running' AND t.rows IS NOT NULL AND coalesce(a.backend_start = t.backend_start, true)
"""
_LAST_MONTH = "SELECT jsonb_array_length(columns) FROM era5.ledger ORDER BY loaded_at DESC LIMIT 1"
