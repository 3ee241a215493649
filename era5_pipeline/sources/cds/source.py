"""The source `cds`: each month as one request to the Climate Data Store; the result is kept in a folder.

A month with more variables than one request allows is split into several requests. Months of a small area may be
requested together; the result is cut into monthly files at once, so nothing else needs to know. A month with sums since
00 UTC (ERA5-Land) has one more request and file: the hour before it. This module decides whether a request is needed;
for the request see `service_request`, for its files `note`.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from era5_pipeline.model.errors import BadFileError, Era5Error, MonthFailedError, NotYetAvailableError, disk_errors
from era5_pipeline.model.times import spoken
from era5_pipeline.netcdf.grib import ec_codes
from era5_pipeline.netcdf.month_cut import cut_months
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.files import sha256_of, temporary_folder
from era5_pipeline.sources.cds.answers import RequestRefusedError
from era5_pipeline.sources.cds.note import Fetched, HourBeforeQuery, MonthsQuery, RequestFiles, State
from era5_pipeline.sources.cds.request import months_together, portions_of, summed_before
from era5_pipeline.sources.cds.retry_policy import RetryableError, RetrySettings
from era5_pipeline.sources.cds.service_request import ServiceRequest
from era5_pipeline.sources.source import (
    RawFile,
    RawMonth,
    Request,
    Source,
    locked_month,
    require_begun,
    try_lock_month,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.sources.cds.note import Note


@dataclass(frozen=True)
class CdsSource(Source):
    """Months of the Climate Data Store, kept in `folder`.

    The user's key is needed only if a request is. `refetch`: fetch months again that are in the folder. `say` reports
    every wait with its reason. If a store is set, `file_store` has the month's note and file too: a run on another
    machine takes up the request, and does not download again.
    """

    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    retry_settings: RetrySettings = field(default_factory=RetrySettings)
    say: Callable[[str], None] = lambda _: None
    file_store: FileStore = LOCAL
    name: str = "cds"

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        """Return the file in the folder, take up the request under way, or send one: for its group, if all want it."""
        require_begun(self.request.dataset, month)
        self._fetch_group(month, together)
        return self._raw_month(month, [self._fetch(month, files) for files in self._portions(month)])

    def _fetch(self, month: Month, files: RequestFiles) -> Fetched:
        """Fetch one request's share of the month's variables."""
        with locked_month(month, files.lock, self.say, self._lasts):
            note = files.read_note()
            fetched = note.fetched
            if fetched is not None and not fetched.short and not self.refetch and files.obtain(fetched):
                files.share(note)
                return fetched
            return self._request(files, note).run()

    @override
    def request_groups(self, months: Sequence[Month]) -> Iterator[tuple[Month, ...]]:
        left = tuple(months)
        while left:
            group = self._group_of(left[0])
            if left[: len(group)] != group or (len(group) > 1 and not self._can_go_together(group)):
                group = left[:1]
            left = left[len(group) :]
            yield group

    @override
    def request_ahead(self, group: tuple[Month, ...]) -> None:
        """Send the first request of the group's months, so that it queues while other months are fetched.

        No-op if the months are in the folder, under way, or locked by another run.
        """
        files = self._files_of(group, self.request) if len(group) > 1 else self._portions(group[0])[0]
        with suppress(Era5Error, RetryableError), try_lock_month(files.query.subject, files.lock) as is_locked:
            if is_locked and self._needs_request(group, files, note := files.read_note()):
                self._request(files, note).send()

    def _needs_request(self, group: tuple[Month, ...], files: RequestFiles, note: Note) -> bool:
        """Return True if the months are not in the folder, nor under way: a month alone also with its group."""
        if len(group) > 1:
            return note.state is State.NOTHING_ASKED and self._can_go_together(group)
        with_others = self._group_of(group[0])
        if note.job is not None or (len(with_others) > 1 and self._is_sent(with_others)):
            return False
        return self.refetch or note.fetched is None or note.fetched.short or not files.has(note.fetched)

    def _group_of(self, month: Month) -> tuple[Month, ...]:
        """The months that one request can cover with this one, if all are wanted, ascending; else the month alone."""
        return (month,) if self.refetch else months_together(month, self.request, datetime.now(tz=UTC))

    def _can_go_together(self, months: tuple[Month, ...]) -> bool:
        """Return True if the months were requested together, or none was requested alone or is in the folder."""
        return self._is_sent(months) or not any(self._is_begun(month) for month in months)

    def _is_sent(self, months: tuple[Month, ...]) -> bool:
        """Return True if a joint request for these months exists, or its result, not cut yet."""
        return self._files_of(months, self.request).read_note().state is not State.NOTHING_ASKED

    def _is_begun(self, month: Month) -> bool:
        """Return True if the month was requested alone: its request is under way, or its file exists, usable or not."""
        files = self._files_of((month,), self.request)
        note = files.read_note()
        if note.state is State.FETCHED and note.fetched is not None:
            return note.fetched.short or files.has(note.fetched)
        return note.state is not State.NOTHING_ASKED

    def _fetch_group(self, month: Month, together: Collection[Month]) -> None:
        """Take up the joint request for this month's group, or send it if all are wanted `together`; cut its result.

        If it fails, or its result cannot be cut, the month gets its own request. A rejected key or licence would be
        rejected for the month alone too, and is an error.
        """
        months = self._group_of(month)
        if len(months) == 1:
            return
        files = self._files_of(months, self.request)
        before = files.read_note()
        if before.state is State.NOTHING_ASKED and not (set(months) <= set(together) and self._can_go_together(months)):
            return
        # An existing result is always cut: a run was killed before removing it.
        if before.state is not State.FETCHED and self._is_begun(month):
            return
        subject = str(files.query.subject)
        with locked_month(subject, files.lock, self.say, self._lasts):
            note = files.read_note()
            if note.state is State.NOTHING_ASKED and (note != before or not self._can_go_together(months)):
                return  # another run has finished or abandoned it
            try:
                fetched = note.fetched if note.state is State.FETCHED else None
                if fetched is None or not files.obtain(fetched):
                    fetched = self._request(files, note).run()
                self._cut(files.file_of(fetched), fetched, months)
            except (MonthFailedError, NotYetAvailableError, RequestRefusedError, BadFileError) as error:
                reason = error.message.removeprefix(f"{subject}: ")
                self.say(f"{subject}: one request for them failed ({reason}): each month is requested alone")
            note = files.read_note()
            files.keep(replace(note.dropped(), fetched=None, given_up=note.job or _job_of(note)))
            if note.fetched is not None:
                files.discard(note.fetched)

    def _cut(self, file: RawFile, fetched: Fetched, months: tuple[Month, ...]) -> None:
        """Cut the result into monthly files; months that another run is fetching are left to it."""
        lacking = [month for month in months if not self._is_begun(month)]
        with disk_errors(f"{file.path.name}: cutting it into months", self.folder), ExitStack() as stack:
            scratch = stack.enter_context(temporary_folder(self.folder, "cut-"))
            # Cut all of them first: if one fails, no month gets a file.
            for month, path in list(cut_months(file.path, lacking, scratch)):
                self._keep_cut(month, path, fetched, len(months))

    def _keep_cut(self, month: Month, path: Path, fetched: Fetched, count: int) -> None:
        files = self._files_of((month,), self.request)
        with try_lock_month(month, files.lock) as is_locked:
            if not is_locked or self._is_begun(month):
                return
            sha256, size = sha256_of(path), path.stat().st_size
            name = files.place(path, sha256, path.suffix)
            seconds = round(fetched.seconds / count, 3)
            own = replace(fetched, name=name, sha256=sha256, bytes=size, checksum=None, seconds=seconds)
            files.keep(files.read_note().received(own))

    @property
    @override
    def dataset(self) -> Dataset:
        return self.request.dataset

    @override
    def known(self, month: Month) -> RawMonth | None:
        """Return what the note in its folder records of the month; the data file may be gone."""
        portions = [files.read_note().fetched for files in self._portions(month)]
        fetched = [one for one in portions if one is not None and not one.short]
        return self._raw_month(month, fetched) if len(fetched) == len(portions) and not self.refetch else None

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the month was complete; otherwise it is requested again next time."""
        for files, file in zip(self._portions(raw.month), raw.files, strict=False):
            note = files.read_note()
            fetched = note.fetched
            if fetched is not None and fetched.sha256 == file.sha256 and fetched.short is is_complete:
                files.write_note(replace(note, fetched=replace(fetched, short=not is_complete)))

    def _request(self, files: RequestFiles, note: Note) -> ServiceRequest:
        return ServiceRequest(files, note, refetch=self.refetch, retry_settings=self.retry_settings, say=self.say)

    def _raw_month(self, month: Month, fetched: Sequence[Fetched]) -> RawMonth:
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(RawFile(self.folder / one.name, one.sha256, one.bytes) for one in fetched),
            variables=tuple(variable.column for variable in self.request.wanted),
            area=self.request.area_text,
            dataset=self.request.dataset,
        )

    def _portions(self, month: Month) -> tuple[RequestFiles, ...]:
        """The files of each of the month's requests: one, unless the variables exceed a request's limit.

        The hour before the month is the last, if it is needed. It is requested also where the month before is in the
        folder: otherwise the month would have other files, and be loaded again, whenever that one comes or goes.
        """
        of_month = tuple(self._files_of((month,), portion) for portion in portions_of(self.request))
        if (sums := summed_before(month, self.request)) is None:
            return of_month
        return (*of_month, RequestFiles(self.folder, HourBeforeQuery((month,), sums), self.file_store))

    def _files_of(self, months: tuple[Month, ...], request: Request) -> RequestFiles:
        return RequestFiles(self.folder, MonthsQuery(months, request), self.file_store)

    @property
    def _lasts(self) -> str:
        """How long another run may hold a lock, for messages."""
        longest = spoken(self.retry_settings.patience_hours * 3600)
        return f"up to {longest} of waiting for the service, by ERA5_CDS_PATIENCE_HOURS"


def _job_of(note: Note) -> str | None:
    """The last finished request of the note."""
    return note.given_up if note.fetched is None else note.fetched.job


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> CdsSource:
    """Open the source described by the settings."""
    if request.data_format == "grib":
        ec_codes()
    retries = RetrySettings(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
    folder = settings.files_home / "raw" / CdsSource.name
    return CdsSource(
        folder, request, refetch=settings.refetch, retry_settings=retries, say=say, file_store=FileStore.of(settings)
    )
