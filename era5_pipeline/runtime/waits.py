"""The time that work spends waiting for others, for a service's queue or a lock: measured where it waits."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
