"""Progress reports of the stages, delivered to the active listener.

Here: reporting and listening. Not here: progress bars (`cli.bars`), lines of a log (`progress_lines`) or Dagster.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

Stage = Literal["raw", "flat", "load", "verify", "export", "read", "draw"]
STAGE_NAMES: dict[Stage, str] = {
    "raw": "raw files",
    "flat": "flatten",
    "load": "load",
    "verify": "verify",
    "export": "export",
    "read": "read",
    "draw": "draw",
}


class Progress(Protocol):
    """Receives progress reports: `done` of `total` units (bytes, rows, hours, files) of a stage."""

    def __call__(self, stage: Stage, done: int, total: int, unit: str) -> None:
        """Receive one report."""
        ...


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
def also_listening(listener: Progress) -> Iterator[None]:
    """Deliver the reports made in this context to `listener` besides the active one."""
    before = _listener.get()

    def both(stage: Stage, done: int, total: int, unit: str) -> None:
        before(stage, done, total, unit)
        listener(stage, done, total, unit)

    with listening(both):
        yield


class Counter:
    """Adds up the progress of several threads; reports the sum to the listener active where the counter was created."""

    def __init__(self, stage: Stage, total: int, unit: str) -> None:
        self._listener = _listener.get()  # a context variable: threads started later do not inherit it
        self._lock = threading.Lock()
        self._stage: Stage = stage
        self._total = total
        self._unit = unit
        self._done = 0

    def add(self, count: int) -> None:
        """Add `count` units to those done, and report the sum."""
        with self._lock:
            self._done += count
            self._listener(self._stage, self._done, self._total, self._unit)
