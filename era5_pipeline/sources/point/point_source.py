"""The source `point`: one request brings all hours of a point since 1940; each month is a slice of them, in a file.

The answer is kept, and serves all months until one is wanted that it does not reach. A slice is the same to the byte as
long as its own values are, so that a newer answer does not make months load again that did not change.
Here: when to ask, and the slices. Not here: the request and its answer (`series_inquiry`, `sources.cds`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import BadFileError, NotYetAvailableError, SourceError
from era5_pipeline.model.grid import points_text
from era5_pipeline.model.hours import time_of
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import YOUNG_MONTHS
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.files import replacing
from era5_pipeline.runtime.store.depot import LOCAL, Depot
from era5_pipeline.sources.cds.client.retry_policy import RetrySettings
from era5_pipeline.sources.cds.request_files import RequestFiles
from era5_pipeline.sources.cds.service_request import ServiceRequest
from era5_pipeline.sources.month_lock import locked_month
from era5_pipeline.sources.point.series_inquiry import SeriesInquiry, offered_variables
from era5_pipeline.sources.source import RawFile, RawMonth, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.cds.note import Fetched
    from era5_pipeline.sources.point.point_series import PointSeries

# How long after an answer the service is not asked again for hours or values that it lacks.
_ASK_AGAIN_AFTER = timedelta(hours=12)


@dataclass(frozen=True)
class PointSource:
    """Months of the points of the request, in `home`.

    The user's key is needed only when there is something to ask. `refetch`: ask for each point again, once for all
    months of this object. A point whose series could not be had is not asked for again by this object. `say` is told of
    every wait. The store of `depot`, if there is one, has the series too.
    """

    home: Path
    request: Request
    refetch: bool = False
    retry_settings: RetrySettings = field(default_factory=RetrySettings)
    say: Callable[[str], None] = lambda _: None
    depot: Depot = LOCAL
    name: str = "point"
    _asked: set[Location] = field(default_factory=set)
    _failed: dict[Location, SourceError] = field(default_factory=dict)

    def fetch(self, month: Month) -> RawMonth:
        """See `Source`: cut the month out of the series that are kept, and ask for one that does not reach it.

        Raises:
            SourceError: if there is no key, the service refuses, or the time limit of the retry policy has passed.
            MonthFailedError: if the service fails repeatedly, or gives another point or fewer hours.
            NotYetAvailableError: if it has no data of the month yet.
            LocalDiskError: if the disk has no room.
        """
        return self._raw_month(month, [self._fetch_slice(month, place) for place in self.request.points])

    def _fetch_slice(self, month: Month, place: Location) -> RawFile:
        files = self._files(place)
        lasts = f"up to {spoken(self.retry_settings.patience_hours * 3600)}, by ERA5_CDS_PATIENCE_HOURS"
        with locked_month(files.inquiry.subject, files.lock, self.say, lasts):
            fetched, series = self._kept(files, place, month) or self._ask(files, place)
            content = _slice(month, fetched, series)
            if content is None:
                raise NotYetAvailableError(
                    f"{month} is not available yet: the latest hour of point {place} is "
                    f"{time_of(series.end_hour - 1):%Y-%m-%d %H:%M}",
                    remedy="Try again later: preliminary data (ERA5T) is published about five days after the fact.",
                )
            return self._written(month, files, content)

    def _kept(self, files: RequestFiles, place: Location, month: Month) -> tuple[Fetched, PointSeries] | None:
        """The series that is kept, None: it is to be asked for, because there is none or it lacks some of the month."""
        note = files.read_note()
        fetched = note.fetched
        if fetched is None or (self.refetch and place not in self._asked) or not files.obtain(fetched):
            return None
        try:
            series = self._inquiry(place).read(self.folder / fetched.name)
        except BadFileError:
            return None  # damaged since
        asked_lately = datetime.now(tz=UTC) - datetime.fromisoformat(fetched.fetched_at) < _ASK_AGAIN_AFTER
        lacks_some = not series.covers(month) or (fetched.short and is_young(month, fetched))
        if lacks_some and not asked_lately:
            return None
        files.share(note)
        return fetched, series

    def _ask(self, files: RequestFiles, place: Location) -> tuple[Fetched, PointSeries]:
        if (failed := self._failed.get(place)) is not None:
            raise type(failed)(failed.message, remedy=failed.remedy)
        again = self.refetch and place not in self._asked
        try:
            fetched = ServiceRequest(
                files, files.read_note(), refetch=again, retry_settings=self.retry_settings, say=self.say
            ).run()
        except SourceError as error:
            self._failed[place] = error
            raise
        self._asked.add(place)
        return fetched, self._inquiry(place).read(self.folder / fetched.name)

    def _written(self, month: Month, files: RequestFiles, content: bytes) -> RawFile:
        """The slice on disk; slices of the month with other values are removed."""
        file = self._slice_file(month, files, content)
        if not file.path.is_file() or file.path.read_bytes() != content:
            # A slice is cut out of the series again wherever it is lost.
            with replacing(file.path, is_durable=False) as temporary:
                temporary.write_bytes(content)
        for other in self.folder.glob(f"{month}-{files.inquiry.stem}-*.nc"):
            if other != file.path:
                other.unlink(missing_ok=True)
        return file

    def _slice_file(self, month: Month, files: RequestFiles, content: bytes) -> RawFile:
        sha256 = hashlib.sha256(content).hexdigest()
        return RawFile(self.folder / f"{month}-{files.inquiry.stem}-{sha256[:12]}.nc", sha256, len(content))

    def known(self, month: Month) -> RawMonth | None:
        """See `Source`: by the series that are kept."""
        if self.refetch:
            return None
        slices = []
        for place in self.request.points:
            files = self._files(place)
            kept = self._kept(files, place, month)
            content = None if kept is None else _slice(month, *kept)
            if content is None:
                return None
            slices.append(self._slice_file(month, files, content))
        return self._raw_month(month, slices)

    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """See `Source`: a young month that lacks something is asked for again, after half a day at the earliest."""
        if not is_complete:
            for place in self.request.points:
                files = self._files(place)
                note = files.read_note()
                if note.fetched is not None and not note.fetched.short and is_young(raw.month, note.fetched):
                    files.write_note(replace(note, fetched=replace(note.fetched, short=True)))

    def invalidate(self, raw: RawMonth) -> None:
        """See `Source`: the series are asked for again."""
        del raw
        for place in self.request.points:
            files = self._files(place)
            files.keep(replace(files.read_note(), fetched=None))

    @property
    def folder(self) -> Path:
        """Where series and slices are."""
        return self.home / "raw" / self.name

    def _files(self, place: Location) -> RequestFiles:
        return RequestFiles(self.folder, self._inquiry(place), self.depot)

    def _inquiry(self, place: Location) -> SeriesInquiry:
        return SeriesInquiry(place, self._variables, datetime.now(tz=UTC).date(), self.home)

    @property
    def _variables(self) -> tuple[Variable, ...]:
        return offered_variables(self.request)

    def _raw_month(self, month: Month, files: list[RawFile]) -> RawMonth:
        left_out = [variable.column for variable in self.request.wanted if variable not in self._variables]
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(files),
            variables=tuple(variable.column for variable in self._variables),
            warnings=tuple(f"the dataset of point series does not have {column}: it is NULL" for column in left_out),
            points=points_text(self.request.points),
        )


def is_young(month: Month, fetched: Fetched) -> bool:
    """Whether the month may have been preliminary when the series was fetched."""
    then = Month.of(datetime.fromisoformat(fetched.fetched_at))
    return month.number >= then.number - YOUNG_MONTHS


def _slice(month: Month, fetched: Fetched, series: PointSeries) -> bytes | None:
    return series.month_netcdf(month, preliminary=is_young(month, fetched))


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> PointSource:
    """Open the source as the settings describe it.

    Raises:
        UsageError: if the dataset does not have a variable that is named.
    """
    offered_variables(request)
    retries = RetrySettings(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
    return PointSource(settings.home, request, settings.refetch, retries, say, Depot.of(settings))
