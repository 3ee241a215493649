"""The files of one month between its stages: fetched from the store, shared there, removed after the load."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.flat import flatten
from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.model.errors import InputError, disk_errors
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.files import REMADE_BYTES, has_form, read_json, sha256_of
from era5_pipeline.sources.files_catalogue import fetch_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat, Keep, Settings
    from era5_pipeline.sources.source import RawMonth

# Increase when a program that knows the previous number would misread a month's manifest.
_MANIFEST_FORM = 1


@dataclass(frozen=True)
class StoredMonth:
    """The files of `month` in the store of files."""

    file_store: FileStore
    month: Month

    @classmethod
    def of(cls, settings: Settings, month: Month) -> StoredMonth:
        """The month's files; an unusable store is reported before anything is done."""
        file_store = FileStore.of(settings)
        file_store.require()
        return cls(file_store, month)

    @property
    def folder(self) -> Path:
        """This machine's folder of flat months."""
        return self.file_store.home / "flat"

    def read_manifest(self) -> Any:  # noqa: ANN401  # JSON is any
        """Read the manifest of the month's raw files; None if it does not exist."""
        value = self.file_store.read_record(self._manifest)
        return value if has_form(value, _MANIFEST_FORM, self._manifest) else None

    def write_manifest(self, raw: RawMonth, value: dict[str, Any]) -> None:
        """Write the manifest, after the raw files that it names."""
        files = (file for file in raw.files if file.origin is None)
        record = {"form": _MANIFEST_FORM, "raw": raw.to_json(), **value}
        self.file_store.write_record(self._manifest, record, files, durable_bytes=REMADE_BYTES)

    def obtain_raw(self, raw: RawMonth) -> None:
        """Make sure the raw files are on local disk."""
        for file in raw.files:
            if file.origin is not None:
                fetch_object(self.month, file)
            elif (
                self.file_store.is_own(file)
                and not self.file_store.obtain(file)
                # Otherwise the inventory reports what is wrong with the local one.
                and (self.file_store.is_shared or not file.path.is_file())
            ):
                raise InputError(
                    f"{self.month}: its raw file {file.path} is gone{self.nowhere}",
                    remedy=f"Materialize {raw.dataset.schema}/raw of this month first: files of a loaded month may "
                    "have been removed (ERA5_KEEP).",
                )

    def same_flat(self, raw: RawMonth, flat_format: FlatFormat, *, for_lake: bool = False) -> FlatMonth | None:
        """The flat month with the same rows and format, its files on local disk; None if not intact."""
        wanted = (month_fingerprint(raw), flat_format, for_lake)
        if not self.file_store.is_shared:
            flat = flatten.read_flat_month(self.folder, self.month)
            if flat is None or _form_of(flat) != wanted:
                return None
            return flat if all(sha256_of(file.path) == file.sha256 for file in flat.files) else None
        for facts in self._facts():
            if _form_of(facts) == wanted and self._obtain_files(facts) and flatten.has_own_columns(facts):
                return facts
        return None

    def _obtain_files(self, flat: FlatMonth) -> bool:
        return all(self.file_store.obtain(file) for file in flat.files)

    def share_flat(self, flat: FlatMonth) -> None:
        """Upload the flat files, the preview and then the facts; remove the files that they replace in the store."""
        if not self.file_store.is_shared:
            return
        earlier = self.stored_flat()
        preview = flatten.preview_file(self.folder, self.month)
        if preview.is_file():
            self.file_store.share_picture(preview)
        elif flatten.has_preview(flat.locations):
            self.file_store.obtain_picture(preview)
        self.file_store.share_facts(flatten.facts_file(self.folder, self.month), flat.to_json(), flat.files)
        kept = {(file.path, file.sha256) for file in flat.files}
        for file in () if earlier is None else earlier.files:
            if (file.path, file.sha256) not in kept:
                self.file_store.supersede(file)

    def stored_flat(self) -> FlatMonth | None:
        """The flat month described by its facts, whether or not its file exists."""
        return next(self._facts(), None)

    def obtain_flat(self, flat: FlatMonth) -> bool:
        """Make sure the flat files, and any preview, are on local disk; False if a file exists nowhere."""
        preview = flatten.preview_file(self.folder, self.month)
        if flatten.has_preview(flat.locations) and not preview.is_file():
            self.file_store.obtain_picture(preview)
        return self._obtain_files(flat) and flatten.has_own_columns(flat)

    def _facts(self) -> Iterator[FlatMonth]:
        """Yield the facts in the store, then those on this machine."""
        path = flatten.facts_file(self.folder, self.month)
        values = [self.file_store.read_record(path)]
        if self.file_store.is_shared:
            values.append(read_json(path))
        for value in values:
            if (flat := flatten.read_facts(value, path)) is not None:
                yield flat

    @property
    def _manifest(self) -> Path:
        return self.file_store.home / "raw" / f"{self.month}.json"

    @property
    def nowhere(self) -> str:
        """The other places searched for a missing file, for messages."""
        return "" if self.file_store.store is None else f", and not in the store {self.file_store.store.shown}"


def _form_of(flat: FlatMonth) -> tuple[str, FlatFormat, bool]:
    return flat.fingerprint, flat.format, flat.is_for_lake


# --- Remove a month's files after its load: those that ERA5_KEEP does not keep, and local copies of stored ones ---
#
# The records stay: the manifest, the facts, and the sources' records of their months. They identify a month later, and
# the ledger has names and digests of all files. The user's own files are never removed.


@dataclass(frozen=True)
class FileRemoval:
    """The files of a loaded month to remove; `has_copies`: it may have copies of the user's objects."""

    stored: StoredMonth
    keep: Keep
    has_copies: bool = False

    @property
    def removes(self) -> bool:
        """True if anything is to be removed."""
        return self.keep != "all" or self.stored.file_store.is_shared or self.has_copies

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
        """Remove the unneeded files of the loaded month, unless another run on this machine is reading them."""
        file_store, raw = self.stored.file_store, flat.raw
        if not self.removes and not any(file.origin for file in raw.files):
            return
        with disk_errors(f"{flat.month}: removing files", file_store.home), self._lock() as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # the other run removes them after loading the month
            except OSError:
                pass
            for file in raw.files:
                if file.origin is not None:
                    file.path.unlink(missing_ok=True)  # a copy of a user's object, which stays
                elif not source_kind(raw.source).has_own_files:
                    file_store.release(file) if self.keep == "all" else file_store.discard(file)
            for part in flat.files:
                file_store.discard(part) if self.keep == "none" else file_store.release(part)

    @contextmanager
    def _lock(self) -> Iterator[int]:
        path: Path = self.stored.file_store.home / "scratch" / f"{self.stored.month}.in-use"
        with disk_errors(f"{self.stored.month}: locking its files", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
        with file:
            yield file.fileno()
