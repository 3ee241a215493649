"""A proxy in front of a web or an S3 server that refuses some requests, cuts them off, or is silent."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import httpx

from era5_pipeline_tests.local_http import LocalServer

if TYPE_CHECKING:
    from collections.abc import Iterator

# A status such as "503", or: "cut" before the answer, "half" of it, "silent".
How = str
# Making one for each request took most of the proxy's time: it reads all authorities' certificates.
_CLIENT = httpx.Client(timeout=240, trust_env=False)
_OWN_HEADERS = {"content-length", "transfer-encoding", "connection", "server", "date"}
_CODES = {503: "SlowDown", 507: "InsufficientStorage"}


class FailingProxy:
    """Passes requests on, except the next ones that `fail` says; `failed` has those, and `asked` all, by method."""

    def __init__(self, url: str) -> None:
        proxy = self
        self.asked: list[str] = []
        self.failed: list[str] = []
        self.retry_after = ""
        self._how: How = ""
        self._left = 0
        self._where = ""
        self._stopping = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The body follows the headers at once, and not when the client has acknowledged those, 40 ms later.
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self._body()
                how = proxy._next(f"{self.command} {self.path}")
                if how == "silent":
                    proxy._stopping.wait(30)
                if how in ("cut", "silent"):
                    self.close_connection = True
                elif how.isdigit():
                    code = _CODES.get(int(how), "Refused")
                    content = f"<Error><Code>{code}</Code><Message>Not now.</Message></Error>".encode()
                    headers = {"Content-Type": "application/xml", "Retry-After": proxy.retry_after}
                    self._answer(int(how), headers, b"" if self.command == "HEAD" else content)
                else:
                    sent = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
                    answer = _CLIENT.request(self.command, f"{url}{self.path}", headers=sent, content=body)
                    headers = {name: value for name, value in answer.headers.items() if name not in _OWN_HEADERS}
                    if self.command == "HEAD":
                        headers["Content-Length"] = answer.headers.get("Content-Length", "0")
                    self._answer(answer.status_code, headers, answer.content, half=how == "half")

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return b"".join(parts)

            def _answer(self, status: int, headers: dict[str, str], content: bytes, *, half: bool = False) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if value:
                        self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if half else content)
                self.close_connection = half

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = LocalServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def fail(self, how: How, times: int = 10**6, where: str = "") -> None:
        """Fail the next `times` requests whose method and path match the pattern `where`."""
        self._how, self._left, self._where = how, times, where

    def _next(self, request: str) -> How:
        self.asked.append(request)
        if not self._left or re.search(self._where, request) is None:
            return ""
        self._left -= 1
        self.failed.append(request)
        return self._how

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def failing_proxy(url: str) -> Iterator[FailingProxy]:
    proxy = FailingProxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
