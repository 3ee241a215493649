"""Connections of clients that are slow, silent or too many, to a real server."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn import Server

from era5_pipeline.serving import connections
from era5_pipeline.serving.connections import most_connections, raise_file_limit
from era5_pipeline.serving.server import bound_socket, server_config
from era5_pipeline_tests.warehouse.loads import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF_HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole request; answer one for /slow after two seconds."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def address() -> Iterator[tuple[str, int]]:
    """Serve in this context; yields the address."""
    with bound_socket("127.0.0.1", 0) as bound:
        config = server_config(lambda: app, workers=1, access_log=False)  # type: ignore[arg-type,return-value]
        config.log_config, config.lifespan = None, "off"
        server = Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            yield bound.getsockname()[:2]
        finally:
            server.should_exit = True
            thread.join(SECONDS)


def connected(to: tuple[str, int]) -> socket.socket:
    return socket.create_connection(to, timeout=SECONDS)


def answer(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    received = b""
    while not received.endswith(b"ok"):
        part = client.recv(4096)
        assert part, received
        received += part
    return received


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY, WHOLE + HALF_HEAD], ids=["none", "head", "body", "second"])
def test_a_request_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connections, "_SEND_SECONDS", 0.5)
    with address() as to, connected(to) as client:
        if sent.startswith(WHOLE):
            assert answer(client, WHOLE).startswith(b"HTTP/1.1 200")
            sent = sent.removeprefix(WHOLE)
        client.sendall(sent)
        assert client.recv(4096) == b""


def test_an_answer_may_take_longer_than_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SEND_SECONDS", 0.5)
    with address() as to, connected(to) as client:
        assert answer(client, WHOLE.replace(b"/ ", b"/slow ")).startswith(b"HTTP/1.1 200")


def test_a_thousand_idle_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SEND_SECONDS", 10.0)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    try:
        if most_connections() < 2_100:  # client and server are one process here
            pytest.skip("needs a limit of 2,300 open files")
        with address() as to, ExitStack() as stack:
            idle = [stack.enter_context(connected(to)) for _ in range(1_000)]
            for client in idle:
                client.sendall(HALF_HEAD)
            with connected(to) as client:
                assert answer(client, WHOLE).startswith(b"HTTP/1.1 200")
            assert all(client.recv(1) == b"" for client in idle)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_connections_leave_files_for_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_024), hard))
    try:
        assert most_connections() == min(soft, 1_024) - 128
        raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 16_384)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setattr(connections, "most_connections", lambda: 2)
    with address() as to, connected(to) as first, connected(to) as second:
        assert answer(first, WHOLE).startswith(b"HTTP/1.1 200")
        assert answer(second, WHOLE).startswith(b"HTTP/1.1 200")
        with connected(to) as third:
            assert third.recv(1) == b""
        time.sleep(0.1)
        assert answer(first, WHOLE).startswith(b"HTTP/1.1 200")
