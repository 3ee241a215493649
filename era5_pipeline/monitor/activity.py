"""What the server does during a load: sampled ten times a second, reported each interval, across server restarts.

Here: when the server is queried, and what is counted across restarts. Not here: the queries (`server_queries`), rates
and phases of sessions (`session_samples`), what limits the load (`bottleneck`), or the display (`cli/watch.py`).
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import ServerUnreachableError, TransientError
from era5_pipeline.monitor.reported_rows import ReportedRows
from era5_pipeline.monitor.server_queries import ServerCounters, ServerQueries
from era5_pipeline.monitor.session_samples import increase, summarize_loaders
from era5_pipeline.postgres.server_errors import server_errors

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from era5_pipeline.model.months import Month
    from era5_pipeline.monitor.session_samples import Loader, SessionKey
    from era5_pipeline.postgres.connect import Warehouse

_SAMPLE_SECONDS = 0.1
_LAST_MINUTE_SECONDS = 60.0
# The server computes a database's size from every file of it: so at most this often, and in at most 1 % of the time.
_SIZE_SECONDS = 10.0
_SIZE_SHARE = 0.01


@dataclass(frozen=True)
class Report:
    """An interval. Checkpoints are counted from the start of the watch; `lately` means in the last minute.

    `wal_bytes_per_second` is None on a standby; `active_sessions` are of this database, and of all users only if
    `all_visible`; `has_months` is None where this user may not read the ledger.
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
        """Samples of all loaders, counted by what was waited for."""
        return sum((Counter(loader.waits) for loader in self.loaders), Counter[str]())


@dataclass(frozen=True)
class Outage:
    """The server cannot be reached; `message` is the connection's error."""

    time: datetime
    message: str


def watch(warehouse: Warehouse, *, interval_seconds: float, seconds: float | None = None) -> Generator[Report | Outage]:
    """Sample the server and report every `interval_seconds`; for `seconds` from the connection on, or until closed.

    If the server becomes unreachable later, an `Outage` is reported each interval until it is back.

    Raises:
        Era5Error: as `Warehouse.connect`, at the first connection.
        WarehouseError: if the server rejects a query.
    """
    connection: _WatchedConnection | None = _WatchedConnection(warehouse)
    # Counted from here on: on a busy server, connecting may take longer than a short watch, which still reports once.
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
    """Return the bytes of WAL written in between; None on a standby, or if the server went back to an older state."""
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
    """What is counted across restarts of the server: checkpoints, WAL of the last minute, and the database's size."""

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
        """Sample until then (seconds, monotonic), at least once.

        Raises:
            TransientError: if the connection was lost.
            WarehouseError: if the server rejects a query.
        """
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
        if state is None:  # dropped or locked meanwhile: keep the last state
            return
        self._has_months = state.has_months
        if state.has_months is not None:
            self._reported_rows.add(time.monotonic(), state.rows)
