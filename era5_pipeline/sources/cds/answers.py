"""Errors of the Climate Data Store and of HTTP: what each means, whether it is retried, what the user reads."""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from ecmwf.datastores.processing import LinkError, ProcessingFailedError

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import Era5Error, MonthFailedError, NotYetAvailableError, SourceError
from era5_pipeline.runtime.http import describe_proxy_failure, retry_after
from era5_pipeline.sources.cds.retry_policy import MAX_FAILURES, RetryableError
from era5_pipeline.sources.cds.session import OtherHostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.months import Month

INVALID_URL_ERRORS = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidHeader,
)


def describe_connection_error(error: BaseException) -> str:
    """Describe briefly how a connection failed, without its URL, which may hold a signature."""
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    reason = "it was cut off"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            reason = cause.strerror
            break
    return describe_proxy_failure(reason) if isinstance(error, requests.exceptions.ProxyError) else reason


def describe_tls_error(error: BaseException) -> str:
    """Describe briefly why there is no secure connection."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate cannot be verified: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
    return "its certificate cannot be verified"


def origin_of(error: requests.RequestException) -> str | None:
    """Scheme, host and port of the failed call, if known: without path, query or password, which may be secret."""
    if error.request is None:
        return None
    parts = urlsplit(str(error.request.url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, wherever the HTTP libraries store them."""
    cause: object = error
    while isinstance(cause, BaseException):
        yield cause
        inner = next((arg for arg in getattr(cause, "args", ()) if isinstance(arg, BaseException)), None)
        cause = cause.__cause__ or cause.__context__ or inner or getattr(cause, "reason", None)


# --- Errors of the Climate Data Store: what each response means, whether it is retried, and the text for the user ---
#
# Source: the statuses and titles of the service (cads-processing-api-service), as passed on by its client.


_CDS = "the Climate Data Store"
_API = "https://cds.climate.copernicus.eu/api"
_SETTING = "CDSAPI_URL, or url in ~/.cdsapirc"
_DATASET_PAGES = "https://cds.climate.copernicus.eu/datasets"
_LATEST = re.compile(r"latest date available for this dataset is:?\s*([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9:]+)?)")
_NOT_YET = "none of the data you have requested is available yet"
# The service's phrases for requests that it will never accept; single words occur in other messages too.
_INVALID_REQUEST = (
    *("valid combination", "invalid request", "not a valid", "cost limit"),
    *("request is too large", "too many fields"),
)
_RETRYABLE_STATUS = frozenset({408, 425, 429})
# Operators' notices for a temporarily closed dataset; the wording is free, so several patterns are known.
_MAINTENANCE = re.compile(r"temporar|maintenance|try again|later", re.IGNORECASE)
# The archive's errors quote the request, as a list of dicts on its own line, beside the reason.
_QUOTED_REQUEST = re.compile(r"Request submitted to the MARS server:\s*\[.*?\]\s*(?=\n|$)", re.DOTALL)
_LONGEST_REASON = 400
# The title of a response about a failed request: "The job has failed", "The job has been rejected".
_FAILED_JOB = re.compile(r"job has (failed|been rejected)", re.IGNORECASE)
# With doubling waits, half a day of contradictory responses.
_MAX_CONTRADICTIONS = 12
# A request dismissed by its owner is resent once.
_MAX_DISMISSALS = 2


class RequestFailedError(MonthFailedError):
    """The service accepted the request, which then failed for a permanent reason."""


class RequestRefusedError(SourceError):
    """The service refuses the request; a smaller one may be accepted."""


@dataclass(frozen=True)
class _Answer:
    """A response with an error status to a request for `dataset`.

    `title`, `detail` and `traceback` are fields of its JSON, or empty. `variables` is the number of variables that it
    answers about, 0 if it answers another call; `is_about_job`: it answers a call about a request sent before.
    """

    status: int
    http_reason: str
    title: str
    detail: str
    traceback: str
    retry_after: float | None
    dataset: str
    variables: int
    is_about_job: bool

    @classmethod
    def of(cls, response: requests.Response, dataset: str) -> _Answer:
        try:
            value: Any = response.json()
        except ValueError:
            value = {}
        value = value if isinstance(value, dict) else {}
        title, detail, traceback = (str(value.get(name) or "") for name in ("title", "detail", "traceback"))
        return cls(
            response.status_code,
            response.reason,
            title,
            detail,
            traceback,
            retry_after(response.headers),
            dataset,
            _variables_asked(response),
            "/jobs/" in urlsplit(response.url or "").path,
        )

    @property
    def text(self) -> str:
        """Its complete text on one line."""
        return " ".join(f"{self.title}. {self.detail} {self.traceback}".split())

    @property
    def page(self) -> str:
        """The web page of the dataset."""
        return f"{_DATASET_PAGES}/{self.dataset}"


def error_of(subject: Month | str, error: Exception, *, dataset: str = ERA5.cds_name) -> Exception:
    """Translate a client exception about a request for `subject` (named in messages) of the dataset.

    Returns:
        A `RetryableError`, or an `Era5Error` if it is permanent; exceptions that are not known are unchanged.
    """
    if isinstance(error, Era5Error | RetryableError):
        return error
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _http_error(subject, _Answer.of(error.response, dataset))
    return _client_error(subject, error)


def is_about_failed_job(error: Exception) -> bool:
    """Return True if the exception reports a request that the service accepted and that then failed."""
    return (
        isinstance(error, requests.HTTPError)
        and error.response is not None
        and bool(_Answer.of(error.response, "").traceback)
    )


def _http_error(subject: Month | str, answer: _Answer) -> Exception:
    """The error of a response with an error status."""
    status, lower = answer.status, answer.text.lower()
    # The service is busy or down.
    if status == 429:
        return RetryableError("too many requests in a short time", kind="status", after_seconds=answer.retry_after)
    if status in _RETRYABLE_STATUS or status >= 500:
        reason = f"status {status}, {answer.title or answer.http_reason}"
        return RetryableError(reason, kind="status", after_seconds=answer.retry_after)
    # The request, once sent.
    if status == 400 and _NOT_YET in lower:
        latest = _LATEST.search(answer.text)
        until = f"the latest hour there is {latest[1]}" if latest else "the service does not say when it will be"
        return NotYetAvailableError(
            f"{subject} is not available yet: {until}",
            remedy="Try again later: preliminary data (ERA5T) is published about five days after the fact.",
        )
    if status == 400 and (answer.traceback or _FAILED_JOB.search(answer.title)):
        return _failed_job_error(subject, answer)
    # The user's account.
    if status == 401:
        return SourceError(
            f"{subject}: {_CDS} does not accept the key ({answer.title or 'authentication required'})",
            remedy="Copy the key again from your profile page at https://cds.climate.copernicus.eu into CDSAPI_KEY or "
            "~/.cdsapirc (CDSAPI_KEY wins).",
        )
    if status == 403 and "licen" in lower:
        return SourceError(
            f"{subject}: the licence of ERA5 is not accepted yet by the owner of this key (for {answer.dataset})",
            remedy=f"Sign in and accept it, once: {answer.detail or f'at {answer.page}, tab Download'}",
        )
    # The dataset.
    if "cost limit" in lower:
        return RequestRefusedError(
            f"{subject}: the request is too large for {_CDS} ({answer.detail or answer.title})",
            remedy="It is for one variable, and cannot be made smaller: the service allows less than it did. See "
            f"{answer.page}, or take another source: --source arco."
            if answer.variables == 1
            else "Ask for fewer variables at a time: --variables. A smaller area does not lower the cost.",
        )
    if status == 403 and _MAINTENANCE.search(answer.detail):
        reason = f"{_CDS} has closed the dataset for now: {_shortened(answer.detail)}"
        return RetryableError(reason, kind="maintenance")
    if status == 404:
        return _not_found(subject, answer)
    # Everything else.
    if not answer.text.strip(" ."):
        return SourceError(
            f"{subject}: the answer is not from {_CDS} (status {status})",
            remedy="Check for a proxy or a firewall in between (HTTPS_PROXY), and CDSAPI_URL.",
        )
    refused = f"{subject}: {_CDS} refuses the request (status {status}: {_shortened(answer.text)})"
    if status == 400:
        return RequestRefusedError(refused, remedy="Choose other --variables or --area.")
    return SourceError(
        refused,
        remedy="Check that the key is that of the account that sent the request."
        if answer.is_about_job
        else f"See the page of the dataset: {answer.page}",
    )


def _not_found(subject: Month | str, answer: _Answer) -> Exception:
    """Status 404: the results, the job, the dataset, or the address."""
    lower = answer.text.lower()
    if "results expired" in lower:
        reason = "the results have expired at the service"
        return RetryableError(reason, kind="expired", needs_new_request=True, max_in_a_row=MAX_FAILURES)
    if "not ready" in lower:
        reason = "the request is finished, but its results are not ready"
        return RetryableError(reason, kind="not ready", max_in_a_row=_MAX_CONTRADICTIONS)
    if "job" in lower:
        unknown = RetryableError("the service does not know the request (yet)", kind="unknown job")
        return _dismissed() if _is_dismissal(lower) else unknown
    if "process not found" in lower:
        return SourceError(
            f"{subject}: the service does not have the dataset {answer.dataset} ({_shortened(answer.text)})",
            remedy=f"See whether it is still offered: {answer.page}. If it is, {_SETTING}, is that of another "
            f"data store: {_CDS} is at {_API}.",
        )
    return SourceError(
        f"{subject}: {_CDS} is not at this address ({answer.title or 'not found'})",
        remedy=f"Correct {_SETTING}: {_API}.",
    )


def _client_error(subject: Month | str, error: Exception) -> Exception:
    """The error of any other exception of the client."""
    if isinstance(error, OtherHostError):
        return _redirect_error(subject, error)
    if isinstance(error, ProcessingFailedError):
        if _is_dismissal(str(error)):
            return _dismissed()
        reason = f"the service ended the request ({error})"
        return RetryableError(reason, kind="ended", needs_new_request=True, max_in_a_row=MAX_FAILURES)
    if isinstance(error, requests.exceptions.SSLError):
        host = urlsplit(str(error.request.url)).hostname if error.request is not None else None
        return SourceError(
            f"{subject}: no secure connection to {host or _CDS} ({describe_tls_error(error)})",
            remedy="If there is a proxy in between, name its certificates in REQUESTS_CA_BUNDLE.",
        )
    if isinstance(error, INVALID_URL_ERRORS):
        return SourceError(f"{subject}: the address of {_CDS} is invalid", remedy=f"Correct {_SETTING}: {_API}.")
    if isinstance(error, requests.exceptions.JSONDecodeError):
        return RetryableError("the answer is not the service's own (a page of maintenance?)", kind="answer")
    if isinstance(error, requests.exceptions.RequestException):
        return RetryableError(
            f"no connection to {origin_of(error) or _CDS} ({describe_connection_error(error)})",
            kind="connection",
            check=f"Check the network, and the address in {_SETTING}.",
        )
    if isinstance(error, LinkError | LookupError | AssertionError | AttributeError | TypeError | ValueError):
        return RetryableError("the answer lacks fields that it should have", kind="answer", max_in_a_row=MAX_FAILURES)
    return error


def _failed_job_error(subject: Month | str, answer: _Answer) -> Exception:
    reason = _shortened(_QUOTED_REQUEST.sub(" ", answer.traceback or answer.title))
    lower = f"{answer.title} {reason}".lower()
    if "been rejected" in lower:
        # Only queue rules reject, in changing words: limits on the requests of one user, or of all users.
        return RetryableError(f"the request was rejected: {reason}", kind="rejected", needs_new_request=True)
    if any(phrase in lower for phrase in _INVALID_REQUEST):
        return RequestFailedError(
            f"{subject}: {_CDS} refuses the request: {reason}", remedy="Choose other --variables or --area."
        )
    return RetryableError(
        f"the request failed at the service: {reason}",
        kind="failed",
        needs_new_request=True,
        max_in_a_row=MAX_FAILURES,
    )


def _is_dismissal(text: str) -> bool:
    return "dismissed" in text or "deleted" in text


def _dismissed() -> RetryableError:
    return RetryableError(
        "the request was dismissed by its owner, or deleted from the page of requests",
        kind="dismissed",
        after_seconds=0.0,
        needs_new_request=True,
        max_in_a_row=_MAX_DISMISSALS,
    )


def _redirect_error(subject: Month | str, error: OtherHostError) -> Exception:
    if not error.is_permanent:
        # A maintenance page, or a network's login page.
        reason = f"the answer redirects to another host ({error.host}); the key was not sent there"
        return RetryableError(reason, kind="other host", max_in_a_row=_MAX_CONTRADICTIONS)
    return SourceError(
        f"{subject}: {_CDS} redirects permanently to another host ({error.host}); the key was not sent there",
        remedy="If it has moved, as its own pages say, set CDSAPI_URL (or url in ~/.cdsapirc) to its new address.",
    )


def _variables_asked(response: requests.Response) -> int:
    """The number of variables in the inputs that the response refuses, 0 if it answers another call."""
    body = response.request.body if response.request is not None else None
    try:
        inputs = json.loads(body or "{}").get("inputs", {})
    except (ValueError, AttributeError):
        return 0
    return len(inputs.get("variable", ())) if isinstance(inputs, dict) else 0


def _shortened(text: str) -> str:
    """The text on one line, truncated if long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."
