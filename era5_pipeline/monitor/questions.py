"""What `era5 watch` asks of the server: each question a statement of its own, in no transaction that stays open.

Here: the questions, and their answers as values. Not here: how often they are asked (`activity`), or what the answers
mean (`glances`, `bottleneck`). Nothing is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.monitor.glances import CPU, HIDDEN, IDLE, Glance, Held, Session
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.locks import LOCK_CLASS, describe_session

_CHECKPOINTER_VERSION = 170000  # since when checkpoints have a view of their own
_CHECKPOINTS = "(SELECT num_timed, num_requested FROM pg_stat_checkpointer)"
_CHECKPOINTS_BEFORE = "(SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter)"

_MAY_READ_LEDGER = """
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
class Noted:
    """What the ledger says.

    `has_months` is None where this user may not look; `variables` are how many the month has
    that was loaded last, None without one; `rows` those that running loads have noted, by backend.
    """

    has_months: bool | None
    variables: int | None = None
    rows: dict[int, int] = field(default_factory=dict)


class Questions:
    """The questions, asked on a connection that is made to have no limits, and a name by which it is no load."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute(
            "SELECT set_config(name, value, false) FROM (VALUES ('application_name', 'era5 watch'), "
            "('statement_timeout', '0'), ('idle_session_timeout', '0'), ('jit', 'off')) "
            "AS wanted (name, value)"
        )

    def look(self) -> Glance:
        """The sessions that load, or may, at this moment."""
        rows = self._connection.execute(
            read_sql("watch_sessions"), {"idle": IDLE, "hidden": HIDDEN, "cpu": CPU}
        ).fetchall()
        sessions = [Session(*row) for row in rows]
        return Glance(time.monotonic(), {session.key: session for session in sessions})

    def count(self) -> Counters:
        """The server's own counts at this moment."""
        has_view = self._connection.info.server_version >= _CHECKPOINTER_VERSION
        query = sql.SQL(read_sql("watch_counters")).format(
            checkpoints=sql.SQL(_CHECKPOINTS if has_view else _CHECKPOINTS_BEFORE)
        )
        row = self._connection.execute(query).fetchone()
        assert row is not None  # noqa: S101  # these views have one row
        return Counters(time.monotonic(), *row)

    def database_bytes(self) -> int:
        """The size of the database; the server looks at each of its files for that."""
        row = self._connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None  # noqa: S101  # an expression is one row
        return int(row[0])

    def who_holds(self, pids: set[int]) -> Held:
        """Who holds which month, what sessions are at besides COPY, and who is in the way of those of `pids`."""
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
        return Held(months, phases, blocked)

    def ledger(self) -> Noted | None:
        """What the ledger says at this moment; None where it was removed or locked in between."""
        row = self._connection.execute(_MAY_READ_LEDGER).fetchone()
        if row is None:
            return Noted(has_months=False)
        if row == (False,):
            return Noted(has_months=None)
        try:
            with self._connection.transaction():
                self._connection.execute("SELECT set_config('lock_timeout', '100ms', true)")
                last = self._connection.execute(_LAST_MONTH).fetchone()
                noted = self._connection.execute(_NOTED_ROWS).fetchall()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
            return None
        return Noted(last is not None, last[0] if last is not None else None, dict(noted))
