"""Files that are whole or not there: written under a temporary name, synced, renamed; and their digests."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.runtime.scratch_folders import own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ_BYTES = 1 << 20
# Beside the file, for a rename does not cross disks; hidden, so that nobody takes it for the file.
_UNFINISHED = ".unfinished-"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path near `path`; on success it becomes `path` in one step, on failure it is removed.

    What processes that were killed left in the folder is removed too.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    with disk_errors(f"writing {path.name}", path.parent), own_folder(path.parent, _UNFINISHED) as folder:
        temporary = folder / path.name
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: object) -> None:
    """Write `value` as JSON, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:  # noqa: ANN401  # JSON is any
    """What `write_json` wrote, or None if the file is missing or not JSON (then it is made again)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def sha256_of(path: Path) -> str:
    """The file's SHA-256, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256", _bufsize=_READ_BYTES).hexdigest()


def digest_of(value: object) -> str:
    """SHA-256, in hex, of a JSON value: the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
