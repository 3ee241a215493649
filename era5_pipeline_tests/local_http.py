"""HTTP servers on 127.0.0.1: one whose clients may be killed, a proxy of connections, and a receiver of alerts."""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "T000-correct-horse"


class LocalServer(ThreadingHTTPServer):
    """A server that says nothing when a client goes away.

    The base class prints a traceback, which would look like one of a command that runs in this process.
    """

    # With the base class's 5, connections opened at the same time are refused, and tried again a second later.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Receiver:
    """Bodies of the POSTs in their order; `status` is what the next ones are answered with, `asked` counts requests."""

    port: int = 0
    status: int = 200
    asked: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/{SECRET}"


@contextmanager
def new_receiver() -> Iterator[Receiver]:
    """Serve until the end of the context, on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.asked += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.status == 200 and self.path == f"/services/{SECRET}":
                assert self.headers["Content-Type"] == "application/json"
                receiver.bodies.append(json.loads(body))
            self.send_response(receiver.status)
            if receiver.status == 302:
                self.send_header("Location", f"/services/{SECRET}")
            self.end_headers()

        def do_GET(self) -> None:  # what a client does that follows a redirect
            receiver.asked += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with LocalServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        with _serving(server):
            yield receiver


@dataclass
class ConnectProxy:
    """A proxy that connects each client to the port `to`, whatever host it names, or gives `status`; 0: no answer."""

    to: int
    port: int = 0
    status: int = 200
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://me:{SECRET}@127.0.0.1:{self.port}"


@contextmanager
def connect_proxy(to: int) -> Iterator[ConnectProxy]:
    """Serve until the end of the context, on a free port."""
    proxy = ConnectProxy(to)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            proxy.asked.append(self.path)
            self.close_connection = True
            if not proxy.status:
                self.rfile.read(1)  # until the client goes away
                return
            self.send_response(proxy.status)
            self.end_headers()
            if proxy.status == 200:
                with socket.create_connection(("127.0.0.1", proxy.to)) as server:
                    back = threading.Thread(target=_pass_on, args=(server, self.connection))
                    back.start()
                    _pass_on(self.connection, server)
                    back.join()

        def log_message(self, *_: object) -> None:
            pass

    with LocalServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        proxy.port = server.server_port
        with _serving(server):
            yield proxy


@contextmanager
def _serving(server: LocalServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


def _pass_on(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while sent := source.recv(1 << 16):
            to.sendall(sent)
    for one in (source, to):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
