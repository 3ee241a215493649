"""Calls to the Climate Data Store through its own client (`ecmwf.datastores`, which cdsapi wraps), and the key."""

from __future__ import annotations

import logging
import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import requests
from cdsapi.api import get_url_key_verify
from ecmwf.datastores import Client
from pydantic import SecretStr

from era5_pipeline.model.errors import SourceError
from era5_pipeline.runtime.http import is_http_url, is_secure_url
from era5_pipeline.sources.cds.answers import error_of, is_about_failed_job
from era5_pipeline.sources.cds.session import OneOriginSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ecmwf.datastores import Process, Remote

    from era5_pipeline.model.months import Month

# --- The Climate Data Store's address and key, from the same places as its own client ---
#
# CDSAPI_URL and CDSAPI_KEY override `~/.cdsapirc` (or CDSAPI_RC), which cdsapi reads. The key is a secret: it appears
# in no repr, log or event.


DEFAULT_URL = "https://cds.climate.copernicus.eu/api"
_GET_KEY = (
    "Sign in at https://cds.climate.copernicus.eu, copy the key from your profile page, and set CDSAPI_KEY to it in "
    "the environment (.env is not read for it), or write it into ~/.cdsapirc, as a line `key: ...`."
)
_SET_ADDRESS = f"Set it to {DEFAULT_URL}, or remove it: that is the default."
# Characters allowed in an HTTP header; any other would make the HTTP library show the key in its error.
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Credentials:
    """The service's address, the user's key, and whether the service's certificate is verified."""

    url: str
    key: SecretStr
    verify: bool = True


def read_credentials() -> Credentials:
    """Read the user's credentials from the same places as cdsapi."""
    url, key, verify = _read()
    if ":" in key:
        raise SourceError(
            "the key is for the old Climate Data Store (it has a colon), which was closed in 2024", remedy=_GET_KEY
        )
    if not _PRINTABLE.fullmatch(key):
        raise SourceError("the key is invalid: it is empty, or has blanks or non-ASCII characters", remedy=_GET_KEY)
    if url.rstrip("/").endswith("/api/v2"):
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is that of the old Climate Data Store (it ends with "
            "/api/v2), which was closed in 2024",
            remedy=_SET_ADDRESS,
        )
    if not is_http_url(url):
        # Not shown: it may be the key, entered by mistake, or contain a password.
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is not that of the Climate Data Store's API",
            remedy=_SET_ADDRESS,
        )
    if not is_secure_url(url):
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is plain http: the key could be read on the network",
            remedy=f"Use https, such as {DEFAULT_URL}; http is allowed for a server on this machine only.",
        )
    return Credentials(url.rstrip("/"), SecretStr(key), verify)


def _read() -> tuple[str, str, bool]:
    given = os.environ.get("CDSAPI_URL")
    # The address has a default, but cdsapi demands both.
    for url in (None, None if given else DEFAULT_URL):
        try:
            found: tuple[str, str, bool] = get_url_key_verify(url, None, None)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SourceError(f"the file with the key cannot be read ({reason})", remedy=_GET_KEY) from error
        except Exception as error:  # noqa: BLE001  # cdsapi raises a bare Exception
            missing = f"there is no key for the Climate Data Store: neither in CDSAPI_KEY nor in {_key_file()}"
            if isinstance(error, ValueError):
                missing = "the file with the key (~/.cdsapirc) has an invalid line"
        else:
            return found
    # Not chained: the error's text may quote the file.
    raise SourceError(missing, remedy=_GET_KEY)


def _key_file() -> str:
    return os.environ.get("CDSAPI_RC") or "~/.cdsapirc"


def has_key() -> bool:
    """Return True if there is a key for the Climate Data Store, valid or not."""
    return bool(os.environ.get("CDSAPI_KEY")) or Path(_key_file()).expanduser().is_file()


# --- Calls to the Climate Data Store through its own client (`ecmwf.datastores`, which cdsapi wraps) ---
#
# Every call is made once and its errors are translated (`answers`): the client itself would retry within one call, up
# to 500 times with sleeps of two minutes, reporting nothing.


_TIMEOUT_SECONDS = 60.0
# A request that was sent but whose job id never arrived is searched in one page of the user's newest jobs. The list
# does not contain the requests: those of up to three jobs from the same minutes are read, two calls each.
_RECENT_JOBS = 100
_MAX_CANDIDATES = 3
_STATUS_REQUEST_TIMEOUT = 408


@dataclass(frozen=True)
class Asset:
    """The results of a request: URL, size, and the checksum announced by the service, if any."""

    url: str
    bytes: int
    checksum: str | None


class CdsService:
    """The service, called about one `subject` of a dataset, such as a month. `say` gets its messages to users."""

    def __init__(
        self, credentials: Credentials, subject: Month | str, say: Callable[[str], None], dataset: str
    ) -> None:
        self._subject = subject
        self._say = say
        self._dataset = dataset
        self._credentials = credentials
        self._session = OneOriginSession(credentials.url)
        self._opened_client: Client | None = None
        self._process: Process | None = None
        self._messages_said: set[object] = set()
        self.verify = credentials.verify

    def prepare(self) -> None:
        """Make the call that precedes sending a request, to learn the service's clock (`now`)."""
        with translated_errors(self._subject, self._dataset):
            self._process = self._client.get_process(self._dataset)

    def now(self) -> datetime:
        """The service's time, from its latest response; this machine's time before the first response."""
        return datetime.now(tz=UTC) + self._session.clock_ahead

    def submit(self, inputs: dict[str, Any]) -> Job:
        """Send a request."""
        with translated_errors(self._subject, self._dataset):
            process = self._process or self._client.get_process(self._dataset)
            self._process = None
            return Job(process.submit(inputs), self._subject, self._dataset)

    def take_up(self, job_id: str) -> Job:
        """Look up a previously sent request."""
        with translated_errors(self._subject, self._dataset):
            return Job(self._client.get_remote(job_id), self._subject, self._dataset)

    def find(
        self, inputs: dict[str, Any], sent_at: datetime, clock_difference: timedelta, finished: frozenset[str]
    ) -> str | None:
        """Find the id of a job with exactly these inputs, sent at `sent_at`, whose result may still come.

        `sent_at` is by the service's clock (`now`), whose machines may differ by `clock_difference`; `finished` are ids
        of finished or abandoned jobs.
        """
        first = sent_at - clock_difference
        last = sent_at + timedelta(seconds=_TIMEOUT_SECONDS) + clock_difference
        with translated_errors(self._subject, self._dataset):
            entries = self._client.get_jobs(
                limit=_RECENT_JOBS,
                sortby="-created",
                status=["accepted", "running", "successful"],
            ).json["jobs"]
            created = {
                str(entry["jobID"]): _time(entry["created"]) for entry in entries if entry["processID"] == self._dataset
            }
            near = [job for job, time in created.items() if first <= time <= last and job not in finished]
            near.sort(key=lambda job: abs(created[job] - sent_at))
            for job in near[:_MAX_CANDIDATES]:
                if self._client.get_remote(job).request == inputs:
                    return job
        return None

    @property
    def _client(self) -> Client:
        if self._opened_client is None:
            with warnings.catch_warnings():
                # The client warns if it cannot read the service's messages; the next call raises the error itself.
                warnings.simplefilter("ignore")
                self._opened_client = Client(
                    url=self._credentials.url,
                    key=self._credentials.key.get_secret_value(),
                    verify=self._credentials.verify,
                    timeout=_TIMEOUT_SECONDS,
                    progress=False,
                    cleanup=False,
                    retry_after=0,
                    maximum_tries=1,
                    session=self._session,
                    log_callback=self._pass_on,
                )
        return self._opened_client

    def _pass_on(self, level: int, message: str, *_: object) -> None:
        """Report each of the service's warnings once; the client's own messages on each call are dropped."""
        if level >= logging.WARNING and message not in self._messages_said:
            self._messages_said.add(message)
            self._say(f"{self._subject}: the Climate Data Store says: {' '.join(str(message).split())}")


class Job:
    """A request that the service has accepted."""

    def __init__(self, remote: Remote, subject: Month | str, dataset: str) -> None:
        self._remote = remote
        self._subject = subject
        self._dataset = dataset
        self.id = remote.request_id

    def describe(self) -> str:
        """The status at the last poll, for the user."""
        status = str(self._remote.last_status or "sent")
        words = {"accepted": "in the queue (accepted)", "running": "being worked on (running)"}
        return f"request {self.id} is {words.get(status, status)}"

    def answered_at(self) -> datetime | None:
        """When the request was completed; None: not yet, or unknown."""
        with translated_errors(self._subject, self._dataset):
            return self._remote.finished_at

    def is_ready(self) -> bool:
        """Poll once whether the results are ready."""
        with translated_errors(self._subject, self._dataset):
            return bool(self._remote.results_ready)

    def asset(self) -> Asset:
        """The results of a finished request."""
        with translated_errors(self._subject, self._dataset):
            results = self._remote.get_results()
            value = results.asset
            checksum = value.get("file:checksum")
            url = urljoin(results.url, str(value["href"]))
            return Asset(url, int(value["file:size"]), str(checksum) if checksum else None)


@contextmanager
def translated_errors(subject: Month | str, dataset: str) -> Iterator[None]:
    """Replace each client exception by its translation from `answers`."""
    try:
        yield
    except Exception as error:
        translated = error_of(subject, error, dataset=dataset)
        if translated is error:
            raise
        # The text of a response about a failed job contains the whole request.
        raise translated from (None if is_about_failed_job(error) else error)


def was_refused(error: Exception) -> bool:
    """Return True if an error of `submit` proves that the service created no job."""
    cause = error.__cause__
    if not isinstance(cause, requests.HTTPError) or cause.response is None:
        return False
    status = cause.response.status_code
    return 400 <= status < 500 and status != _STATUS_REQUEST_TIMEOUT


def _time(text: str) -> datetime:
    """Parse a time from the service: UTC, with or without an offset."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
