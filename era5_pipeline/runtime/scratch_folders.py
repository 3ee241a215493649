"""Temporary folders, removed even after a crash.

The process that uses a folder holds a lock on it, which ends with the process. Whoever creates the next folder in the
same place removes those that are not locked. Process ids would not work: containers that share a disk do not see each
other's processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


# 400 tries of 0.05 s, 20 s in all: an orphaned initdb may write for 2 s, several times that on a busy machine.
_REMOVALS = 400
_BETWEEN_REMOVALS_SECONDS = 0.05
# Errors of rmtree when another process adds or removes files meanwhile.
_STILL_WRITTEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)


@contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a folder in `parent` whose name starts with `prefix`, and remove it at the end.

    Unlocked folders in `parent` with this prefix were left by killed processes, and are removed first.

    Raises:
        OSError: if it cannot be created.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with _locked(parent, fcntl.LOCK_EX):
        _remove_abandoned(parent, prefix)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        held = os.open(folder, os.O_RDONLY)
        _lock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        # Threads that were writing when the body was interrupted may not have ended yet.
        _remove(folder)
        os.close(held)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for left in parent.glob(f"{prefix}*"):
        with _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_abandoned:
            if is_abandoned:
                _remove(left)


def _remove(folder: Path) -> None:
    """Remove the folder, retrying while a thread, or a program that the killed owner started, still writes into it."""
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            if not folder.exists() or error.errno not in _STILL_WRITTEN:
                return
        else:
            return
        time.sleep(_BETWEEN_REMOVALS_SECONDS)


@contextmanager
def _locked(folder: Path, operation: int) -> Iterator[bool]:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(descriptor, operation)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    """Try to lock. False: it is locked, or the network file system cannot lock folders; nothing is removed then."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True
