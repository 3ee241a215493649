"""Tests of `serving/browser_guard`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.browser_guard import AllowedHosts, BrowserGuard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message
    from starlette.websockets import WebSocket

OWN = AllowedHosts.of(["weather.example.org"])
CROSS = {"Sec-Fetch-Site": "cross-site"}
TO_A_TAB = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}


def status_of_host(*hosts: str, allowed: AllowedHosts = OWN) -> int:
    refusal = allowed.refusal(Headers(raw=[(b"host", host.encode("latin-1")) for host in hosts]))
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    "called",
    [
        *("localhost", "LocalHost", "localhost.", "localhost:3000", "app.localhost:3000"),
        *("127.0.0.1", "127.0.0.1:65535", "192.168.1.7:8000", "[::1]", "[::1]:3000", "[FE80::1]:3000"),
        *("weather.example.org", "WEATHER.example.ORG.:443"),
    ],
)
def test_names_of_this_machine_and_addresses_are_let_through(called: str) -> None:
    assert status_of_host(called) == 200


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        *((("evil.example",), 421), (("evil.example:3000",), 421), (("localhost.evil.example",), 421)),
        *((("notlocalhost",), 421), (("127.0.0.1.evil.example",), 421), (("sub.weather.example.org",), 421)),
        *((("127.1",), 421), (("2130706433",), 421)),  # a browser writes such addresses out
        *(((), 400), (("",), 400), ((".",), 400), ((":3000",), 400), (("localhost", "evil.example"), 400)),
        *((("::1",), 400), (("[::1",), 400), (("[::g]",), 400), (("localhost:port",), 400)),
        *((("user@localhost",), 400), (("localhost/evil",), 400), (("évil.example",), 400), (("local host",), 400)),
    ],
)
def test_other_names_are_421_and_what_is_no_host_400(hosts: tuple[str, ...], status: int) -> None:
    assert status_of_host(*hosts) == status


def test_any_host_may_be_allowed() -> None:
    any_host = AllowedHosts.of(["*"])
    assert [status_of_host(*hosts, allowed=any_host) for hosts in (("evil.example",), ())] == [200, 200]


def test_the_name_that_is_listened_on_is_allowed() -> None:
    assert AllowedHosts.of((), listening_on="Server.lan").names == {"server.lan"}
    assert AllowedHosts.of((), listening_on="::").names == set()


@pytest.mark.parametrize("name", ["http://weather.example.org", "weather.example.org:443", "a b", "*.example.org", ""])
def test_what_is_no_name_cannot_be_allowed(name: str) -> None:
    with pytest.raises(UsageError, match="not a host name") as error:
        AllowedHosts.of([name])
    assert "without http://" in error.value.remedy


async def _answered(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} was obeyed")


async def _talked(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


APP = BrowserGuard(
    Starlette(routes=[Route("/{path:path}", _answered, methods=["GET", "POST"]), WebSocketRoute("/graphql", _talked)]),
    OWN,
)


def asked(method: str, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://127.0.0.1:3000") as client:
            return await client.request(
                method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
            )

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/graphql", {}),  # a program
        ("POST", "/graphql", {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-origin"}),
        ("POST", "/graphql", {"Host": "[::1]:3000", "Origin": "http://[::1]:3000"}),
        ("POST", "/graphql", {"Host": "LOCALHOST:80", "Origin": "http://localhost"}),
        ("POST", "/graphql", {"Host": "weather.example.org", "Origin": "https://weather.example.org"}),
        # A proxy that asks by an address, for pages of its own name.
        ("POST", "/graphql", {"Origin": "https://weather.example.org", "Sec-Fetch-Site": "same-origin"}),
        ("GET", "/graphql", {"Accept": "text/html"}),  # GraphQL's own page, which asks by itself
        ("GET", "/runs", {"Sec-Fetch-Site": "none"}),
        ("GET", "/runs", CROSS | TO_A_TAB),  # a link
    ],
)
def test_own_pages_programs_and_links_are_let_through(method: str, path: str, headers: dict[str, str]) -> None:
    answer = asked(method, path, **headers)
    assert (answer.status_code, answer.text) == (200, f"{method} was obeyed")
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"


LOOKALIKES = (
    *("http://127.0.0.1:3001", "http://127.0.0.1", "http://localhost:3000", "ftp://127.0.0.1:3000"),
    "http://127.0.0.1:3000@evil.example",
)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/graphql", {"Host": "evil.example:3000", "Origin": "http://evil.example:3000"}, 421),
        *(("POST", "/graphql", {"Origin": origin}, 403) for origin in ("http://evil.example", "null", "", *LOOKALIKES)),
        ("POST", "/graphql", CROSS, 403),
        ("POST", "/runs", CROSS | TO_A_TAB, 403),
        ("GET", "/graphql?query=mutation", {}, 405),
        ("GET", "/%67raphql?query=mutation", {}, 405),
        ("GET", "/graphql?query=mutation", CROSS | TO_A_TAB, 403),
        ("GET", "/runs", {"Sec-Fetch-Site": "same-site"}, 403),
        ("GET", "/runs", CROSS | TO_A_TAB | {"Sec-Fetch-Dest": "iframe"}, 403),
        ("GET", "/server_info", {"Origin": "http://evil.example"}, 403),
    ],
)
def test_pages_of_other_sites_are_refused(method: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = asked(method, path, **headers)
    assert answer.status_code == status
    assert "obeyed" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("origin", "answer"),
    [
        (None, "websocket.accept"),
        ("http://127.0.0.1:3000", "websocket.accept"),
        ("http://evil.example", "websocket.close"),
        ("null", "websocket.close"),
    ],
)
def test_a_web_socket_of_another_site_is_closed_before_it_is_open(origin: str | None, answer: str) -> None:
    headers = [(b"host", b"127.0.0.1:3000"), *([(b"origin", origin.encode())] if origin else [])]
    scope = {"type": "websocket", "path": "/graphql", "headers": headers, "query_string": b"", "subprotocols": []}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(APP(scope, receive, send))
    assert sent[0]["type"] == answer
