"""What the server does during a load: asked ten times a second, reported each interval, over its restarts.

Here: when it is asked, and what counts on. Not here: the questions (`questions`), what follows for the sessions that
load (`glances`), what that means (`bottleneck`), or how a terminal shows it (`cli/watch.py`).
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import ServerUnreachableError, TransientError
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.monitor.glances import moved, report_loaders
from era5_pipeline.monitor.noted_rows import Told
from era5_pipeline.monitor.questions import Counters, Questions
from era5_pipeline.postgres.server_errors import server_errors

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from era5_pipeline.model.months import Month
    from era5_pipeline.monitor.glances import Key, Loader
    from era5_pipeline.postgres.connect import Warehouse

_GLANCE_SECONDS = 0.1
_LATELY_SECONDS = 60.0
# The server reads a database's size off every file of it: no more often, and no more than a hundredth of the time.
_SIZE_SECONDS = 10.0
_SIZE_SHARE = 0.01


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

    def size(self, questions: Questions) -> tuple[int | None, float | None]:
        """The database's bytes, as of late, and how fast it grows."""
        began = time.monotonic()
        if began >= self._size_due:
            size = questions.database_bytes()
            now = time.monotonic()
            if self._size is not None:
                self._size_rate = (size - self._size[1]) / (now - self._size[0])
            self._size = (now, size)
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
                self._questions = Questions(self._connection)
                self._glance = self._questions.look()
                self._counters = self._questions.count()
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
                glances.append(self._questions.look())
            counted.add(self._counters)
            before, self._counters, self._glance = self._counters, self._questions.count(), glances[-1]
            counted.add(self._counters)
            held = self._questions.who_holds({key.pid for key in self._glance.sessions})
            self._read_ledger()
            size, size_rate = counted.size(self._questions)
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

    def _read_ledger(self) -> None:
        noted = self._questions.ledger()
        if noted is None:  # removed or locked in between: what was seen last still holds
            return
        self._has_months = noted.has_months
        self._variables = noted.variables or len(VARIABLES)
        if noted.has_months is not None:
            self._told.add(time.monotonic(), noted.rows)
