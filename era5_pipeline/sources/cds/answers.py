"""What the service answers when it does not do as asked: which of it passes, which stays, and what the user can do.

Source: the statuses and titles of the service (cads-processing-api-service), as its client hands them on.
"""

from __future__ import annotations

import email.utils
import math
import re
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from ecmwf.datastores.processing import LinkError, ProcessingFailedError

from era5_pipeline.model.errors import Era5Error, MonthFailedError, NotYetAvailableError, SourceError
from era5_pipeline.sources.cds.session import OtherHostError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.months import Month

_CDS = "the Climate Data Store"
_PAGE = "https://cds.climate.copernicus.eu/datasets/reanalysis-era5-single-levels"
_KEY = (
    "Copy the key anew from your profile page at https://cds.climate.copernicus.eu into CDSAPI_KEY or ~/.cdsapirc "
    "(CDSAPI_KEY wins)."
)
_LATEST = re.compile(r"latest date available for this dataset is:?\s*([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9:]+)?)")
# The service's phrases for requests that it will never answer; single words are in other messages too.
_WRONG_REQUESTS = (
    *("valid combination", "invalid request", "not a valid", "cost limit"),
    *("request is too large", "too many fields"),
)
_PASSING_STATUS = frozenset({408, 425, 429})
_NOT_YET = "none of the data you have requested is available yet"
# What operators write where they close a dataset for a while; their own words, so several are known.
_MAINTENANCE = re.compile(r"temporar|maintenance|try again|later", re.IGNORECASE)
# What the archive's errors hold besides the reason: the request, as a list of dicts on a line of its own.
_REQUEST_ECHO = re.compile(r"Request submitted to the MARS server:\s*\[.*?\]\s*(?=\n|$)", re.DOTALL)
_LONGEST_REASON = 400
# The title of an answer about a request that failed: "The job has failed", "The job has been rejected".
_ENDED = re.compile(r"job has (failed|been rejected)", re.IGNORECASE)
# With waits that double, half a day of a service that contradicts itself.
_NOT_READY_MOST = 12
# Kinds of trouble that are over once the service answers.
OF_THE_MOMENT = ("status", "connection", "answer", "unknown job")
WRONG_ADDRESS = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidHeader,
)
# How often a job may fail for reasons of the service before it is taken to fail for ever.
FAILURES = 3
# A request that its owner dismissed is sent once more.
_DISMISSED_MOST = 2


class RequestFailedError(MonthFailedError):
    """The service took the request, and it failed there for a reason that stays."""


class PassingError(Exception):
    """Trouble that passes: ask again later.

    `after_seconds` is what the service asks for, None: as one likes. `anew`: with a new request, for this one has come
    to nothing. `most`: how often in a row this `kind` of trouble is borne, None: as long as there is patience.
    """

    def __init__(
        self,
        reason: str,
        *,
        kind: str,
        after_seconds: float | None = None,
        anew: bool = False,
        most: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.after_seconds = after_seconds
        self.anew = anew
        self.most = most


def judged(month: Month, error: Exception) -> Exception:
    """What an exception of the client means: a `PassingError`, an `Era5Error` that stays, or the exception itself."""
    if isinstance(error, Era5Error | PassingError):
        return error
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _of_answer(month, error.response)
    if isinstance(error, OtherHostError):
        return _of_other_host(month, error)
    if isinstance(error, ProcessingFailedError):
        if _is_dismissed(str(error)):
            return _dismissed()
        return PassingError(f"the request was ended at the service ({error})", kind="ended", anew=True, most=FAILURES)
    if isinstance(error, requests.exceptions.SSLError):
        host = urlsplit(str(error.request.url)).hostname if error.request is not None else _CDS
        return SourceError(
            f"{month}: there is no secure connection to {host} ({_how_tls_failed(error)})",
            remedy="Is there a proxy in between? Name its certificates in REQUESTS_CA_BUNDLE.",
        )
    if isinstance(error, WRONG_ADDRESS):
        return SourceError(
            f"{month}: the address of {_CDS} cannot be meant", remedy="Correct CDSAPI_URL, or url in ~/.cdsapirc."
        )
    if isinstance(error, requests.exceptions.JSONDecodeError):
        return PassingError("an answer that is not the service's own (a page of maintenance?)", kind="answer")
    if isinstance(error, requests.exceptions.RequestException):
        return PassingError(f"no connection ({how(error)})", kind="connection")
    if isinstance(error, LinkError | LookupError | AssertionError | AttributeError | TypeError | ValueError):
        return PassingError("an answer that lacks what it should have", kind="answer", most=FAILURES)
    return error


def is_of_failed_job(error: Exception) -> bool:
    """Whether the exception is an answer about a request that the service took, and that failed there."""
    return (
        isinstance(error, requests.HTTPError)
        and error.response is not None
        and bool(_said(error.response)["traceback"])
    )


def how(error: BaseException) -> str:
    """How a connection failed, in a few words; never the address, which may be one with a signature in it."""
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return cause.strerror
    return "it was cut off"


def _how_tls_failed(error: BaseException) -> str:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate cannot be verified: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
    return "its certificate cannot be verified"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that it came from, wherever the HTTP libraries keep them."""
    cause: object = error
    while isinstance(cause, BaseException):
        yield cause
        inner = next((arg for arg in getattr(cause, "args", ()) if isinstance(arg, BaseException)), None)
        cause = cause.__cause__ or cause.__context__ or inner or getattr(cause, "reason", None)


def retry_after(response: requests.Response) -> float | None:
    """Seconds of a Retry-After header, which may be a date; None: there is none that can be meant."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            then = email.utils.parsedate_to_datetime(text).astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        seconds = (then - datetime.now(tz=UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _of_answer(month: Month, response: requests.Response) -> Exception:
    status, said = response.status_code, _said(response)
    title, detail = said["title"], said["detail"]
    text = " ".join(f"{title}. {detail} {said['traceback']}".split())
    low = text.lower()
    if status in _PASSING_STATUS or status >= 500:
        name = "too many requests in a short time" if status == 429 else f"status {status}, {title or response.reason}"
        return PassingError(f"{name}", kind="status", after_seconds=retry_after(response))
    if status == 400 and _NOT_YET in low:
        return _not_yet(month, text)
    if status == 400 and (said["traceback"] or _ENDED.search(title)):
        return _of_failed_job(month, title, said["traceback"] or title)
    if status == 401:
        return SourceError(
            f"{month}: {_CDS} does not accept the key ({title or 'authentication required'})", remedy=_KEY
        )
    if status == 403 and "licen" in low:
        return SourceError(
            f"{month}: the licence of ERA5 is not accepted yet by the user of this key",
            remedy=f"Sign in and accept it, once: {detail or 'on the page of the dataset, tab Download'}",
        )
    if "cost limit" in low:
        return SourceError(
            f"{month}: {_CDS} finds the request too large ({detail or title})",
            remedy="Ask for fewer variables at a time: --variables. A smaller area does not lower the cost.",
        )
    if status == 403 and _MAINTENANCE.search(detail):
        return PassingError(f"{_CDS} has closed the dataset for now: {_shortened(detail)}", kind="maintenance")
    if status == 404:
        return _of_missing(month, low, title)
    if not text.strip(" ."):
        return SourceError(
            f"{month}: something that is not {_CDS} answers in its place (status {status})",
            remedy="Is there a proxy or a firewall in between (HTTPS_PROXY), and CDSAPI_URL right?",
        )
    remedy = (
        "Choose other --variables or --area."
        if status == 400
        else f"Is the key that of the account that sent the request? See also the page of the dataset: {_PAGE}"
    )
    return SourceError(f"{month}: {_CDS} refuses the request (status {status}: {_shortened(text)})", remedy=remedy)


def _of_other_host(month: Month, error: OtherHostError) -> Exception:
    if not error.is_permanent:
        # A page of maintenance, or of a network that wants a login.
        reason = f"the answer leads to another host ({error.host}), to which the key is not sent"
        return PassingError(reason, kind="other host", most=_NOT_READY_MOST)
    return SourceError(
        f"{month}: {_CDS} says that it is at another host ({error.host}); the key was not sent there",
        remedy="If it has moved, as its own pages say, set CDSAPI_URL (or url in ~/.cdsapirc) to its new address.",
    )


def _is_dismissed(text: str) -> bool:
    return "dismissed" in text or "deleted" in text


def _dismissed() -> PassingError:
    return PassingError(
        "the request was dismissed by its owner, or deleted from the page of requests",
        kind="dismissed",
        after_seconds=0.0,
        anew=True,
        most=_DISMISSED_MOST,
    )


def _of_missing(month: Month, low: str, title: str) -> Exception:
    if "results expired" in low:
        return PassingError("the results have expired at the service", kind="expired", anew=True, most=FAILURES)
    if "not ready" in low:
        return PassingError("the results are not ready after all", kind="not ready", most=_NOT_READY_MOST)
    if "job" in low and _is_dismissed(low):
        return _dismissed()
    if "job" in low:
        return PassingError("the service does not know the request (yet)", kind="unknown job")
    return SourceError(
        f"{month}: {_CDS} does not know the address or the dataset ({title or 'not found'})",
        remedy="Correct CDSAPI_URL, or url in ~/.cdsapirc: https://cds.climate.copernicus.eu/api.",
    )


def _not_yet(month: Month, text: str) -> NotYetAvailableError:
    latest = _LATEST.search(text)
    until = f"the latest hour there is {latest[1]}" if latest else "the service does not say from when on"
    return NotYetAvailableError(
        f"{month} is not available yet: {until}", remedy="ERA5T comes some five days after the fact: try it then."
    )


def _of_failed_job(month: Month, title: str, traceback: str) -> Exception:
    told = _shortened(_REQUEST_ECHO.sub(" ", traceback))
    low = f"{title} {told}".lower()
    if "been rejected" in low:
        # Only the rules of its queue reject, in words that change: a limit of the requests of a user, or of all.
        return PassingError(f"the request was rejected: {told}", kind="rejected", anew=True)
    if any(words in low for words in _WRONG_REQUESTS):
        return RequestFailedError(
            f"{month}: {_CDS} refuses the request: {told}", remedy="Choose other --variables or --area."
        )
    return PassingError(f"the request failed at the service: {told}", kind="failed", anew=True, most=FAILURES)


def _shortened(text: str) -> str:
    """The text on one line, cut off where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."


def _said(response: requests.Response) -> dict[str, str]:
    try:
        value: Any = response.json()
    except ValueError:
        value = {}
    value = value if isinstance(value, dict) else {}
    return {name: str(value.get(name) or "") for name in ("title", "detail", "traceback")}
