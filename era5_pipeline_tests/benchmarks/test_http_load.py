"""`benchmarks.http_load`: latencies from when a request was due, of every request, from a real server."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from benchmarks.cells import CannotRunError
from benchmarks.http_load import HttpLoad, make_load
from benchmarks.reaching import load_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

PAUSE = 0.02


class _Handler(BaseHTTPRequestHandler):
    """Answers `/N` with N bytes, or 304 for the tag; `/slow` when the server ends, `/lost` never, the rest with 404."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = self.path.removeprefix("/")
        if asked == "lost":
            self.close_connection = True
            return
        if asked == "slow":
            assert isinstance(self.server, _Server)
            self.server.end.wait(60)
        time.sleep(PAUSE)
        known = self.headers["If-None-Match"] == "known"
        self.send_response(304 if known else 200 if asked.isdigit() else 404)
        body = b"x" * int(asked) if asked.isdigit() and not known else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.end = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A client that has left is no error of the test."""


@contextmanager
def one_at_a_time() -> Iterator[int]:
    """The port of a server that answers one connection after another."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.end.set()
        server.shutdown()
        server.server_close()
        thread.join()


def test_every_body_is_read_to_its_end() -> None:
    with one_at_a_time() as port:
        result = make_load(HttpLoad(port, ("/0", "/5", "/300000"), 1, 60))
    assert result.outcomes == {"200": 3}
    assert result.bytes == 300_005
    assert len(result.latencies) == 3
    assert min(result.latencies) >= PAUSE
    assert result.seconds >= 3 * PAUSE


def test_the_wait_for_a_server_that_falls_behind_is_counted() -> None:
    count, rate = 40, 200.0
    with one_at_a_time() as port:
        result = make_load(HttpLoad(port, ("/1",) * count, 1, 60, rate))
    # The last was due after 39 / 200 s, and answered after 40 pauses.
    assert result.latencies[-1] >= count * PAUSE - (count - 1) / rate
    assert result.latencies[0] < result.latencies[-1]
    assert result.sent_late >= result.latencies[-1] - 10 * PAUSE
    figures = load_figures(result, server_seconds=0.4)
    assert figures["requests_per_second"] <= 1 / PAUSE
    assert figures["p99_ms"] >= 1000 * result.latencies[-3]
    assert figures["server_cpu_ms"] == pytest.approx(10)
    assert figures["kilobytes"] == pytest.approx(0.001)


def test_unchanged_answers_have_no_body() -> None:
    with one_at_a_time() as port:
        result = make_load(HttpLoad(port, ("/7", "/7"), 1, 60, headers={"If-None-Match": "known"}))
    assert (result.outcomes, result.bytes) == ({"304": 2}, 0)


@pytest.mark.parametrize(
    ("path", "said", "limit"),
    [
        ("/wrong", "'404': 1", 60),
        ("/lost", "'ServerDisconnectedError': 1", 60),
        ("/slow", "'no answer in time': 1", 5),  # it is waited out
    ],
)
def test_a_request_without_its_answer_is_no_measurement(path: str, said: str, limit: float) -> None:
    with one_at_a_time() as port, pytest.raises(CannotRunError, match=r"of 2 requests, 1 were answered") as refused:
        make_load(HttpLoad(port, ("/1", path), 1, limit))
    assert said in str(refused.value)


def test_a_server_that_is_not_there() -> None:
    with one_at_a_time() as port:
        pass
    with pytest.raises(CannotRunError, match=r"of 1 requests, 0 were answered: .*'ClientConnectorError': 1"):
        make_load(HttpLoad(port, ("/1",), 1, 60))
