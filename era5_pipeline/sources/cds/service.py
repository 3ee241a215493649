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

from era5_pipeline.sources.cds.request import DATASET, digest_of_inputs
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
    """The answer to a request: where it is, how many bytes, and its MD5 in hex, if the service says."""

    url: str
    bytes: int
    md5: str | None


class Service:
    """The service, asked for one month. `say` is told what the service has to say to its users."""

    def __init__(self, credentials: Credentials, month: Month, say: Callable[[str], None]) -> None:
        self._month = month
        self._say = say
        self._credentials = credentials
        self._client_made: Client | None = None
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

    def find(self, inputs: dict[str, Any], since: datetime) -> str | None:
        """The number of a request with these inputs that arrived at or after `since` and may still be answered.

        Raises:
            PassingError, SourceError: as `trouble` judges.
        """
        wanted = digest_of_inputs(inputs)
        with self._judging():
            for job in self._client.get_jobs(limit=_RECENT_JOBS, sortby="-created").json["jobs"]:
                if job["processID"] != DATASET or job["status"] not in ("accepted", "running", "successful"):
                    continue
                remote = self._client.get_remote(job["jobID"])
                if remote.created_at >= since and digest_of_inputs(remote.request) == wanted:
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
        """Pass on warnings; what the client tells of each call, `Job` tells better."""
        if level >= logging.WARNING:
            self._say(f"{self._month}: the Climate Data Store says: {' '.join(message.split())}")

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
            md5 = value.get("file:checksum")
            return Asset(urljoin(results.url, str(value["href"])), int(value["file:size"]), str(md5) if md5 else None)


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
