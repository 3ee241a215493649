"""The source `cds`: a month as one request, sent once, waited for, fetched, verified, kept.

Here: the order of things, and what is kept between runs. Not here: the service (`service`), what goes wrong with it
(`trouble`), waiting (`patience`), bytes (`transfer`).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error, MonthFailedError, NotYetAvailableError, SourceError, disk_errors
from era5_pipeline.runtime.files import sync_folder
from era5_pipeline.sources.cds.answers import PassingError
from era5_pipeline.sources.cds.checksums import announced_number
from era5_pipeline.sources.cds.credentials import read_credentials
from era5_pipeline.sources.cds.download import WrongChecksumError, transfer
from era5_pipeline.sources.cds.note import Fetched, Note, read_note, write_note
from era5_pipeline.sources.cds.request import digest_of_inputs, fresh_time_order, month_inputs, variables_of
from era5_pipeline.sources.cds.retry_policy import Patience, PatienceOverError
from era5_pipeline.sources.cds.service import Job, Service, judging, was_refused
from era5_pipeline.sources.cds.validation import require_sound
from era5_pipeline.sources.month_lock import alone, alone_now
from era5_pipeline.sources.source import RawFile, RawMonth, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.sources.cds.download import Arrived
    from era5_pipeline.sources.cds.service import Asset

# Months are final two to three months after their end. Until then the service's cache of answers may hold a preliminary
# one: they are asked for with an order of hours of their own.
_RECENT = timedelta(days=125)
# The service's clock and ours.
_CLOCKS_APART = timedelta(minutes=5)
# A request that was just sent may be unknown for a moment; one that stays unknown is gone.
_UNKNOWN_MOST = 5
# What was made anew, and not fetched for longer, is older than who asks for it anew would think.
_FRESH = timedelta(days=1)


@dataclass(frozen=True)
class Manners:
    """How the service is asked: seconds, hours, and how one sleeps (see `Settings.cds_*`)."""

    poll_seconds: float = 60.0
    retry_seconds: float = 30.0
    patience_hours: float = 168.0
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class CdsSource:
    """Months of the Climate Data Store, kept in `folder`; `refetch`: made anew, though they are there.

    Needs the user's key only when something is to be asked. `say` is told of every wait, and why.
    """

    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    manners: Manners = field(default_factory=Manners)
    say: Callable[[str], None] = lambda _: None
    name: str = "cds"

    def fetch(self, month: Month) -> RawMonth:
        """See `Source`: what is here is given, what is under way is taken up, else it is asked for.

        Raises:
            SourceError: if there is no key, or the service refuses, or is busy for longer than the patience lasts.
            MonthFailedError: if it fails at this month, time and again.
            NotYetAvailableError: if it has nothing of the month yet.
            LocalDiskError: if there is no room.
        """
        with alone(month, self.folder / f"{self._stem(month)}.lock", self.say):
            note = read_note(self._note(month))
            if note.fetched is not None and not self.refetch and not note.fetched.short and self._is_here(note.fetched):
                return self._raw_month(month, note.fetched)
            return self._raw_month(month, _Fetching(self, month, note).run())

    def ask(self, month: Month) -> None:
        """Send the request, unless the month is here or under way: it queues while another month is waited for.

        Whatever stands in the way is met again when the month is fetched, and dealt with then.
        """
        with suppress(Era5Error, PassingError), alone_now(month, self.folder / f"{self._stem(month)}.lock") as is_alone:
            if not is_alone:
                return
            note = read_note(self._note(month))
            is_here = note.fetched is not None and self._is_here(note.fetched) and not note.fetched.short
            if note.job is None and (self.refetch or not is_here):
                _Fetching(self, month, note).ask()

    def known(self, month: Month) -> RawMonth | None:
        """See `Source`: told by the note, so the file itself may have been removed."""
        fetched = read_note(self._note(month)).fetched
        return None if self.refetch or fetched is None or fetched.short else self._raw_month(month, fetched)

    def judged(self, raw: RawMonth, *, whole: bool) -> None:
        """See `Source`: a short month is noted, and asked for anew the next time."""
        note = read_note(self._note(raw.month))
        if note.fetched is not None and note.fetched.sha256 == raw.files[0].sha256 and note.fetched.short is whole:
            self._write(raw.month, replace(note, fetched=replace(note.fetched, short=not whole)))

    def distrust(self, raw: RawMonth) -> None:
        """See `Source`."""
        self.judged(raw, whole=False)

    def inputs(self, month: Month, *, time_order: tuple[str, ...] | None = None) -> dict[str, Any]:
        """What is sent for the month."""
        return month_inputs(month, self.request, time_order=time_order)

    def part(self, month: Month, job: str) -> Path:
        """Where the answer to a request is put until it is whole."""
        return self.folder / f"{self._stem(month)}.{job}.part"

    def keep(self, month: Month, note: Note) -> None:
        """Write the note, and remove files of the month that it does not speak of."""
        self._write(month, note)
        kept = {note.fetched.name if note.fetched else None, self.part(month, note.job).name if note.job else None}
        for path in self.folder.glob(f"{self._stem(month)}*"):
            if path.suffix in (".part", ".nc", ".zip") and path.name not in kept:
                path.unlink(missing_ok=True)

    def place(self, month: Month, part: Path, sha256: str, suffix: str) -> str:
        """Give a whole file its name, for good."""
        name = f"{self._stem(month)}-{sha256[:12]}{suffix}"
        with disk_errors(f"{month}: keeping the download", part):
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(self.folder / name)
            sync_folder(self.folder)
        return name

    def _is_here(self, fetched: Fetched) -> bool:
        path = self.folder / fetched.name
        return path.is_file() and path.stat().st_size == fetched.bytes

    def _raw_month(self, month: Month, fetched: Fetched) -> RawMonth:
        return RawMonth(
            month=month,
            source=self.name,
            files=(RawFile(self.folder / fetched.name, fetched.sha256, fetched.bytes),),
            variables=tuple(variable.column for variable in variables_of(self.request)),
            area=self.request.area_text,
        )

    def _write(self, month: Month, note: Note) -> None:
        write_note(self._note(month), note, self.inputs(month, time_order=note.time_order))

    def _note(self, month: Month) -> Path:
        return self.folder / f"{self._stem(month)}.json"

    def _stem(self, month: Month) -> str:
        return f"{month}-{digest_of_inputs(self.inputs(month))[:12]}"


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> CdsSource:
    """Open the source as the settings describe it."""
    manners = Manners(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
    folder = settings.home / "raw" / CdsSource.name
    return CdsSource(folder, request, refetch=settings.refetch, manners=manners, say=say)


class _Fetching:
    """One month on its way: `note` is what is known by now, and always written before the next step is taken."""

    def __init__(self, source: CdsSource, month: Month, note: Note) -> None:
        self._source = source
        self._month = month
        # A request that may be answered from the cache is no answer to --refetch.
        self._note = note.forgotten() if source.refetch and not note.is_fresh else note
        manners = source.manners
        self._patience = Patience(
            month,
            first_seconds=manners.retry_seconds,
            look_seconds=manners.poll_seconds,
            limit_seconds=manners.patience_hours * 3600.0,
            say=source.say,
            sleep=manners.sleep,
        )
        self._service = Service(read_credentials(), month, source.say)
        self._job_at_hand: Job | None = None
        # The request of an earlier run; those whose files this one began to fetch; files that it refused.
        self._taken_up = self._note.job
        self._begun: set[str] = set()
        self._refused: set[str] = set()
        self._unknown = 0
        recent = datetime.now(tz=UTC) - month.end < _RECENT
        self._must_be_fresh = source.refetch or recent or note.fetched is not None

    def ask(self) -> None:
        """See `CdsSource.ask`."""
        self._job()

    def run(self) -> Fetched:
        started, before = time.monotonic(), self._note
        try:
            fetched = self._patience.insist(self._once)
        except (NotYetAvailableError, MonthFailedError):
            self._forget()
            raise
        except SourceError:
            if before.job is not None and self._note.job is None:
                # Nobody can be asked, with this key: whoever has another may take up what was under way.
                self._keep(before)
            raise
        fetched = replace(fetched, seconds=round(time.monotonic() - started, 3))
        self._source.keep(self._month, self._note.arrived(fetched))
        return fetched

    def _once(self) -> Fetched:
        """From where the note says to the whole file; after trouble that passes it is called again."""
        try:
            job = self._job()
            self._patience.until(lambda: self._look(job), job.describe)
            part = self._source.part(self._month, job.id)
            asset, arrived = self._receive(job, part)
            suffix = require_sound(self._month, part)
        except WrongChecksumError as error:
            self._refused.add(error.sha256)
            raise
        except PassingError as error:
            if error.kind == "unknown job":
                self._unknown += 1
            if error.anew or self._unknown >= _UNKNOWN_MOST:
                self._unknown = 0
                self._forget()
                # What came to nothing must not come from the service's cache again.
                self._must_be_fresh = self._must_be_fresh or error.kind == "damaged"
            raise
        except SourceError as error:
            is_taken_up = self._taken_up is not None and self._note.job == self._taken_up
            if isinstance(error, MonthFailedError | PatienceOverError) or not is_taken_up:
                raise
            # It may be another account's by now, or gone: a new one is not.
            self._forget()
            reason = f"the request {self._taken_up} of an earlier run cannot be taken up ({error.message})"
            raise PassingError(reason, kind="taken up", after_seconds=0.0, anew=True, most=2) from error
        if arrived.has_checksum is False:
            self._source.say(
                f"{self._month}: the file came twice with the same bytes, is whole, and has another checksum than "
                f"announced ({asset.checksum}): it is kept"
            )
        return Fetched(
            name=self._source.place(self._month, part, arrived.sha256, suffix),
            sha256=arrived.sha256,
            bytes=asset.bytes,
            checksum=asset.checksum if arrived.has_checksum else None,
            job=job.id,
            fetched_at=_now(),
            seconds=0.0,
        )

    def _receive(self, job: Job, part: Path) -> tuple[Asset, Arrived]:
        """The answer, and what is known of its bytes; they are in `part`."""
        held = _size(part)
        try:
            with judging(self._month):
                asset = job.asset()
                if announced_number(asset.checksum) is None and job.id not in self._begun:
                    # What a machine that lost its power had written can only be told by a checksum.
                    part.unlink(missing_ok=True)
                self._begun.add(job.id)
                refused = frozenset(self._refused)
                return asset, transfer(self._month, asset, part, verify=self._service.verify, came_before=refused)
        except PassingError as error:
            # Each time the look at the job before it goes well: that must not make these waits short again, bytes may.
            error.kind = f"{error.kind} of results"
            if _size(part) > held:
                self._patience.went_well(error.kind)
            raise

    def _look(self, job: Job) -> bool:
        ready = job.is_ready()
        self._unknown = 0
        self._patience.went_well()
        return ready

    def _job(self) -> Job:
        """The request that is under way, or a new one."""
        if self._note.job is None and self._note.sending_at is not None:
            self._find_what_was_sent(self._note.sending_at)
        if self._note.job is not None:
            if self._job_at_hand is None or self._job_at_hand.id != self._note.job:
                self._job_at_hand = self._service.take_up(self._note.job)
                self._source.say(f"{self._month}: taking up request {self._note.job}")
            if not self._is_stale(self._job_at_hand):
                return self._job_at_hand
            self._source.say(f"{self._month}: its answer was made long ago; asking anew")
            self._must_be_fresh = True
            self._forget()
        job = self._send(fresh_time_order() if self._must_be_fresh else None)
        self._keep(self._note.sent(job.id))
        self._source.say(f"{self._month}: sent as request {job.id}")
        self._job_at_hand = job
        return job

    def _send(self, time_order: tuple[str, ...] | None) -> Job:
        self._keep(self._note.sending(_now(), time_order=time_order))
        try:
            return self._service.submit(self._source.inputs(self._month, time_order=time_order))
        except Exception as error:
            if was_refused(error):
                self._keep(self._note.not_sent())
            raise

    def _find_what_was_sent(self, sending_at: str) -> None:
        """A request whose number never came back may have arrived: sent again, it would be made twice."""
        inputs = self._source.inputs(self._month, time_order=self._note.time_order)
        sent_at = datetime.fromisoformat(sending_at)
        found = self._service.find(inputs, sent_at, _CLOCKS_APART, self._note.dealt_with)
        self._keep(self._note.forgotten() if found is None else self._note.sent(found))

    def _is_stale(self, job: Job) -> bool:
        """Whether an earlier run had it made anew, and so long ago that it may be out of date."""
        if job.id != self._taken_up or not self._note.is_fresh:
            return False
        answered_at = job.answered_at()
        return answered_at is not None and datetime.now(tz=UTC) - answered_at > _FRESH

    def _forget(self) -> None:
        self._keep(self._note.forgotten())

    def _keep(self, note: Note) -> None:
        self._note = note
        self._source.keep(self._month, note)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
