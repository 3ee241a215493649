"""Files of the user's in a bucket of S3: their listing, and copies of them on local disk.

A copy is made when a month needs it, and removed when the month is loaded.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import BadFileError, LocalDiskError
from era5_pipeline.runtime.files import replacing, sha256_of
from era5_pipeline.runtime.store.object_store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.source import RawFile


@dataclass(frozen=True)
class BucketFile:
    """An object of the user's: its address, its size, and when it was last written."""

    address: str
    bytes: int
    modified_ns: int


def files_in(bucket: str) -> Iterator[BucketFile]:
    """The objects below an address of S3, or the one that it names; hidden ones are left out.

    Raises:
        StoreError, TransientError: if the bucket is missing, refuses, or cannot be reached.
    """
    for found in open_store(bucket).objects():
        if not any(part.startswith(".") for part in found.key.split("/")):
            address = f"{bucket.rstrip('/')}/{found.key}".rstrip("/")
            yield BucketFile(address, found.bytes, found.modified_ns)


def local_copy(home: Path, month: Month, address: str) -> Path:
    """Where the month's copy of an object is, or would be: each month has its own, and removes it when it is loaded."""
    name = address.rpartition("/")[2]
    return home / "raw" / "files" / str(month) / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{name}"


def download(address: str, path: Path, expected_bytes: int) -> str:
    """Copy an object to a path; return its SHA-256.

    Raises:
        BadFileError: if it is gone.
        LocalDiskError: if the disk has no room.
        StoreError, TransientError: if the bucket refuses, or cannot be reached.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path.parent).free
    if free < expected_bytes:
        raise LocalDiskError(
            f"{address}: a copy of it takes {expected_bytes:,} bytes, and {free:,} are free in {path.parent}",
            remedy="Free space there, or set ERA5_HOME to a folder on a larger disk; then run the month again.",
        )
    with replacing(path) as temporary:
        digest = open_store(address).download("", temporary)
        if digest is None:
            raise BadFileError(address, "is gone", remedy="Run the month again when the files are there.")
    return digest


def fetch_object(month: Month, file: RawFile) -> None:
    """Have the copy of an object on local disk, as the month's raw stage found it.

    Raises:
        BadFileError: if it is gone, or was changed since.
        LocalDiskError, StoreError, TransientError: see `download`.
    """
    if file.path.is_file() and file.path.stat().st_size == file.bytes and sha256_of(file.path) == file.sha256:
        return
    if download(file.origin or "", file.path, file.bytes) != file.sha256:
        raise BadFileError(
            file.shown,
            "was changed",
            remedy=f"Materialize era5/raw of {month} again.",
        )
