"""The files of one month in the source's folder: note, lock, partial download and data file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.runtime.files import sync_folder
from era5_pipeline.sources.cds.note import read_note, write_note
from era5_pipeline.sources.cds.request import digest_of_inputs, month_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.cds.note import Fetched, Note
    from era5_pipeline.sources.source import Request


@dataclass(frozen=True)
class MonthFiles:
    """The files of `month`; their names begin with the month and a digest of the request."""

    folder: Path
    month: Month
    request: Request

    @property
    def lock(self) -> Path:
        """The file that is locked while the month is being fetched."""
        return self.folder / f"{self._stem}.lock"

    def inputs(self, *, time_order: tuple[str, ...] | None = None) -> dict[str, Any]:
        """The inputs that are sent for the month."""
        return month_inputs(self.month, self.request, time_order=time_order)

    def read_note(self) -> Note:
        """Read the note; an empty one if there is none."""
        return read_note(self._note)

    def write_note(self, note: Note) -> None:
        """Write the note."""
        write_note(self._note, note, self.inputs(time_order=note.time_order))

    def keep(self, note: Note) -> None:
        """Write the note, and remove files of the month that it does not name."""
        self.write_note(note)
        kept = {note.fetched.name if note.fetched else None, self.part(note.job).name if note.job else None}
        for path in self.folder.glob(f"{self._stem}*"):
            if path.suffix in (".part", ".nc", ".zip") and path.name not in kept:
                path.unlink(missing_ok=True)

    def part(self, job: str) -> Path:
        """The file that the answer to a request is downloaded to."""
        return self.folder / f"{self._stem}.{job}.part"

    def place(self, part: Path, sha256: str, suffix: str) -> str:
        """Sync a complete download to disk and give it its final name.

        Raises:
            LocalDiskError: if that fails.
        """
        name = f"{self._stem}-{sha256[:12]}{suffix}"
        with disk_errors(f"{self.month}: keeping the download", part):
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(self.folder / name)
            sync_folder(self.folder)
        return name

    def has(self, fetched: Fetched) -> bool:
        """Whether the file is on disk with its full size."""
        path = self.folder / fetched.name
        return path.is_file() and path.stat().st_size == fetched.bytes

    @property
    def _note(self) -> Path:
        return self.folder / f"{self._stem}.json"

    @property
    def _stem(self) -> str:
        return f"{self.month}-{digest_of_inputs(self.inputs())[:12]}"
