"""Folders of one's own, gone afterwards, whoever's process was killed in between.

Who uses a folder holds a lock on it, which ends with the process: the next one to make a folder there removes those
that nobody holds. Process numbers would not do, since containers that share a disk do not see each other's.
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


# Twenty seconds: an initdb takes two, and several times that on a busy machine.
_REMOVALS = 400
_BETWEEN_REMOVALS_SECONDS = 0.05
# Something came or went in it meanwhile.
_STILL_WRITTEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)


@contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder in `parent`, named with `prefix`, which no other folder there may have.

    Raises:
        OSError: if it cannot be made.
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
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for left in parent.glob(f"{prefix}*"):
        with _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_abandoned:
            if is_abandoned:
                _remove(left)


def _remove(folder: Path) -> None:
    """Remove it, though a program that its owner had started may still be writing into it, until it notices."""
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
    """Whether the lock was got; some network file systems have none for folders, and nothing is removed there."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True
