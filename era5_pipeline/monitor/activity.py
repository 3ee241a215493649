"""Wait events, speed and bottleneck of the sessions that load, sampled ten times a second.

The queries write nothing; for the display see `cli.watch`.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import psycopg

from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.locks import describe_session

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from era5_pipeline.postgres.connect import Warehouse

# States of a session besides the server's own names for waits (`Client:ClientRead`).
CPU = "CPU"
IDLE = "idle"  # between two statements
HIDDEN = "hidden"  # another user's session, and this user may not see what it does

# --- What limits a load: the kinds of waits, in the server's names, and a sentence of advice for each ---


Kind = Literal["nothing", "hidden", "idle", "loader", "processor", "wal", "disk", "contention", "lock", "other"]

# The first kind that matches a wait is its kind. Names are those of PostgreSQL 15 to 18: `WALWrite` became `WalWrite`
# in 17, reads became `AioIoCompletion` in 18.
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("idle", re.compile(IDLE)),
    ("hidden", re.compile(HIDDEN)),
    ("loader", re.compile(r"Client:ClientRead")),
    ("processor", re.compile(CPU)),
    ("wal", re.compile(r"(IO|LWLock):WAL.*|IPC:SyncRep", re.IGNORECASE)),
    ("disk", re.compile(r"IO:.*|IPC:BufferIO|LWLock:Aio.*|Timeout:VacuumDelay", re.IGNORECASE)),
    ("contention", re.compile(r"LWLock:.*|Lock:extend|BufferPin:.*")),  # `extend` is brief
    ("lock", re.compile(r"Lock:.*")),  # kept until the end of a transaction
    ("other", re.compile(r".*")),
)
_ADVICE: dict[Kind, str] = {
    "nothing": "Nothing is loading; a month that is still being read or flattened has not reached the server.",
    "hidden": "Unknown: this user may not see what the loading sessions wait for. An administrator can allow it: GRANT "
    "pg_monitor TO <user>;",
    "idle": "The loader is between two statements: it prepares the next one, or waits for readers of the table.",
    "loader": "The loader: for {share} of the time the server waits for rows. Reading and encoding do not keep up: "
    "check that machine's processor and disk, and the network in between.",
    "processor": "The server's processor: it works for {share} of the time, and a session uses one core. More months "
    "at once, or --workers, help as long as cores are idle.",
    "wal": "The write-ahead log: {share} of the time ({top}). A faster disk for pg_wal helps, or writing less of it: "
    "see era5 doctor.",
    "disk": "The data disk: {share} of the time ({top}). A faster disk for the server's data helps; more sessions do "
    "not.",
    "contention": "The sessions wait for each other: {share} of the time ({top}). Fewer at once may be as fast.",
    "lock": "A lock: {share} of the time ({top}), and it has been granted since.",
    "other": "Something else on the server: {share} of the time ({top}).",
}
_LOCKED = "A lock: {who} waits for {holders}. Wait until that session is done, or end it."


@dataclass(frozen=True)
class Bottleneck:
    """The limit of the load: its kind, and one line of text."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Loader:
    """A loading session over one interval.

    `rows` and `bytes` are the progress of its COPY; None if unknown: hidden, or not shown by the server. `waits` counts
    samples by wait; `blocked_by` describes the sessions that hold the lock it waits for at the end of the interval.
    """

    pid: int
    name: str
    month: str | None
    phase: str
    rows: int | None
    rows_per_second: int | None
    bytes: int | None
    bytes_per_second: int | None
    waits: Mapping[str, int]
    blocked_by: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The loading sessions over one interval that ended at `time`."""

    time: datetime
    loaders: tuple[Loader, ...]

    @property
    def waits(self) -> Counter[str]:
        """Samples of all loaders, counted by wait."""
        return sum((Counter(loader.waits) for loader in self.loaders), Counter[str]())


def find_bottleneck(report: Report) -> Bottleneck:
    """Find what limits the load in an interval: a lock if one blocks a session, else what took the most time."""
    if not report.loaders:
        return Bottleneck("nothing", _ADVICE["nothing"])
    for loader in report.loaders:
        seen = sum(count for wait, count in loader.waits.items() if wait != IDLE)
        # Short waits limit no load. Even if waits are hidden, who blocks a session is visible.
        if loader.blocked_by and seen <= 2 * sum(loader.waits[wait] for wait in loader.waits if _may_be_lock(wait)):
            who = f"{loader.month} (session {loader.pid})" if loader.month else f"session {loader.pid}"
            return Bottleneck("lock", _LOCKED.format(who=who, holders=" and ".join(loader.blocked_by)))
    shares = wait_shares(report.waits)
    if not shares:
        kind: Kind = "hidden" if report.waits[HIDDEN] else "idle"
        return Bottleneck(kind, _ADVICE[kind])
    groups = Counter[Kind]()
    for wait, count in report.waits.items():
        if wait in shares:
            groups[kind_of_wait(wait)] += count
    ((kind, count),) = groups.most_common(1)
    top = next(wait for wait in shares if kind_of_wait(wait) == kind)
    return Bottleneck(kind, _ADVICE[kind].format(share=percent(count / groups.total()), top=top))


def kind_of_wait(wait: str) -> Kind:
    """Return the kind of bottleneck that a wait (`CPU`, or the server's `Type:Event`) belongs to."""
    return next(kind for kind, pattern in _PATTERNS if pattern.fullmatch(wait))


def _may_be_lock(wait: str) -> bool:
    return wait == HIDDEN or kind_of_wait(wait) == "lock"


def wait_shares(waits: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each known wait, the largest first; they add up to 1."""
    known = {wait: count for wait, count in Counter(waits).most_common() if wait not in (HIDDEN, IDLE)}
    total = sum(known.values())
    return {wait: count / total for wait, count in known.items()}


def percent(share: float) -> str:
    """Format a share from 0 to 1 in whole percent."""
    return f"{round(100 * share)} %"


class SampledSession(NamedTuple):
    """A session in one sample, as `sql/watch_sessions.sql` returns it; `since` is when it connected (None: hidden)."""

    pid: int
    since: datetime | None
    name: str
    month: str | None
    phase: str
    wait: str
    loads: bool
    bytes: int | None
    rows: int | None


class Sample(NamedTuple):
    """The sessions of this project, and others that COPY into weather, at one time (seconds, monotonic)."""

    at: float
    sessions: Mapping[tuple[int, datetime | None], SampledSession]


def summarize_loaders(
    samples: Sequence[Sample],
    months: Mapping[int, str | None],
    reported: Mapping[int, tuple[int, int]],
    blocked_by: Mapping[int, tuple[str, ...]],
) -> tuple[Loader, ...]:
    """Summarize the work of each session that loads and is still connected, from the first sample to the last.

    The first sample is the last of the previous interval: counting begins there. By process number, `months` are those
    that sessions have locked (None: a load that still creates the schema), `reported` the rows of loads and their rate
    by the ledger, `blocked_by` the sessions in their way.
    """
    seconds = samples[-1].at - samples[0].at
    loaders = []
    for key, last in samples[-1].sessions.items():
        seen = [sample.sessions[key] for sample in samples[1:] if key in sample.sessions]
        if last.pid not in months and not any(session.loads for session in seen):
            continue
        first = samples[0].sessions.get(key)
        rows = last.rows, _rate(first and first.rows, last.rows, seconds)
        loaders.append(
            Loader(
                last.pid,
                last.name,
                months.get(last.pid) or last.month,
                last.phase,
                *(reported.get(last.pid, rows) if last.rows is None else rows),
                last.bytes,
                _rate(first and first.bytes, last.bytes, seconds),
                Counter(session.wait for session in seen),
                blocked_by.get(last.pid, ()),
            )
        )
    return tuple(loaders)


def _rate(before: int | None, after: int | None, seconds: float) -> int | None:
    """Return the increase per second of a counter, which begins at zero with each COPY; None if it is unknown."""
    if after is None:
        return None
    return round((after - before if before is not None and before <= after else after) / seconds)


# --- Watching a server: sampled ten times a second, reported per interval ---


_SAMPLE_SECONDS = 0.1
_MAY_READ_LEDGER = """
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = '{schema}' AND c.relname = 'load_attempt'
"""
# A load reports its rows once a second: a rate since its beginning does not jump.
_REPORTED_ROWS = """
SELECT t.backend_pid, t.rows, round(t.rows / greatest(1, extract(epoch FROM clock_timestamp() - t.started_at)))::bigint
FROM {schema}.load_attempt t JOIN pg_stat_activity a ON a.pid = t.backend_pid
WHERE t.outcome = 'running' AND t.rows IS NOT NULL AND coalesce(a.backend_start = t.backend_start, true)
"""


def watch(warehouse: Warehouse, *, interval_seconds: float, seconds: float | None = None) -> Generator[Report]:
    """Sample the server and report every `interval_seconds`; for `seconds` from the connection on, or until closed."""
    with warehouse.connect() as connection, server_errors("watching the server"):
        # Named so that it does not count as a load.
        connection.execute(
            warehouse.dataset.sql(
                "SELECT set_config(name, value, false) FROM (VALUES ('application_name', '{application} watch'), "
                "('statement_timeout', '0'), ('idle_session_timeout', '0'), ('jit', 'off')) AS wanted (name, value)"
            )
        )
        last = _sample(connection)
        # Counted from here: on a busy server, connecting may take longer than a short watch, which must report once.
        end = math.inf if seconds is None else time.monotonic() + seconds
        while time.monotonic() < end:
            until = min(time.monotonic() + interval_seconds, end)
            samples = [last]
            while len(samples) == 1 or time.monotonic() < until:
                time.sleep(max(0.0, min(samples[-1].at + _SAMPLE_SECONDS, until) - time.monotonic()))
                samples.append(_sample(connection))
            last = samples[-1]
            months: dict[int, str | None] = dict(
                connection.execute(
                    read_sql("watch_locks", dataset_of(connection)), (dataset_of(connection).lock_class,)
                ).fetchall()
            )
            loaders = summarize_loaders(samples, months, _reported_rows(connection), _blockers(connection, last))
            yield Report(datetime.now(UTC), loaders)


def _sample(connection: psycopg.Connection[Any]) -> Sample:
    rows = connection.execute(
        read_sql("watch_sessions", dataset_of(connection)), {"idle": IDLE, "hidden": HIDDEN, "cpu": CPU}
    ).fetchall()
    return Sample(time.monotonic(), {(row[0], row[1]): SampledSession(*row) for row in rows})


def _reported_rows(connection: psycopg.Connection[Any]) -> dict[int, tuple[int, int]]:
    """Read the rows that running loads report, and their rate; empty while the ledger is hidden, missing or locked."""
    if connection.execute(dataset_of(connection).sql(_MAY_READ_LEDGER)).fetchone() != (True,):
        return {}
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', '100ms', true)")
            return {
                pid: (rows, rate) for pid, rows, rate in connection.execute(dataset_of(connection).sql(_REPORTED_ROWS))
            }
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        return {}


def _blockers(connection: psycopg.Connection[Any], sample: Sample) -> dict[int, tuple[str, ...]]:
    """Describe who blocks the sessions that wait for a lock, or may do so."""
    blocked: dict[int, tuple[str, ...]] = {}
    waiting = [session.pid for session in sample.sessions.values() if _may_be_lock(session.wait)]
    rows = connection.execute(read_sql("watch_blockers"), (waiting,)).fetchall() if waiting else ()
    for pid, holder, user, address, since, state in rows:
        session = describe_session(holder, user, address, since) if holder else "a prepared transaction"
        blocked[pid] = (*blocked.get(pid, ()), f"{session}, {state}" if state else session)
    return blocked
