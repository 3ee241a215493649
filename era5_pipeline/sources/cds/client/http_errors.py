"""Errors of the HTTP libraries in words that a user can read, and the header Retry-After.

Here: the network and TLS. Not here: what the Climate Data Store answers (`answers`).
"""

from __future__ import annotations

import email.utils
import math
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

INVALID_URL_ERRORS = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidHeader,
)


def describe_connection_error(error: BaseException) -> str:
    """Say in a few words how a connection failed, without its URL, which may hold a signature."""
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, requests.RequestException):
            return cause.strerror
    return "it was cut off"


def describe_tls_error(error: BaseException) -> str:
    """Say in a few words why there is no secure connection."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate cannot be verified: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
    return "its certificate cannot be verified"


def host_of(error: requests.RequestException) -> str | None:
    """The host that the failed call was sent to, if it is known."""
    return urlsplit(str(error.request.url)).hostname if error.request is not None else None


def retry_after(response: requests.Response) -> float | None:
    """Seconds of the header Retry-After, which may be a date; None if it is absent or invalid."""
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


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, wherever the HTTP libraries keep them."""
    cause: object = error
    while isinstance(cause, BaseException):
        yield cause
        inner = next((arg for arg in getattr(cause, "args", ()) if isinstance(arg, BaseException)), None)
        cause = cause.__cause__ or cause.__context__ or inner or getattr(cause, "reason", None)
