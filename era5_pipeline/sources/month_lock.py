"""Per-month lock against duplicate requests: without it, two runs would send two and write the same files."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.runtime.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month


@contextmanager
def try_lock_month(subject: Month | str, lock: Path) -> Iterator[bool]:
    """Hold the lock if it is free, without waiting; yields whether it is held.

    Raises:
        LocalDiskError: if its folder cannot be written.
    """
    with _opened(subject, lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


@contextmanager
def locked_month(subject: Month | str, lock: Path, say: Callable[[str], None], lasts: str) -> Iterator[None]:
    """Hold the lock, waiting until another run has released it; it ends with the process at the latest.

    `lasts` says in the message how long that run may take.

    Raises:
        LocalDiskError: if its folder cannot be written.
    """
    with _opened(subject, lock) as file:
        with suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{subject}: another run is fetching it, waiting until that ends ({lasts})")
                with waiting():
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(subject: Month | str, lock: Path) -> TextIO:
    with disk_errors(f"{subject}: fetching", lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock.open("w")
