"""How long work says how far it is, whoever listens.

Here: the report that stages make. Not here: bars (the command line draws them) or Dagster.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

Stage = Literal["raw", "flat", "load", "verify"]


class Progress(Protocol):
    """Told by a stage, now and then, how many of how many units (bytes, rows, hours) are done."""

    def __call__(self, stage: Stage, done: int, total: int, unit: str) -> None:
        """Take one report."""
        ...


def _silent(stage: Stage, done: int, total: int, unit: str) -> None:
    """Nobody listens."""


_listener: ContextVar[Progress] = ContextVar("era5_progress", default=_silent)


def report(stage: Stage, done: int, total: int, unit: str) -> None:
    """Tell whoever listens. Cheap where nobody does."""
    _listener.get()(stage, done, total, unit)


@contextmanager
def listening(listener: Progress) -> Iterator[None]:
    """Let `listener` hear the reports of everything within."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Counter:
    """Counts what several threads do together, and reports it to whoever listens where the counter was made."""

    def __init__(self, stage: Stage, total: int, unit: str) -> None:
        self._listener = _listener.get()  # a thread that starts later has none of its own
        self._lock = threading.Lock()
        self._stage: Stage = stage
        self._total = total
        self._unit = unit
        self._done = 0

    def add(self, count: int) -> None:
        """Count so many more as done."""
        with self._lock:
            self._done += count
            self._listener(self._stage, self._done, self._total, self._unit)
