"""Stores of objects: their addresses, parts of objects, and their bytes as local files; the stores are in `stores`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from era5_pipeline.model.errors import StoreError, UsageError
from era5_pipeline.model.settings import S3_SCHEME

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path


@dataclass(frozen=True)
class StoredObject:
    """An object's key, size in bytes, and time of last write in nanoseconds."""

    key: str
    bytes: int
    modified_ns: int


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


@dataclass(frozen=True)
class S3Address:
    """A bucket and a key prefix, without surrounding slashes; an empty prefix means the whole bucket."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix`."""
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


# First byte and length of a part of an object; a negative first byte counts from the end, a length of None ends there.
Part = tuple[int, int | None]


def slice_of(part: Part | None) -> slice:
    """The part as a slice of the object; all of it without one."""
    first, length = part or (0, None)
    return slice(first, None if first < 0 or length is None else first + length)


class DeniedError(StoreError):
    """The keys or rights do not allow it: S3 says so of absent objects too, where the right to list is missing."""


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
