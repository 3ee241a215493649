"""Judge addresses of HTTP services to which a secret is sent."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_http_url(url: str) -> bool:
    """Whether it is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or an incomplete IPv6 address
        return False


def is_secure_url(url: str) -> bool:
    """Whether nobody on the network can read what is sent to the URL: https, or this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
