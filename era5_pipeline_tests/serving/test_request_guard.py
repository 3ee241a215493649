"""What is around every request: HEAD, bodies, long URLs, turns, and errors that nobody expected."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from fastapi import APIRouter, Response

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.browser_guard import AllowedHosts
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

routes = APIRouter()
MEGABYTES = 8


@routes.get("/large")
def large() -> Response:
    return Response(b"x" * (MEGABYTES << 20), media_type="text/plain")


@routes.get("/broken")
def broken() -> None:
    raise ZeroDivisionError("a secret of the server")


@pytest.fixture(scope="module")
def client(shared_database_url: str) -> Iterator[httpx.Client]:
    limits = ServingLimits(connections=1, wait_seconds=60.0, url_bytes=2_000)
    hosts = AllowedHosts.of(["weather.example.org"])
    with served(Warehouse(shared_database_url), limits, hosts=hosts, routes=routes) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/metrics", "/openapi.json", "/place/nowhere", "/large"])
def test_head_is_get_without_the_body(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"].split(";")[0] == get.headers["content-type"].split(";")[0]


def test_a_url_that_is_too_long_is_414(client: httpx.Client) -> None:
    answer = client.get("/healthz", params={"live": "x" * 2_000})
    assert answer.status_code == 414
    assert answer.json() == {"error": True, "reason": "The URL has 2,013 bytes, and the limit is 2,000."}


@pytest.mark.parametrize(
    ("called", "status"),
    [
        *(("localhost", 200), ("Weather.example.org", 200)),  # more of them: test_browser_guard
        *(("evil.example", 421), ("", 400)),
    ],
)
def test_a_host_that_is_not_this_server_is_refused_by_name(client: httpx.Client, called: str, status: int) -> None:
    for path in ("/healthz?live=true", "/v1/archive", "/docs"):
        answer = client.get(path, headers={"Host": called})
        assert answer.status_code == (status if status != 200 or path != "/v1/archive" else 400), path
        if status != 200:
            assert answer.json()["error"] is True
            assert ("ERA5_ALLOWED_HOSTS" if status == 421 else "Host header") in answer.json()["reason"]
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
def test_a_request_with_no_host_or_two_is_refused(client: httpx.Client, hosts: str) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as connection:
        connection.sendall(f"GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_a_body_is_not_kept_in_memory_and_not_asked_for(client: httpx.Client) -> None:
    answer = client.request("GET", "/healthz", params={"live": True}, content=b"x" * (5 << 20))
    assert answer.json() == {"status": "ok", "database": "not asked"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_405_in_the_form_of_all_errors(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "/healthz")
    assert (answer.status_code, answer.json()["error"]) == (405, True)
    assert answer.headers["allow"] == "GET"


def test_an_unknown_path_is_404_in_the_form_of_all_errors(client: httpx.Client) -> None:
    answer = client.get("/v2/archive")
    assert (answer.status_code, answer.json()) == (404, {"error": True, "reason": "Not Found"})


def test_an_error_that_nobody_expected_is_500_and_the_client_learns_nothing_of_it(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get("/broken")
    assert answer.status_code == 500
    assert answer.json()["error"] is True
    assert not {"secret", "Traceback", "ZeroDivision"} & set(answer.text.replace(".", " ").split())
    assert "GET /broken failed" in caplog.text
    assert "a secret of the server" in caplog.text
    assert client.get("/healthz").status_code == 200


def test_a_client_that_reads_slowly_keeps_nobody_waiting(client: httpx.Client) -> None:
    """There is one turn; the slow client has begun to get its answer, and the next is answered meanwhile."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            assert client.get("/large").headers["content-length"] == str(MEGABYTES << 20)


def test_what_a_browser_needs_to_be_told_is_in_every_answer(client: httpx.Client) -> None:
    for path in ("/", "/healthz", "/nothing", "/broken"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
