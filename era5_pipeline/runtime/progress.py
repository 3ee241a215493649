"""Progress reports of the stages, as events and log lines, and the time that work spends waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from era5_pipeline.model.times import spoken

if TYPE_CHECKING:
    from collections.abc import Iterator

_T = TypeVar("_T")
Stage = Literal["raw", "flat", "lake", "load", "verify", "export", "read", "draw"]
STAGE_NAMES: dict[Stage, str] = {
    "raw": "raw files",
    "flat": "flatten",
    "lake": "lake",
    "load": "load",
    "verify": "verify",
    "export": "export",
    "read": "read",
    "draw": "draw",
}


# Receives progress reports: done of total units (bytes, rows, hours, files) of a stage.
Progress = Callable[[Stage, int, int, str], None]


def _no_op(stage: Stage, done: int, total: int, unit: str) -> None:
    """No-op callback."""


_listener: ContextVar[Progress] = ContextVar("era5_progress", default=_no_op)


def report(stage: Stage, done: int, total: int, unit: str) -> None:
    """Report progress to the active listener; without one, this costs next to nothing."""
    _listener.get()(stage, done, total, unit)


@contextmanager
def listening(listener: Progress) -> Iterator[None]:
    """Deliver the reports made in this context to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def add_listener(listener: Progress) -> Iterator[None]:
    """Deliver the reports made in this context to `listener` as well as the active one."""
    before = _listener.get()

    def both(stage: Stage, done: int, total: int, unit: str) -> None:
        before(stage, done, total, unit)
        listener(stage, done, total, unit)

    with listening(both):
        yield


def while_waited_for(work: Callable[[], _T], is_waited_for: Callable[[], bool]) -> Callable[[], _T]:
    """Return the work with its reports delivered only while somebody waits for it: it is done ahead, in a thread."""

    def work_ahead() -> _T:
        listener = _listener.get()

        def if_waited_for(stage: Stage, done: int, total: int, unit: str) -> None:
            if is_waited_for():
                listener(stage, done, total, unit)

        with listening(if_waited_for):
            return work()

    return work_ahead


class Counter:
    """Adds up the progress of several threads; reports the sum to the listener active at its creation."""

    def __init__(self, stage: Stage, total: int, unit: str) -> None:
        self._listener = _listener.get()  # a context variable, which threads started later do not inherit
        self._lock = threading.Lock()
        self._stage: Stage = stage
        self._total = total
        self._unit = unit
        self._done = 0

    def add(self, count: int) -> None:
        """Add `count` finished units, and report the sum."""
        with self._lock:
            self._done += count
            self._listener(self._stage, self._done, self._total, self._unit)


# --- Progress of long stages as log lines, for unattended runs ---
#
# The numbers are the same as in the progress bars (`cli.bars`).


# At most one line per interval: shorter stages log none.
EVERY_SECONDS = 30.0
_MEGABYTE = 1e6


class ProgressLines:
    """A progress listener that calls `say` with a line at most every `every_seconds`, from any thread.

    A line gives the amount done, the rate since the previous line, and the time left at that rate;
    `clock` returns seconds.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        every_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._every_seconds = EVERY_SECONDS if every_seconds is None else every_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._of: tuple[Stage, int] | None = None
        self._since = 0.0
        self._done = 0
        self._done_at_line = 0

    def __call__(self, stage: Stage, done: int, total: int, unit: str) -> None:
        """Receive a report."""
        now = self._clock()
        with self._lock:
            # A new stage, or the same one restarted: the next of several files, or a retry.
            if (stage, total) != self._of or done < self._done:
                self._of, self._since, self._done, self._done_at_line = (stage, total), now, done, done
                return
            self._done = done
            seconds = now - self._since
            if seconds < self._every_seconds or done >= total:
                return
            line = _line(stage, done, total, unit, (done - self._done_at_line) / max(seconds, 1e-9))
            self._since, self._done_at_line = now, done
        self._say(line)


def _line(stage: Stage, done: int, total: int, unit: str, per_second: float) -> str:
    left = f"{spoken((total - done) / per_second)} left" if per_second > 0 else "nothing since the last line"
    share = f"{STAGE_NAMES[stage]}: {100 * done // max(1, total)} %"
    if unit == "bytes":
        amounts = f"{done / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB"
        return f"{share}, {amounts}, {per_second / _MEGABYTE:,.2f} MB/s, {left}"
    rate = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{share}, {done:,} of {total:,} {unit}, {rate} {unit}/s, {left}"


@dataclass
class Waited:
    """Seconds waited so far."""

    seconds: float = 0.0


_active: ContextVar[Waited | None] = ContextVar("era5_waited", default=None)


@contextmanager
def measured_waits() -> Iterator[Waited]:
    """Add up the waits in this context."""
    waited = Waited()
    token = _active.set(waited)
    try:
        yield waited
    finally:
        _active.reset(token)


@contextmanager
def waiting() -> Iterator[None]:
    """Count the time of this block as waiting."""
    started = time.monotonic()
    try:
        yield
    finally:
        waited = _active.get()
        if waited is not None:
            waited.seconds += time.monotonic() - started
