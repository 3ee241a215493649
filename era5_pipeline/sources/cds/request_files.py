"""The files of one inquiry in the source's folder: note, lock, partial download and data file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.runtime.files import sync_folder
from era5_pipeline.runtime.store.depot import LOCAL
from era5_pipeline.sources.cds.note import read_note, write_note
from era5_pipeline.sources.source import RawFile

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.runtime.store.depot import Depot
    from era5_pipeline.sources.cds.inquiry import Inquiry
    from era5_pipeline.sources.cds.note import Fetched, Note


@dataclass(frozen=True)
class RequestFiles:
    """The files of `inquiry`; their names begin with its stem.

    `depot` has their durable copies, if there is a store.
    """

    folder: Path
    inquiry: Inquiry
    depot: Depot = LOCAL

    @property
    def lock(self) -> Path:
        """The file that is locked while the answer is being fetched."""
        return self.folder / f"{self._stem}.lock"

    def read_note(self) -> Note:
        """Read the note; an empty one if there is none."""
        note = read_note(self._note, self.depot)
        if self.depot.is_shared and note.job is not None:
            own = read_note(self._note)
            if own.fetched is not None and own.fetched.job == note.job:
                return own  # the answer was received, but its note could not be written to the store
        return note

    def write_note(self, note: Note) -> None:
        """Write the note; with a store, after the file that it names."""
        files = () if note.fetched is None else (self.file_of(note.fetched),)
        write_note(self._note, note, self.inquiry.inputs(note.variant), self.depot, files)

    def share(self, note: Note) -> None:
        """Write the note to the store, if that has another one; no-op without a store."""
        if self.depot.is_shared:
            self.write_note(note)

    def file_of(self, fetched: Fetched) -> RawFile:
        """The data file, whether or not it is on local disk."""
        return RawFile(self.folder / fetched.name, fetched.sha256, fetched.bytes)

    def keep(self, note: Note) -> None:
        """Write the note, and remove files of the inquiry that it does not name."""
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
        with disk_errors(f"{self.inquiry.subject}: keeping the download", part):
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(self.folder / name)
            sync_folder(self.folder)
        return name

    def has(self, fetched: Fetched) -> bool:
        """Whether the file is on disk or in the store, with its full size."""
        return self.depot.has(self.file_of(fetched))

    def obtain(self, fetched: Fetched) -> bool:
        """Have the file on disk, from the store if need be; False if it is in neither."""
        return self.depot.obtain(self.file_of(fetched))

    def discard(self, fetched: Fetched) -> None:
        """Remove a file that a newer one has replaced."""
        self.depot.discard(self.file_of(fetched))

    @property
    def _note(self) -> Path:
        return self.folder / f"{self._stem}.json"

    @property
    def _stem(self) -> str:
        return self.inquiry.stem
