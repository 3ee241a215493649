"""HTTP: URLs and proxies in settings, posts to a webhook, and the browser requests that a local server may answer."""

from __future__ import annotations

import logging
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


# --- Protect a local server without a password from other sites' pages ---
#
# A browser on this machine sends the server whatever any page asks it to. There are two attacks. Either a page's own
# host name is resolved to this machine ("DNS rebinding"), and the browser takes this server for the page's: the `Host`
# header then has that name, which `AllowedHosts` refuses. Or a page sends a cross-site request, whose response it
# cannot read but which takes effect: `Origin` and `Sec-Fetch-Site` then reveal it, and `BrowserGuard` refuses it.


ANY_HOST = "*"
_HOST = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_LOCAL = "localhost"
_PORTS = {"http": 80, "https": 443}
# Browsers send `same-origin` for this server's own pages, and `none` for typed addresses and bookmarks.
_OTHER_SITES = frozenset({"cross-site", "same-site"})
_GRAPHQL = "/graphql"


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused, and the HTTP status of the response."""

    status: int
    reason: str


@dataclass(frozen=True)
class AllowedHosts:
    """Host names that clients may use for this server, besides localhost and IP addresses; `*` allows all.

    Unlike a name, an IP address cannot be rebound, and names below localhost never leave the machine.
    """

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str], listening_on: str = "") -> AllowedHosts:
        """Allow these names, in any case, and the host name in `listening_on`, if it has one."""
        found = set() if _is_address(listening_on) or not listening_on else {listening_on.lower().removesuffix(".")}
        for name in names:
            parsed = _parsed(name.strip())
            if name.strip() != ANY_HOST and (parsed is None or parsed[1] is not None):
                raise UsageError(
                    f"allowed host {name.strip()!r}: not a host name",
                    remedy="Give the name alone, without http:// and port, such as weather.example.org, or * for any.",
                )
            found.add(parsed[0] if parsed else ANY_HOST)
        return cls(frozenset(found))

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Why a request with these ASGI headers is refused; None if it is allowed."""
        if ANY_HOST in self.names:
            return None
        hosts = _values(headers, b"host")
        parsed = _parsed(hosts[0]) if len(hosts) == 1 else None
        if parsed is None:
            return Refusal(HTTPStatus.BAD_REQUEST, "The request must have one Host header, with a name or an address.")
        name = parsed[0]
        if name in self.names or name == _LOCAL or name.endswith(f".{_LOCAL}") or _is_address(name):
            return None
        return Refusal(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"This server does not answer to the name {name}: another site could have led a browser here. If the "
            f"name is this server's own, set ERA5_ALLOWED_HOSTS={name} and start it again.",
        )


class BrowserGuard:
    """ASGI middleware for an app that obeys every request, such as Dagster's web server; non-browsers pass.

    Programs other than browsers send neither `Origin` nor `Sec-Fetch-Site`. Links from other sites to a page work.
    """

    def __init__(self, app: ASGIApp, hosts: AllowedHosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it to the app."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._hosts.refusal(scope["headers"]) or self._refusal_of_origin(scope)
        if refusal is None:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})  # the client sees 403
        else:
            await _send_text(send, refusal)

    def _refusal_of_origin(self, scope: MutableMapping[str, Any]) -> Refusal | None:
        headers = scope["headers"]
        origins = _values(headers, b"origin")
        if not all(self._is_own(origin, headers) for origin in origins):
            return Refusal(
                HTTPStatus.FORBIDDEN,
                "A page of another site sent this request. Behind a proxy that has a name of its own, set "
                "ERA5_ALLOWED_HOSTS to that name.",
            )
        is_page = _is_page(scope)
        if _OTHER_SITES.intersection(_values(headers, b"sec-fetch-site")) and not is_page:
            return Refusal(HTTPStatus.FORBIDDEN, "A page of another site sent this request.")
        if scope["path"] == _GRAPHQL and scope.get("method") in ("GET", "HEAD") and not _takes_html(headers):
            # An image on any page sends a GET, and without TLS a browser need not reveal the origin.
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Send GraphQL by POST: a GET could change something.")
        return None

    def _is_own(self, origin: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return True if the origin is this server, by the request's own host name and port, or an allowed name."""
        scheme, _, host = origin.partition("://")
        page, default = _parsed(host), _PORTS.get(scheme)
        if page is None or default is None:
            return False
        if page[0] in self._hosts.names:
            return True
        server = _parsed("".join(_values(headers, b"host")))
        return server is not None and (page[0], page[1] or default) == (server[0], server[1] or default)


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _parsed(host: str) -> tuple[str, int | None] | None:
    """Parse `host` or `host:port`, in lower case and without a trailing dot; None if it is not a host."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return None
    name = match["host"].removesuffix(".")
    if not name or (name.startswith("[") and not _is_address(name)):
        return None
    return name, int(match["port"]) if match["port"] else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_page(scope: MutableMapping[str, Any]) -> bool:
    """Return True if a browser tab will show the response; excludes frames and GraphQL's own page."""
    headers = scope["headers"]
    return (
        scope.get("method") in ("GET", "HEAD")
        and scope["path"] != _GRAPHQL
        and _values(headers, b"sec-fetch-mode") == ["navigate"]
        and _values(headers, b"sec-fetch-dest") == ["document"]
    )


def _takes_html(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any("text/html" in value for value in _values(headers, b"accept"))


def _unframed(send: Send) -> Send:
    """Keep other sites from framing the response, where users could be tricked into pressing its buttons."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-frame-options", b"SAMEORIGIN")]
        await send(message)

    return sending


async def _send_text(send: Send, refusal: Refusal) -> None:
    body = refusal.reason.encode() + b"\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
