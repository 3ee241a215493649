"""One run at a time for a month that is being fetched: two would ask twice, and write the same files."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from era5_pipeline.model.errors import disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month


@contextmanager
def alone_now(month: Month, lock: Path) -> Iterator[bool]:
    """Hold the lock, if nobody else does now: whether it is held.

    Raises:
        LocalDiskError: if its folder cannot be written.
    """
    with _opened(month, lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


@contextmanager
def alone(month: Month, lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock, which ends with the process; wait for whoever holds it now.

    Raises:
        LocalDiskError: if its folder cannot be written.
    """
    with _opened(month, lock) as file:
        with suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{month}: another run is fetching it, waiting for that")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(month: Month, lock: Path) -> TextIO:
    with disk_errors(f"{month}: fetching", lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock.open("w")
