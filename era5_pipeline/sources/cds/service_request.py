"""One request to the service: its states and transitions.

The state is that of its note (`note`), written before each next step, so that a killed run can be continued. A query
has one request at a time, sent only in the states `nothing asked` and `fetched`.

    state          event                                                            next state
    -------------  ---------------------------------------------------------------  ---------------------------------
    nothing asked  about to send                                                    sending
    sending        answered with a job id                                           queued
                   refused (status 4xx, not 408)                                    nothing asked; error or retry
                   answer lost (408, 5xx, connection, killed): found among the      queued
                   user's newest jobs
                   answer lost, and not found there                                 nothing asked; send
    queued         file received and valid                                          fetched
                   waiting, or an error of the moment (status, connection,          queued; retry
                   not ready, results cut off)
                   wrong size or checksum, cut off at the same byte                 queued; download again
                   that again, `_DISTRUSTED_AFTER` times in a row                   nothing asked; new fresh request
                   request rejected, failed, ended, dismissed                       nothing asked; new request
                   results expired or gone                                          nothing asked; new fresh request
                   address of the results invalid                                   nothing asked; new request
                   file damaged                                                     nothing asked; new fresh request
                   job unknown `_MAX_UNKNOWN` times in a row                        nothing asked; new request
                   stale: a fresh retrieval of an earlier run, answered more        nothing asked; new fresh request
                   than `_STALE_AFTER` ago
                   taken up from an earlier run, and the service refuses it         nothing asked; new request
                   not available yet, or failed at this one for good                nothing asked; error
                   retries exhausted, any other error                               queued; error: the next run takes
                                                                                    it up
    fetched        as nothing asked; the file stays until a newer one is received

If a request of an earlier run was dropped, no new one was sent, and the error concerns the service as a whole (such as
a wrong key), the earlier note is restored: a run with another key may take its request up.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import MonthFailedError, NotYetAvailableError, SourceError
from era5_pipeline.sources.cds.download import (
    MAX_MISMATCHES,
    MAX_STALLS,
    WrongChecksumError,
    announced_number,
    download,
)
from era5_pipeline.sources.cds.note import Fetched, State
from era5_pipeline.sources.cds.retry_policy import RetriesExhaustedError, RetryableError, RetryPolicy
from era5_pipeline.sources.cds.service import CdsService, Job, read_credentials, translated_errors, was_refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.sources.cds.download import ReceivedFile
    from era5_pipeline.sources.cds.note import Note, RequestFiles
    from era5_pipeline.sources.cds.retry_policy import RetrySettings
    from era5_pipeline.sources.cds.service import Asset

# The clocks of the service's machines may differ by this much.
_CLOCK_DIFFERENCE = timedelta(minutes=5)
# A new request may be unknown for a moment; one that stays unknown is gone.
_MAX_UNKNOWN = 5
# A result that stays damaged is damaged in the service's store, and one that is gone may still be listed in its cache:
# either would come from there again.
_DISTRUSTED_AFTER = {
    **dict.fromkeys(("damaged", "expired of results", "gone of results"), 1),
    **dict.fromkeys(("size of results", "checksum of results", "range of results"), MAX_MISMATCHES // 2),
    "stall of results": MAX_STALLS // 2,
}
# A fresh retrieval completed longer ago is older than the user asking for one expects.
_STALE_AFTER = timedelta(days=1)


class ServiceRequest:
    """The request of a query, continued from the state of its note."""

    def __init__(
        self,
        files: RequestFiles,
        note: Note,
        *,
        refetch: bool,
        retry_settings: RetrySettings,
        say: Callable[[str], None],
    ) -> None:
        self._files = files
        self._query = files.query
        self._subject = self._query.subject
        self._say = say
        # A request that the service may answer from its cache does not satisfy --refetch.
        self._note = note.dropped() if refetch and not note.is_fresh else note
        self._retry_policy = RetryPolicy(self._subject, retry_settings, say)
        self._service = CdsService(read_credentials(), self._subject, say, self._query.dataset)
        self._current_job: Job | None = None
        self._job_of_earlier_run = self._note.job
        # Jobs whose files this run began to download; SHA-256 of files refused for their checksum.
        self._begun: set[str] = set()
        self._refused: set[str] = set()
        self._unknown_in_a_row = 0
        self._mismatches: Counter[str] = Counter()
        may_be_old = self._query.must_be_fresh(datetime.now(tz=UTC))
        self._must_be_fresh = refetch or may_be_old or note.is_fresh or note.fetched is not None

    def send(self) -> None:
        """Send the request, or take up the one under way; see `CdsSource.ask`."""
        self._job()

    def run(self) -> Fetched:
        """Continue from the note's state to `fetched`."""
        started, before = time.monotonic(), self._note
        try:
            fetched = self._retry_policy.retry(self._attempt, self._next_run)
        except (NotYetAvailableError, MonthFailedError):
            self._drop()
            raise
        except SourceError:
            if before.job is not None and self._note.job is None:
                self._keep(before)
            raise
        fetched = replace(fetched, seconds=round(time.monotonic() - started, 3))
        self._keep(self._note.received(fetched))
        if before.fetched is not None and before.fetched.sha256 != fetched.sha256:
            self._files.discard(before.fetched)
        return fetched

    def _attempt(self) -> Fetched:
        """Continue from the note's state to a received, valid file; called again after retryable errors."""
        try:
            job = self._job()
            self._retry_policy.wait_until(lambda: self._is_ready(job), job.describe)
            return self._receive(job)
        except RetryableError as error:
            self._apply(error)
            raise
        except SourceError as error:
            is_of_earlier_run = self._job_of_earlier_run is not None and self._note.job == self._job_of_earlier_run
            if isinstance(error, MonthFailedError | RetriesExhaustedError) or not is_of_earlier_run:
                raise
            # The job may belong to another account, or be gone; a new request avoids both.
            self._drop()
            reason = f"request {self._job_of_earlier_run} of an earlier run cannot be resumed ({error.message})"
            raise RetryableError(
                reason, kind="taken up", after_seconds=0.0, needs_new_request=True, max_in_a_row=2
            ) from error

    def _next_run(self) -> str:
        """Describe in a few words how the next run continues the request."""
        job = self._note.job
        if job is not None:
            held = _size(self._files.part(job))
            return f"it resumes the request{', and keeps the bytes received so far' if held else ''}"
        fresh = ", which the service cannot answer from its cache" if self._must_be_fresh else ""
        return f"a new request will be sent{fresh}"

    def _apply(self, error: RetryableError) -> None:
        """Make the transition for a retryable error."""
        if isinstance(error, WrongChecksumError):
            self._refused.add(error.sha256)
        if error.kind == "unknown job":
            self._unknown_in_a_row += 1
        self._mismatches[error.kind] += 1
        if self._mismatches[error.kind] >= _DISTRUSTED_AFTER.get(error.kind, math.inf):
            error.needs_new_request = True
            # Noted, so that the next run does not take the same result either if this one ends here.
            self._must_be_fresh = True
            self._keep(self._note.distrusted(self._query.new_variant(self._note.variant)))
        elif error.needs_new_request or self._unknown_in_a_row >= _MAX_UNKNOWN:
            self._drop()
        if self._note.job is None:
            self._unknown_in_a_row = 0
            self._mismatches.clear()

    def _job(self) -> Job:
        """Return the request under way, or send a new one."""
        if self._note.state is State.SENDING:
            # The job id never arrived, and sending it again would duplicate the request.
            inputs = self._query.inputs(self._note.variant)
            sent_at = datetime.fromisoformat(str(self._note.sending_at))
            found = self._service.find(inputs, sent_at, _CLOCK_DIFFERENCE, self._note.finished_jobs)
            self._keep(self._note.dropped() if found is None else self._note.queued(found))
        if self._note.job is not None:
            if self._current_job is None or self._current_job.id != self._note.job:
                self._current_job = self._service.take_up(self._note.job)
                self._say(f"{self._subject}: resuming request {self._note.job}")
            job = self._current_job
            if not self._is_stale(job):
                return job
            self._say(f"{self._subject}: its answer is out of date; sending a new request")
            self._must_be_fresh = True
            self._drop()
        return self._send(self._query.new_variant(self._note.variant) if self._must_be_fresh else None)

    def _send(self, variant: tuple[str, ...] | None) -> Job:
        self._service.prepare()
        self._keep(self._note.sending(_shown(self._service.now()), variant=variant))
        try:
            job = self._service.submit(self._query.inputs(variant))
        except Exception as error:
            if was_refused(error):
                self._keep(self._note.refused())
            raise
        self._keep(self._note.queued(job.id))
        self._say(f"{self._subject}: sent as request {job.id}")
        self._current_job = job
        return job

    def _is_stale(self, job: Job) -> bool:
        """Return True if it is a fresh retrieval of an earlier run, completed so long ago that it may be outdated."""
        if job.id != self._job_of_earlier_run or not self._note.is_fresh:
            return False
        answered_at = job.answered_at()
        return answered_at is not None and self._service.now() - answered_at > _STALE_AFTER

    def _is_ready(self, job: Job) -> bool:
        is_ready = job.is_ready()
        self._unknown_in_a_row = 0
        self._retry_policy.reset()
        return is_ready

    def _receive(self, job: Job) -> Fetched:
        """Download the results of a finished request, validate them, and give the file its name."""
        part = self._files.part(job.id)
        asset, received = self._download(job, part)
        suffix = self._query.validate(part)
        if received.has_checksum is False:
            self._say(
                f"{self._subject}: the file came twice with the same bytes, and has the announced size, but not the "
                f"announced checksum ({asset.checksum}): it is used if it can be read"
            )
        return Fetched(
            name=self._files.place(part, received.sha256, suffix),
            sha256=received.sha256,
            bytes=asset.bytes,
            checksum=asset.checksum if received.has_checksum else None,
            job=job.id,
            fetched_at=_shown(datetime.now(tz=UTC)),
            seconds=0.0,
        )

    def _download(self, job: Job, part: Path) -> tuple[Asset, ReceivedFile]:
        held = _size(part)
        try:
            with translated_errors(self._subject, self._query.dataset):
                asset = job.asset()
                if announced_number(asset.checksum) is None and job.id not in self._begun:
                    # Bytes written before a power failure can only be verified by a checksum.
                    part.unlink(missing_ok=True)
                self._begun.add(job.id)
                refused = frozenset(self._refused)
                return asset, download(self._subject, asset, part, verify=self._service.verify, came_before=refused)
        except RetryableError as error:
            # The poll before each download succeeds and resets the waits: errors of results are counted separately, and
            # only received bytes reset them.
            error.kind = f"{error.kind} of results"
            if _size(part) > held:
                self._retry_policy.reset(error.kind, "stall of results")
                self._mismatches.pop("stall of results", None)
            raise

    def _drop(self) -> None:
        self._keep(self._note.dropped())

    def _keep(self, note: Note) -> None:
        self._note = note
        self._files.keep(note)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
