"""Protection of a server without a password from pages of other sites, which a browser on its machine may show.

A browser sends the server whatever any page asks it to. There are two attacks. Either a page's own host name is
resolved to this machine ("DNS rebinding"), and the browser takes this server for the page's: the `Host` header then has
that name, which `AllowedHosts` refuses. Or a page sends a cross-site request, whose response it cannot read but which
takes effect: `Origin` and `Sec-Fetch-Site` then reveal it, and `BrowserGuard` refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why a request with these headers is refused; None if it is allowed."""
        if ANY_HOST in self.names:
            return None
        hosts = headers.getlist("host")
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
        headers = Headers(scope=scope)
        refusal = self._hosts.refusal(headers) or self._refusal_of_origin(scope, headers)
        if refusal is None:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})  # the client sees 403
        else:
            more = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
            await PlainTextResponse(f"{refusal.reason}\n", refusal.status, more)(scope, receive, send)

    def _refusal_of_origin(self, scope: Scope, headers: Headers) -> Refusal | None:
        if not all(self._is_own(origin, headers) for origin in headers.getlist("origin")):
            return Refusal(
                HTTPStatus.FORBIDDEN,
                "A page of another site sent this request. Behind a proxy that has a name of its own, set "
                "ERA5_ALLOWED_HOSTS to that name.",
            )
        reads, is_graphql = scope.get("method") in ("GET", "HEAD"), scope["path"] == _GRAPHQL
        # Not GraphQL's own page.
        is_page = reads and not is_graphql and _is_page(headers)
        if _is_of_other_site(headers) and not is_page:
            return Refusal(HTTPStatus.FORBIDDEN, "A page of another site sent this request.")
        if is_graphql and reads and not any("text/html" in value for value in headers.getlist("accept")):
            # An image on any page sends a GET, and without TLS a browser need not reveal the origin.
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Send GraphQL by POST: a GET could change something.")
        return None

    def _is_own(self, origin: str, headers: Headers) -> bool:
        """Return True if the origin is this server, by the request's own host name and port, or an allowed name."""
        scheme, _, host = origin.partition("://")
        page, default = _parsed(host), _PORTS.get(scheme)
        if page is None or default is None:
            return False
        if page[0] in self._hosts.names:
            return True
        server = _parsed("".join(headers.getlist("host")))
        return server is not None and (page[0], page[1] or default) == (server[0], server[1] or default)


def sent_by_page_of_other_site(headers: Headers) -> bool:
    """Return True if a page of another site sent the request by itself: not a link that a user follows."""
    return _is_of_other_site(headers) and not _is_page(headers)


def _is_of_other_site(headers: Headers) -> bool:
    return not _OTHER_SITES.isdisjoint(headers.getlist("sec-fetch-site"))


def _is_page(headers: Headers) -> bool:
    """Return True if a browser tab will show the response: no frame."""
    return [headers.getlist(f"sec-fetch-{name}") for name in ("mode", "dest")] == [["navigate"], ["document"]]


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


def _unframed(send: Send) -> Send:
    """Keep other sites from framing the response, where users could be tricked into pressing its buttons."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-frame-options", b"SAMEORIGIN")]
        await send(message)

    return sending
