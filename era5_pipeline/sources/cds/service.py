"""The Climate Data Store through its own client (`ecmwf.datastores`, which cdsapi wraps): submit, look, results.

Every call is made once, and what goes wrong is judged (`trouble`): the client by itself would sleep for two minutes at
a time, up to 500 times, within one call and without a word. Not here: waiting, or the files.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import requests
from ecmwf.datastores import Client

from era5_pipeline.sources.cds.answers import is_of_failed_job, judged
from era5_pipeline.sources.cds.request import DATASET
from era5_pipeline.sources.cds.session import OneOriginSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecmwf.datastores import Remote

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.cds.credentials import Credentials

_TIMEOUT_SECONDS = 60.0
# A request that was sent, but whose number was never received, is looked for in one page of the user's newest jobs; the
# list does not say what was asked, so of jobs of the same minutes at most so many are asked for it, two calls each.
_RECENT_JOBS = 100
_CANDIDATES = 3
_STATUS_REQUEST_TIMEOUT = 408


@dataclass(frozen=True)
class Asset:
    """The answer to a request: where it is, how many bytes, and its checksum as the service writes it, if it does."""

    url: str
    bytes: int
    checksum: str | None


class Service:
    """The service, asked for one month. `say` is told what the service has to say to its users."""

    def __init__(self, credentials: Credentials, month: Month, say: Callable[[str], None]) -> None:
        self._month = month
        self._say = say
        self._credentials = credentials
        self._client_made: Client | None = None
        self._heard: set[object] = set()
        self.verify = credentials.verify

    def submit(self, inputs: dict[str, Any]) -> Job:
        """Send a request.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        with self._judging():
            return Job(self._client.submit(DATASET, inputs), self._month)

    def take_up(self, job_id: str) -> Job:
        """A request that was sent before.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        with self._judging():
            return Job(self._client.get_remote(job_id), self._month)

    def find(
        self, inputs: dict[str, Any], sent_at: datetime, clocks_apart: timedelta, but_not: frozenset[str]
    ) -> str | None:
        """Find the job of a request with just these inputs that was sent at `sent_at` and may still be answered.

        The service's clock and ours may differ by `clocks_apart`; `but_not` are numbers of requests that have been
        dealt with.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        first = sent_at - clocks_apart
        last = sent_at + timedelta(seconds=_TIMEOUT_SECONDS) + clocks_apart
        with self._judging():
            entries = self._client.get_jobs(
                limit=_RECENT_JOBS,
                sortby="-created",
                status=["accepted", "running", "successful"],
            ).json["jobs"]
            created = {
                str(entry["jobID"]): _time(entry["created"]) for entry in entries if entry["processID"] == DATASET
            }
            near = [job for job, time in created.items() if first <= time <= last and job not in but_not]
            near.sort(key=lambda job: abs(created[job] - sent_at))
            for job in near[:_CANDIDATES]:
                if self._client.get_remote(job).request == inputs:
                    return job
        return None

    @property
    def _client(self) -> Client:
        if self._client_made is None:
            with warnings.catch_warnings():
                # It warns where the service's news cannot be read, and goes on; what is wrong shows in the next call.
                warnings.simplefilter("ignore")
                self._client_made = Client(
                    url=self._credentials.url,
                    key=self._credentials.key.get_secret_value(),
                    verify=self._credentials.verify,
                    timeout=_TIMEOUT_SECONDS,
                    progress=False,
                    cleanup=False,
                    retry_after=0,
                    maximum_tries=1,
                    session=OneOriginSession(self._credentials.url),
                    log_callback=self._hear,
                )
        return self._client_made

    def _hear(self, level: int, message: str, *_: object) -> None:
        """Pass on warnings, each once; what the client tells of each call, `Job` tells better."""
        if level >= logging.WARNING and message not in self._heard:
            self._heard.add(message)
            self._say(f"{self._month}: the Climate Data Store says: {' '.join(str(message).split())}")

    @contextmanager
    def _judging(self) -> Iterator[None]:
        with judging(self._month):
            yield


class Job:
    """A request at the service."""

    def __init__(self, remote: Remote, month: Month) -> None:
        self._remote = remote
        self._month = month
        self.id = remote.request_id

    def describe(self) -> str:
        """What it was doing when last looked at, for the user."""
        status = str(self._remote.last_status or "sent")
        words = {"accepted": "in the queue (accepted)", "running": "being worked on (running)"}
        return f"request {self.id} is {words.get(status, status)}"

    def answered_at(self) -> datetime | None:
        """When it was answered; None: not yet, or the service does not say.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        with judging(self._month):
            return self._remote.finished_at

    def is_ready(self) -> bool:
        """Whether it has been answered: one look.

        Raises:
            PassingError, SourceError, NotYetAvailableError: as `trouble` judges.
        """
        with judging(self._month):
            return bool(self._remote.results_ready)

    def asset(self) -> Asset:
        """The answer; the request is ready.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        with judging(self._month):
            results = self._remote.get_results()
            value = results.asset
            checksum = value.get("file:checksum")
            url = urljoin(results.url, str(value["href"]))
            return Asset(url, int(value["file:size"]), str(checksum) if checksum else None)


@contextmanager
def judging(month: Month) -> Iterator[None]:
    """Raise what an exception means in place of it."""
    try:
        yield
    except Exception as error:
        verdict = judged(month, error)
        if verdict is error:
            raise
        # The text of an answer about a failed job holds the whole request.
        raise verdict from (None if is_of_failed_job(error) else error)


def was_refused(error: Exception) -> bool:
    """Whether an error of `submit` means that the service has not made a job of the request, beyond doubt."""
    cause = error.__cause__
    if not isinstance(cause, requests.HTTPError) or cause.response is None:
        return False
    status = cause.response.status_code
    return 400 <= status < 500 and status != _STATUS_REQUEST_TIMEOUT


def _time(text: str) -> datetime:
    """A time as the service writes it: UTC, with or without saying so."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
