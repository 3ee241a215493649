"""A store in a folder that every executor mounts, such as an NFS share.

Files appear by a rename. No locks are used, because a mount may not share them between machines: temporary files have
names of their own, and those that killed processes left are removed by their age.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import StoreError, disk_remedy
from era5_pipeline.runtime.files import sync_folder
from era5_pipeline.runtime.store.saved_stream import save_stream
from era5_pipeline.runtime.store.stored_object import StoredObject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_UNFINISHED = ".unfinished-"
# No upload takes as long.
_ABANDONED_SECONDS = 2 * 86_400


@dataclass(frozen=True)
class FolderStore:
    """See `ObjectStore`; the folder must exist, so that a share that is not mounted is not taken for an empty one."""

    folder: Path

    @property
    def shown(self) -> str:
        """See `ObjectStore`."""
        return str(self.folder)

    def require(self) -> None:
        """See `ObjectStore`."""
        with self._errors("looking at it"):
            if self.folder.is_dir() and os.access(self.folder, os.R_OK | os.X_OK):
                return
            is_there = self.folder.exists()
        raise StoreError(
            f"the store {self.folder} {'cannot be read' if is_there else 'does not exist'}",
            remedy="Mount it, or create the folder and let this user read and write there; or correct ERA5_STORE.",
        )

    def size_of(self, key: str) -> int | None:
        """See `ObjectStore`."""
        with self._errors(f"looking for {key}"):
            try:
                return self._path(key).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read(self, key: str) -> bytes | None:
        """See `ObjectStore`."""
        with self._errors(f"reading {key}"):
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                return None

    def write(self, key: str, content: bytes) -> None:
        """See `ObjectStore`."""
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            temporary.write_bytes(content)

    def upload(self, path: Path, key: str) -> None:
        """See `ObjectStore`."""
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    def download(self, key: str, path: Path) -> str | None:
        """See `ObjectStore`."""
        with self._errors(f"reading {key}"):
            try:
                source = self._path(key).open("rb")
            except FileNotFoundError:
                return None
        with source:
            return save_stream(source, path, reading=lambda: self._errors(f"reading {key}"))

    def remove(self, key: str) -> None:
        """See `ObjectStore`."""
        with self._errors(f"removing {key}"):
            self._path(key).unlink(missing_ok=True)

    def objects(self) -> Iterator[StoredObject]:
        """See `ObjectStore`."""
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
            # A network share that is gone answers with errors of many kinds.
            raise StoreError(what, remedy=remedy or "Look at its mount, then run the month again.") from error


def _remove_abandoned(folder: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for left in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):  # another executor removed it
            if left.stat().st_mtime < oldest:
                left.unlink()
