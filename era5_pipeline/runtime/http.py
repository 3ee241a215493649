"""HTTP requests of this program: URLs and proxies in settings, and posts to a webhook."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# --- Check the URLs of HTTP services that receive a secret ---


def is_http_url(url: str) -> bool:
    """Return True if it is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is not a number, or an incomplete IPv6 address
        return False


def is_secure_url(url: str) -> bool:
    """Return True if the network cannot read what is sent to the URL: https, or this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def without_credentials(url: str) -> str:
    """The URL without its user and password, if any."""
    scheme, found, rest = url.partition("://")
    host, *path = rest.split("/", 1)
    return "/".join([f"{scheme}://{host.rpartition('@')[2]}", *path]) if found else url


# --- Name the proxy that a call went to instead of the service ---


_PROXY_SETTINGS = ("https_proxy", "http_proxy", "all_proxy")


def describe_proxy_failure(reason: str) -> str:
    """Say how the connection to the proxy failed, and which setting names which one, without user and password."""
    settings = {name: value for name, value in os.environ.items() if name.lower() in _PROXY_SETTINGS and value}
    named = [f"{name} is {value.rpartition('@')[2]}" for name, value in sorted(settings.items())]
    return f"the proxy does not answer: {reason}; {', '.join(named) or 'it is one of the system settings'}"


# --- Post JSON to a URL that is itself a secret, as chat services' are: it appears in no error and no log ---


_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
# Logs the path of every request at DEBUG, and of some errors at WARNING.
_HTTP_LOGGER = logging.getLogger("urllib3.connectionpool")


def require_webhook_url(url: str, setting: str) -> None:
    """Check the URL of a setting, without repeating it in messages."""
    if not is_http_url(url):
        raise UsageError(
            f"{setting} is not the URL of a web server", remedy="Set it to an address like https://host/path."
        )
    if not is_secure_url(url):
        raise UsageError(
            f"{setting} is plain http: what is sent, and the URL itself, could be read on the network",
            remedy="Use https; http is allowed for a server on this machine only.",
        )


def post_json(url: str, body: Mapping[str, Any]) -> str | None:
    """Post the JSON once; return None if it was accepted, else why not, without the URL.

    Redirects are not followed: the message would go to a server that the user did not choose.
    """
    try:
        with (
            _unlogged(),
            requests.post(
                url,
                json=body,
                timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
                allow_redirects=False,
                stream=True,  # the response body is not read: it could be endless
            ) as response,
        ):
            status = response.status_code
    except (OSError, HTTPError, ValueError) as error:
        return f"cannot be reached ({type(error).__name__})"
    if requests.codes.ok <= status < requests.codes.multiple_choices:
        return None
    if status < requests.codes.bad_request:
        return f"answered with a redirect (HTTP {status}), which is not followed"
    return f"answered with HTTP {status}"


@contextmanager
def _unlogged() -> Iterator[None]:
    """Silence the HTTP library's log in this context."""
    _HTTP_LOGGER.addFilter(_discard)
    try:
        yield
    finally:
        _HTTP_LOGGER.removeFilter(_discard)


def _discard(_: logging.LogRecord) -> bool:
    return False
