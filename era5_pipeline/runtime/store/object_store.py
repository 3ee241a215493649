"""The interface of a store, and which kind an address is of.

A store holds objects by key. An upload that is cut off leaves nothing, or an object of another size, and is never
reported as done.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from era5_pipeline.runtime.store.address import S3Address, is_s3, require_folder_or_s3
from era5_pipeline.runtime.store.folder_store import FolderStore
from era5_pipeline.runtime.store.s3_store import S3Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.runtime.store.stored_object import StoredObject


class ObjectStore(Protocol):
    """A place of objects by key.

    Every method raises a `TransientError` if the store cannot be reached, and a `StoreError` if it refuses.
    """

    @property
    def shown(self) -> str:
        """Its address, for messages."""
        ...

    def require(self) -> None:
        """Raise if the store is not there, cannot be reached, or may not be read."""
        ...

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None: there is none."""
        ...

    def read(self, key: str) -> bytes | None:
        """The content of a small object; None: there is none."""
        ...

    def write(self, key: str, content: bytes) -> None:
        """Write a small object, in place of what is there."""
        ...

    def upload(self, path: Path, key: str) -> None:
        """Write a finished local file as an object, in place of what is there, and verify its size."""
        ...

    def download(self, key: str, path: Path) -> str | None:
        """Write an object to a local path; return its SHA-256, None if there is none."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        ...

    def objects(self) -> Iterable[StoredObject]:
        """All objects, by key in ascending order."""
        ...


@dataclass(frozen=True)
class S3Environment:
    """What the environment says of S3, in AWS's own variables; keys may also be in AWS's own files."""

    endpoint: str | None
    region: str | None
    ca_file: str | None
    credentials: tuple[str | None, ...]

    @classmethod
    def read(cls) -> S3Environment:
        """Read it now."""

        def first(*names: str) -> str | None:
            return next((value for name in names if (value := os.environ.get(name))), None)

        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
        return cls(
            endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
            ca_file=first("AWS_CA_BUNDLE"),
            credentials=tuple(os.environ.get(name) for name in names),
        )


def open_store(address: str, patience_seconds: float = 0.0) -> ObjectStore:
    """The store at a folder or `s3://bucket/prefix`; nothing is contacted yet. A server is waited for so long.

    Raises:
        UsageError: if it is neither, or names no bucket.
    """
    require_folder_or_s3(address)
    return _open_s3(address, S3Environment.read(), patience_seconds) if is_s3(address) else FolderStore(Path(address))


@lru_cache(maxsize=16)
def _open_s3(address: str, environment: S3Environment, patience_seconds: float) -> S3Store:
    # Kept, because a connection takes longer to begin than a small object to read.
    return S3Store(
        S3Address.parse(address),
        endpoint=environment.endpoint,
        region=environment.region,
        ca_file=environment.ca_file,
        patience_seconds=patience_seconds,
    )
