"""Removal of a month's files after its load: what ERA5_KEEP does not keep, and local copies of what the store has.

The records stay: the manifest, the facts, what sources know of their months. By them a month is recognised later, and
the ledger has names and digests of all files. The user's own files are never removed.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.model.source_kinds import source_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.flat.storage.stored_month import StoredMonth
    from era5_pipeline.model.settings import Keep


@dataclass(frozen=True)
class FileRemoval:
    """What is removed of a loaded month; `has_copies`: it may have copies of objects of the user's."""

    stored: StoredMonth
    keep: Keep
    has_copies: bool = False

    @property
    def removes(self) -> bool:
        """Whether anything is removed at all."""
        return self.keep != "all" or self.stored.depot.is_shared or self.has_copies

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep another run on this machine from removing the month's files while a stage reads them."""
        if not self.removes:
            yield
            return
        with self._lock() as descriptor:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield

    def remove(self, flat: FlatMonth) -> None:
        """Remove what the loaded month need not keep; nothing while another run on this machine reads it.

        Raises:
            LocalDiskError: if a file cannot be removed.
            StoreError, TransientError: see `ObjectStore`.
        """
        depot, raw = self.stored.depot, flat.raw
        if not self.removes and not any(file.origin for file in raw.files):
            return
        with disk_errors(f"{flat.month}: removing files", depot.home), self._lock() as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # the other run removes them when it has loaded the month
            except OSError:
                pass
            for file in raw.files:
                if file.origin is not None:
                    file.path.unlink(missing_ok=True)  # a copy of an object of the user's, which stays
                elif not source_kind(raw.source).has_own_files:
                    depot.release(file) if self.keep == "all" else depot.discard(file)
            for part in flat.files:
                depot.discard(part) if self.keep == "none" else depot.release(part)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        path: Path = self.stored.depot.home / "scratch" / f"{self.stored.month}.in-use"
        with disk_errors(f"{self.stored.month}: locking its files", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
        with file:
            yield file.fileno()
