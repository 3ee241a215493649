"""The Climate Data Store through its own client (`ecmwf.datastores`, which cdsapi wraps): submit, look, results.

Every call is made once, and what goes wrong is judged (`trouble`): the client by itself would sleep for two minutes at
a time, up to 500 times, within one call and without a word. Not here: waiting, or the files.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from ecmwf.datastores import Client

from era5_pipeline.sources.cds.request import DATASET
from era5_pipeline.sources.cds.trouble import judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from ecmwf.datastores import Remote

    from era5_pipeline.months import Month
    from era5_pipeline.sources.cds.credentials import Credentials

_TIMEOUT_SECONDS = 60.0
# How far back a request that was sent, but whose number was never received, is looked for.
_RECENT_JOBS = 50


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

    def find(self, inputs: dict[str, Any], since: datetime, but_not: frozenset[str]) -> str | None:
        """The number of a request with just these inputs that arrived at or after `since` and may still be answered.

        `but_not` are numbers of requests that have been dealt with.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        with self._judging():
            for job in self._client.get_jobs(limit=_RECENT_JOBS, sortby="-created").json["jobs"]:
                is_open = job["status"] in ("accepted", "running", "successful")
                if job["processID"] != DATASET or not is_open or job["jobID"] in but_not:
                    continue
                remote = self._client.get_remote(job["jobID"])
                if remote.created_at >= since and remote.request == inputs:
                    return str(job["jobID"])
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
        raise verdict from error
