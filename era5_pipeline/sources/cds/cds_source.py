"""The source `cds`: each month as one request to the Climate Data Store; its answer is kept in a folder.

A month of more variables than one request may have is divided into several.
Here: whether there is anything to ask. Not here: the request (`service_request`), its files (`request_files`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.store.depot import LOCAL, Depot
from era5_pipeline.sources.cds.client.retry_policy import RetryableError, RetrySettings
from era5_pipeline.sources.cds.inquiry import MonthInquiry
from era5_pipeline.sources.cds.request import portions_of
from era5_pipeline.sources.cds.request_files import RequestFiles
from era5_pipeline.sources.cds.service_request import ServiceRequest
from era5_pipeline.sources.month_lock import locked_month, try_lock_month
from era5_pipeline.sources.source import RawFile, RawMonth, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.sources.cds.note import Fetched, Note


@dataclass(frozen=True)
class CdsSource:
    """Months of the Climate Data Store, kept in `folder`.

    The user's key is needed only when there is something to ask. `refetch`: fetch months again that are in the folder.
    `say` reports every wait, with its reason. The store of `depot`, if there is one, has the month's note and file
    too: a run on another machine takes up the request, and does not download again.
    """

    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    retry_settings: RetrySettings = field(default_factory=RetrySettings)
    say: Callable[[str], None] = lambda _: None
    depot: Depot = LOCAL
    name: str = "cds"

    def fetch(self, month: Month) -> RawMonth:
        """See `Source`: return the file in the folder, take up the request under way, or send one.

        Raises:
            SourceError: if there is no key, the service refuses, or the time limit of the retry policy has passed.
            MonthFailedError: if the service fails repeatedly at this month.
            NotYetAvailableError: if it has no data of the month yet.
            LocalDiskError: if the disk has no room.
        """
        return self._raw_month(month, [self._fetch(month, files) for files in self._portions(month)])

    def _fetch(self, month: Month, files: RequestFiles) -> Fetched:
        """Fetch one portion of the month's variables."""
        longest = spoken(self.retry_settings.patience_hours * 3600)
        lasts = f"up to {longest} of waiting for the service, by ERA5_CDS_PATIENCE_HOURS"
        with locked_month(month, files.lock, self.say, lasts):
            note = files.read_note()
            fetched = note.fetched
            if fetched is not None and not fetched.short and not self.refetch and files.obtain(fetched):
                files.share(note)
                return fetched
            return self._request(files, note).run()

    def ask(self, month: Month) -> None:
        """Send the month's first request so that it queues while another month is fetched; do not wait for it.

        Does nothing if the month is in the folder, under way, or locked by another run. Errors are left to `fetch`,
        which meets them again.
        """
        files = self._portions(month)[0]
        with suppress(Era5Error, RetryableError), try_lock_month(month, files.lock) as is_locked:
            if not is_locked:
                return
            note = files.read_note()
            is_here = note.fetched is not None and not note.fetched.short and files.has(note.fetched)
            if note.job is None and (self.refetch or not is_here):
                self._request(files, note).send()

    def known(self, month: Month) -> RawMonth | None:
        """See `Source`: by the note alone, so the data file may have been removed."""
        portions = [files.read_note().fetched for files in self._portions(month)]
        fetched = [one for one in portions if one is not None and not one.short]
        return self._raw_month(month, fetched) if len(fetched) == len(portions) and not self.refetch else None

    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """See `Source`: an incomplete month is asked for again the next time."""
        for files, file in zip(self._portions(raw.month), raw.files, strict=False):
            note = files.read_note()
            fetched = note.fetched
            if fetched is not None and fetched.sha256 == file.sha256 and fetched.short is is_complete:
                files.write_note(replace(note, fetched=replace(fetched, short=not is_complete)))

    def invalidate(self, raw: RawMonth) -> None:
        """See `Source`."""
        self.record_completeness(raw, is_complete=False)

    def _request(self, files: RequestFiles, note: Note) -> ServiceRequest:
        return ServiceRequest(files, note, refetch=self.refetch, retry_settings=self.retry_settings, say=self.say)

    def _raw_month(self, month: Month, fetched: Sequence[Fetched]) -> RawMonth:
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(RawFile(self.folder / one.name, one.sha256, one.bytes) for one in fetched),
            variables=tuple(variable.column for variable in self.request.wanted),
            area=self.request.area_text,
        )

    def _portions(self, month: Month) -> tuple[RequestFiles, ...]:
        """The files of each of the month's requests: one, unless there are more variables than one may have."""
        portions = portions_of(self.request)
        return tuple(RequestFiles(self.folder, MonthInquiry(month, portion), self.depot) for portion in portions)


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> CdsSource:
    """Open the source as the settings describe it."""
    retries = RetrySettings(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
    folder = settings.home / "raw" / CdsSource.name
    return CdsSource(
        folder, request, refetch=settings.refetch, retry_settings=retries, say=say, depot=Depot.of(settings)
    )
