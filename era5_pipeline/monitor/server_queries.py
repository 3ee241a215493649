"""The queries of `era5 watch`: each a statement of its own, in no transaction that stays open.

Here: the queries, and their results as values. Not here: how often they run (`activity`), or what follows from the
results (`session_samples`, `bottleneck`). They write nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.monitor.session_samples import CPU, HIDDEN, IDLE, LocksAndPhases, Sample, SampledSession
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.locks import LOCK_CLASS, describe_session

_CHECKPOINTER_VERSION = 170000  # from here on, checkpoints have a view of their own
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
    """What the ledger holds at one time.

    `has_months` is None where this user may not read it; `rows` are those that running loads have reported, by process
    number.
    """

    has_months: bool | None
    rows: dict[int, int] = field(default_factory=dict)


class ServerQueries:
    """The queries, on a connection that gets no timeouts, and a name by which it is not taken for a load."""

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
        """Return the size of the database, for which the server looks at each of its files."""
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
        """Read the ledger; None if it was dropped or locked meanwhile."""
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
