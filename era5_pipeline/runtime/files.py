"""Atomic file writes (temporary name, fsync, rename), JSON files, SHA-256 digests, and temporary folders."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from era5_pipeline.model.errors import InputError, LocalDiskError, disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

# --- Temporary folders, removed even after a crash ---
#
# The process that uses a folder holds a lock on it, which is released when the process ends. Creating the next folder
# in the same place removes the unlocked ones. Process ids would not work: containers that share a disk do not see each
# other's processes.


# 400 tries of 0.05 s, 20 s in all: an orphaned initdb may write for 2 s, several times that on a busy machine.
_REMOVALS = 400
_BETWEEN_REMOVALS_SECONDS = 0.05
# A chunk of an export, which zarr compresses and writes in a thread, takes a few tenths of a second.
_LATE_WRITES_SECONDS = 1.0
# A folder is looked through for what killed processes left once in this time: with thousands of files, that takes as
# long as writing one.
_BETWEEN_LOOKS_SECONDS = 60.0
_looked_at: dict[tuple[Path, str], float] = {}
# Errors of rmtree while another process adds or removes files.
_STILL_WRITTEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
# Bits of a digest used as a lock's position in a file: below 2**31, which every system accepts.
_LOCK_DIGITS = 7


@contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a folder in `parent` whose name starts with `prefix`, and remove it on exit.

    Unlocked folders with this prefix, left by killed processes, are removed first, at most once a minute.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with _locked(parent, fcntl.LOCK_EX):
        _remove_abandoned(parent, prefix)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        held = os.open(folder, os.O_RDONLY)
        _lock(held, fcntl.LOCK_EX)
    try:
        yield folder
    except KeyboardInterrupt:
        # Threads go on writing after an interrupt of this one, and those of zarr make the folder again for that.
        _remove(folder)
        time.sleep(_LATE_WRITES_SECONDS)
        raise
    finally:
        _remove(folder)
        os.close(held)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    now = time.monotonic()
    if now - _looked_at.get((parent, prefix), -_BETWEEN_LOOKS_SECONDS) < _BETWEEN_LOOKS_SECONDS:
        return
    _looked_at[parent, prefix] = now
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
    """Try to lock. False if it is locked, or the network file system cannot lock folders: nothing is removed then."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError:
        return False
    return True


@contextmanager
def one_process_at_a_time(path: Path, digest: str) -> Iterator[None]:
    """Wait while another process works on the thing with this hexadecimal digest, and let others wait.

    `path` is an empty file for the locks of many things. Where the file system cannot lock, nobody waits: use it only
    to save work.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as locks:
        with suppress(OSError):
            fcntl.lockf(locks, fcntl.LOCK_EX, 1, int(digest[:_LOCK_DIGITS], 16))
        yield


_READ_BYTES = 1 << 20
# Next to the file, because a rename cannot cross file systems; hidden, so that it is not mistaken for the file.
_UNFINISHED = ".unfinished-"
# Arguments of renameat2 (Linux 3.15): relative to the working folder, exchange; and of renamex_np (macOS): swap.
_HERE, _RENAME_EXCHANGE = -100, 2
_RENAME_SWAP = 2
_ZEROS = bytes(1 << 20)


# A smaller file is made again sooner than it is flushed with its folder: 5 ms on the machine of the benchmarks.
REMADE_BYTES = 1 << 20


@contextmanager
def replacing(path: Path, *, durable_bytes: int = 0) -> Iterator[Path]:
    """Yield a temporary path near `path`; rename it to `path` on success, remove it on failure.

    The file survives a power failure from then on, if it has `durable_bytes`; readers of smaller ones must check their
    contents.

    Temporary files that killed processes left in the folder are removed too, as by `temporary_folder`.
    """
    with disk_errors(f"writing {path.name}", path.parent), temporary_folder(path.parent, _UNFINISHED) as folder:
        temporary = folder / path.name
        yield temporary
        is_durable = temporary.stat().st_size >= durable_bytes
        if is_durable:
            sync(temporary)
        temporary.replace(path)
        if is_durable:
            sync(path.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Like `replacing`, for a folder: yield a temporary path to create near `path`; it becomes `path` on success.

    An existing folder is swapped out in one step and removed.
    """
    with disk_errors(f"writing {path.name}", path.parent), temporary_folder(path.parent, _UNFINISHED) as folder:
        temporary = folder / path.name
        yield temporary
        for written in sorted(temporary.rglob("*")):
            sync(written)
        sync(temporary)
        if path.exists():
            _exchange(temporary, path)
        else:
            temporary.rename(path)
        sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file to disk; or a folder, so that a rename in it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    """Swap two paths, atomically if the system and its file system can, so that the name never vanishes."""
    libc = ctypes.CDLL(None)
    paths = os.fsencode(one.absolute()), os.fsencode(other.absolute())
    if hasattr(libc, "renameat2"):
        is_done = libc.renameat2(_HERE, paths[0], _HERE, paths[1], _RENAME_EXCHANGE) == 0
    elif hasattr(libc, "renamex_np"):
        is_done = libc.renamex_np(*paths, _RENAME_SWAP) == 0
    else:
        is_done = False
    if not is_done:
        aside = one.with_name(f"{one.name}.before")
        other.rename(aside)
        one.rename(other)


def reserve(file: IO[bytes], size: int) -> None:
    """Take `size` bytes of disk for the file, which keeps its contents: writing to them cannot fill the disk later.

    A full disk would otherwise end a process that writes to the file's mapped memory.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    # macOS: what was written is reserved.
    file.seek(0, os.SEEK_END)
    for start in range(file.tell(), size, len(_ZEROS)):
        file.write(_ZEROS[: size - start])
    file.flush()


def require_room(folder: Path, needed: int, why: str, *, again: str = "run the month again") -> None:
    """Refuse what the disk of a folder cannot hold; the message begins with `why`, and the remedy ends with `again`."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise LocalDiskError(
            f"{why} {needed:,} bytes, and {free:,} are free in {folder}",
            remedy=f"Free space there, or set ERA5_HOME to a folder on a larger disk; then {again}.",
        )


def write_json(path: Path, value: object, *, durable_bytes: int = 0) -> None:
    """Write `value` as JSON, as by `replacing`."""
    with replacing(path, durable_bytes=durable_bytes) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:  # noqa: ANN401  # JSON is any
    """Read what `write_json` wrote; None if the file is missing or not JSON (the caller then recreates it)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def has_form(value: Any, form: int, path: Path) -> bool:  # noqa: ANN401  # JSON is any
    """Return True if the record read from `path` has this `form` number; if not, it is to be made again."""
    found = value.get("form") if isinstance(value, dict) else None
    if isinstance(found, int) and found > form:
        raise InputError(
            f"{path}: a newer era5-pipeline wrote this record: it has form {found}, and this one knows forms up to "
            f"{form}",
            remedy="Install the newer era5-pipeline, or use a folder or store of files of its own (ERA5_HOME, "
            "ERA5_STORE). The record is unchanged.",
        )
    return bool(found == form)


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256", _bufsize=_READ_BYTES).hexdigest()


def digest_of(value: object) -> str:
    """Compute the SHA-256, in hex, of a JSON value; equal values have equal digests."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
