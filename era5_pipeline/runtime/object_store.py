"""Stores of objects: their interface, their addresses, and one in a folder that every executor mounts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from typing_extensions import override

from era5_pipeline.model.errors import StoreError, UsageError, disk_remedy
from era5_pipeline.model.settings import S3_SCHEME
from era5_pipeline.runtime.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

# --- A stored object, as listed ---


@dataclass(frozen=True)
class StoredObject:
    """An object's key, size in bytes, and time of last write in nanoseconds."""

    key: str
    bytes: int
    modified_ns: int


# --- Addresses: a folder, or `s3://bucket/prefix` ---


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


@dataclass(frozen=True)
class S3Address:
    """A bucket and a key prefix, without surrounding slashes; an empty prefix means the whole bucket."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix`.

        Raises:
            UsageError: if it names no bucket.
        """
        bucket, _, prefix = text.removeprefix(S3_SCHEME).partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{text} names no bucket", remedy="Write s3://bucket, or s3://bucket/prefix.")
        return cls(bucket, prefix.strip("/"))

    def __str__(self) -> str:
        return f"{S3_SCHEME}{self.path()}"

    def path(self, key: str = "") -> str:
        """The bucket, the prefix and a key below it, as `pyarrow.fs` writes them."""
        return "/".join(part for part in (self.bucket, self.prefix, key) if part)


def is_s3(text: str) -> bool:
    """Return True if the address is an S3 one."""
    return text.startswith(S3_SCHEME)


def has_scheme(text: str) -> bool:
    """Return True if the address is a URL of any kind, not a folder."""
    return _SCHEME.match(text) is not None


def require_folder_or_s3(text: str) -> None:
    """Refuse addresses other than folders and S3."""
    if is_s3(text):
        S3Address.parse(text)
    elif has_scheme(text):
        raise UsageError(
            f"{text} is neither a folder nor an address of S3",
            remedy="Give a folder, or s3://bucket/prefix; for other servers that speak S3, set AWS_ENDPOINT_URL.",
        )


# --- The interface of a store ---
#
# A store holds objects by key. An interrupted upload leaves nothing, or an object of another size, and is never
# reported as done.


# First byte and length of a part of an object; a negative first byte counts from the end, a length of None ends there.
Part = tuple[int, int | None]


def slice_of(part: Part | None) -> slice:
    """The part as a slice of the object; all of it without one."""
    first, length = part or (0, None)
    return slice(first, None if first < 0 or length is None else first + length)


class DeniedError(StoreError):
    """The keys or rights do not allow it: S3 says so of absent objects too, where the right to list is missing."""


class ObjectStore(Protocol):
    """A store of objects by key.

    Every method raises a `TransientError` if the store cannot be reached, and a `StoreError` if it refuses.
    """

    @property
    def shown(self) -> str:
        """Its address, for messages."""
        ...

    def require(self) -> None:
        """Raise if the store is missing, unreachable or unreadable."""
        ...

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it does not exist."""
        ...

    def read(self, key: str, part: Part | None = None) -> bytes | None:
        """The content of a small object, or a part of one as far as there is one; None if it does not exist."""
        ...

    def write(self, key: str, content: bytes) -> None:
        """Write a small object, replacing any existing one."""
        ...

    def upload(self, path: Path, key: str) -> None:
        """Upload a finished local file, replacing any existing object, and verify its size."""
        ...

    def download(self, key: str, path: Path) -> str | None:
        """Write an object to a local path; return its SHA-256, or None if it does not exist."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...

    def objects(self) -> Iterable[StoredObject]:
        """All objects, by key in ascending order."""
        ...


# --- Save an object's bytes as a local file, with their digest ---


BLOCK_BYTES = 8 << 20


def save_stream(read: Callable[[int], bytes], path: Path, reading: Callable[[], AbstractContextManager[object]]) -> str:
    """Write what `read` returns to `path`, until it has no more; return the SHA-256 of what was written, in hex.

    `reading` makes a context for each read, to translate the store's errors; errors of `path` reach the caller.
    """
    digest = hashlib.sha256()
    with path.open("wb") as target:
        while True:
            with reading():
                block = read(BLOCK_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)
            target.write(block)


# --- A store in a folder that every executor mounts, such as an NFS share ---
#
# Files appear by a rename. No locks are used, because a mount may not share them between machines: temporary files have
# unique names, and those left by killed processes are removed by age.


_UNFINISHED = ".unfinished-"
# Longer than any upload takes.
_ABANDONED_SECONDS = 2 * 86_400


@dataclass(frozen=True)
class FolderStore(ObjectStore):
    """An `ObjectStore` in a folder, which must exist: an unmounted share must not pass for an empty one."""

    folder: Path

    @property
    @override
    def shown(self) -> str:
        return str(self.folder)

    @override
    def require(self) -> None:
        with self._errors("looking at it"):
            if self.folder.is_dir() and os.access(self.folder, os.R_OK | os.X_OK):
                return
            is_there = self.folder.exists()
        raise StoreError(
            f"the store {self.folder} {'cannot be read' if is_there else 'does not exist'}",
            remedy="Mount it, or create the folder and let this user read and write there; or correct ERA5_STORE.",
        )

    @override
    def size_of(self, key: str) -> int | None:
        with self._errors(f"looking for {key}"):
            path = self._path(key)
            return path.stat().st_size if path.is_file() else None

    @override
    def read(self, key: str, part: Part | None = None) -> bytes | None:
        with self._errors(f"reading {key}"):
            try:
                with self._path(key).open("rb") as file:
                    start, stop, _ = slice_of(part).indices(os.fstat(file.fileno()).st_size)
                    file.seek(start)
                    return file.read(stop - start)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    @override
    def write(self, key: str, content: bytes) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            temporary.write_bytes(content)

    @override
    def upload(self, path: Path, key: str) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    @override
    def download(self, key: str, path: Path) -> str | None:
        with self._errors(f"reading {key}"):
            try:
                source = self._path(key).open("rb")
            except FileNotFoundError:
                return None
        with source:
            return save_stream(source.read, path, lambda: self._errors(f"reading {key}"))

    @override
    def remove(self, key: str) -> None:
        with self._errors(f"removing {key}"):
            self._path(key).unlink(missing_ok=True)

    @override
    def objects(self) -> Iterator[StoredObject]:
        with self._errors("listing it"):
            for path in sorted(self.folder.rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    stat = path.stat()
                    yield StoredObject(path.relative_to(self.folder).as_posix(), stat.st_size, stat.st_mtime_ns)

    def _path(self, key: str) -> Path:
        return self.folder / key

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        self.require()
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        temporary = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the store {self.folder}: {doing}: {error.strerror or error}"
            remedy = disk_remedy(error, "set ERA5_STORE to another folder", name="ERA5_STORE")
            # A lost network share raises errors of many kinds.
            raise StoreError(what, remedy=remedy or "Check its mount, then run the month again.") from error


def _remove_abandoned(folder: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for left in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):  # another executor removed it
            if left.stat().st_mtime < oldest:
                left.unlink()
