"""Addresses of services: their form, secrets in them, the proxy before them; and the wait that a service asks for."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def server_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL, which decide what may be sent there."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from the Retry-After header, which may be a date; None if it is absent or invalid."""
    text = headers.get("Retry-After", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
            then = date.replace(tzinfo=date.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        seconds = (then - datetime.now(tz=UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


_PROXY_SETTINGS = ("https_proxy", "http_proxy", "all_proxy")
PROXY_LOG_IN = "Give the proxy's user and password in HTTPS_PROXY: http://USER:PASSWORD@HOST:PORT."
AUTHORITY = "If there is a proxy in between, name its certificates in SSL_CERT_FILE; else check the address."


def describe_proxy_failure(reason: str, what: str = "does not answer") -> str:
    """Say how the connection by the proxy failed, and which setting names which one, without user and password."""
    settings = {name: value for name, value in os.environ.items() if name.lower() in _PROXY_SETTINGS and value}
    named = [f"{name} is {value.rpartition('@')[2]}" for name, value in sorted(settings.items())]
    return f"the proxy {what}: {reason}; {', '.join(named) or 'it is one of the system settings'}"
