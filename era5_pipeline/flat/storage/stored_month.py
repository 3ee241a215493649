"""The files of one month, wherever they are: what a stage reads is fetched from the store, what it wrote is shared.

Here: raw files with their manifest, and the flat file with its facts and preview. Not here: how objects are stored
(`runtime.store`), or which files are removed (`removal`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.flat.flatten import (
    facts_file,
    has_own_columns,
    has_preview,
    preview_file,
    read_facts,
    read_flat_month,
)
from era5_pipeline.model.errors import InputError
from era5_pipeline.runtime.files import has_form, read_json, sha256_of
from era5_pipeline.runtime.store.depot import Depot
from era5_pipeline.sources.files.bucket_files import fetch_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat, Settings
    from era5_pipeline.sources.source import RawFile, RawMonth


# Increase it when a program that knows the number before would misread the manifest of a month.
_MANIFEST_FORM = 1


@dataclass(frozen=True)
class StoredMonth:
    """The files of `month` in the depot."""

    depot: Depot
    month: Month

    @classmethod
    def of(cls, settings: Settings, month: Month) -> StoredMonth:
        """The month's files; a store that cannot be used is reported before anything is done.

        Raises:
            UsageError, StoreError, TransientError: see `Depot`.
        """
        depot = Depot.of(settings)
        depot.require()
        return cls(depot, month)

    @property
    def folder(self) -> Path:
        """The folder of flat months on this machine."""
        return self.depot.home / "flat"

    # --- raw ----------------------------------------------------------------------------------------------------------

    def read_manifest(self) -> Any:  # noqa: ANN401  # JSON is any
        """The manifest of the month's raw files; None if there is none.

        Raises:
            InputError: if a newer era5-pipeline wrote it.
        """
        value = self.depot.read_record(self._manifest)
        return value if has_form(value, _MANIFEST_FORM, self._manifest) else None

    def write_manifest(self, raw: RawMonth, value: dict[str, Any]) -> None:
        """Write the manifest, after the raw files that it names."""
        files = (file for file in raw.files if file.origin is None)
        self.depot.write_record(self._manifest, {"form": _MANIFEST_FORM, "raw": raw.to_json(), **value}, files)

    def obtain_raw(self, raw: RawMonth) -> None:
        """Have the raw files on local disk.

        Raises:
            InputError: if one is neither here nor in the store. The user's own files are left to the inventory.
            LocalDiskError, StoreError, TransientError: see `Depot.obtain`.
        """
        for file in raw.files:
            if file.origin is not None:
                fetch_object(self.month, file)
            elif self.depot.is_own(file) and not self.depot.obtain(file) and self._is_needed(file):
                raise InputError(
                    f"{self.month}: its raw file {file.path} is gone{self.nowhere}",
                    remedy="Materialize era5/raw of this month first: files of a loaded month may have been removed "
                    "(ERA5_KEEP).",
                )

    def _is_needed(self, file: RawFile) -> bool:
        """Whether it cannot be left to the inventory to say what is wrong with the file that is here."""
        return self.depot.is_shared or not file.path.is_file()

    # --- flat ---------------------------------------------------------------------------------------------------------

    def same_flat(self, raw: RawMonth, flat_format: FlatFormat) -> FlatMonth | None:
        """The flat month of the same rows and format, with its files on local disk; None if there is no intact one."""
        if not self.depot.is_shared:
            flat = read_flat_month(self.folder, self.month)
            if flat is None or not _is_of(flat, raw, flat_format):
                return None
            return flat if all(sha256_of(file.path) == file.sha256 for file in flat.files) else None
        for facts in self._facts():
            if _is_of(facts, raw, flat_format) and self._obtain_files(facts) and has_own_columns(facts):
                return facts
        return None

    def _obtain_files(self, flat: FlatMonth) -> bool:
        return all(self.depot.obtain(file) for file in flat.files)

    def share_flat(self, flat: FlatMonth) -> None:
        """Write the flat files, the preview and then the facts to the store; remove the files that they replace there.

        Raises:
            StoreError, TransientError: see `ObjectStore`.
        """
        if not self.depot.is_shared:
            return
        earlier = self.stored_flat()
        preview = preview_file(self.folder, self.month)
        if preview.is_file():
            self.depot.share_picture(preview)
        elif has_preview(flat):
            self.depot.obtain_picture(preview)
        self.depot.share_facts(facts_file(self.folder, self.month), flat.to_json(), flat.files)
        kept = {(file.path, file.sha256) for file in flat.files}
        for file in () if earlier is None else earlier.files:
            if (file.path, file.sha256) not in kept:
                self.depot.supersede(file)

    def stored_flat(self) -> FlatMonth | None:
        """The flat month as its facts have it, whether or not its file is anywhere."""
        return next(self._facts(), None)

    def obtain_flat(self, flat: FlatMonth) -> bool:
        """Have the flat files on local disk, and the preview if there is one; False if one of the files is nowhere."""
        preview = preview_file(self.folder, self.month)
        if has_preview(flat) and not preview.is_file():
            self.depot.obtain_picture(preview)
        return self._obtain_files(flat) and has_own_columns(flat)

    def _facts(self) -> Iterator[FlatMonth]:
        """The facts in the store, then those on this machine."""
        path = facts_file(self.folder, self.month)
        values = [self.depot.read_record(path)]
        if self.depot.is_shared:
            values.append(read_json(path))
        for value in values:
            if (flat := read_facts(value, path)) is not None:
                yield flat

    @property
    def _manifest(self) -> Path:
        return self.depot.home / "raw" / f"{self.month}.json"

    @property
    def nowhere(self) -> str:
        """Where else a missing file is not, for messages."""
        return "" if self.depot.store is None else f", and not in the store {self.depot.store.shown}"


def _is_of(flat: FlatMonth, raw: RawMonth, flat_format: FlatFormat) -> bool:
    return flat.fingerprint == month_fingerprint(raw) and flat.format == flat_format
