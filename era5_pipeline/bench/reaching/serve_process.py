"""`era5 serve` in a process of its own, as a user starts it, on a free port of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil as _psutil

from era5_pipeline.bench.cells import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.client import HTTPResponse
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

psutil: Any = _psutil  # it has no type annotations

_COMMAND = (sys.executable, "-c", "from era5_pipeline.cli import main; main()", "serve")
_OPTIONS = ("--port", "0", "--no-access-log")
_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True)
class ServeProcess:
    """The running server: its process, and its address, such as `http://127.0.0.1:8000`."""

    pid: int
    url: str

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    @property
    def processor_seconds(self) -> float:
        """User and system seconds of the server so far, without those of the database."""
        seconds = 0.0
        root = psutil.Process(self.pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                times = process.cpu_times()
                seconds += times.user + times.system
        return seconds

    def get(self, path: str) -> HTTPResponse:
        """The answer to a request.

        Raises:
            OSError: if there is none; `urllib.error.HTTPError`, which is one, has what it says.
        """
        response: HTTPResponse = urllib.request.urlopen(self.url + path, timeout=_READY_SECONDS)  # noqa: S310  # http
        return response


@contextmanager
def serve_process(warehouse: Warehouse, home: Path) -> Iterator[ServeProcess]:
    """Run the server with ERA5_HOME=`home`, with default settings and none of the user's.

    Raises:
        CannotRunError: if it does not start, with what it printed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ERA5_")}
    home.mkdir(parents=True, exist_ok=True)
    with (home / "serve.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603  # our own command
            (*_COMMAND, *_OPTIONS),
            env=kept | {"ERA5_HOME": str(home), "ERA5_DATABASE_URL": warehouse.url},
            cwd=home,  # without the user's .env
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None  # noqa: S101
            urls = [word for word in process.stdout.readline().replace(",", " ").split() if word.startswith("http://")]
            if not urls:
                log.seek(0)
                raise CannotRunError(f"era5 serve did not start: {log.read().strip()[-1000:]}")
            server = ServeProcess(process.pid, urls[0])
            _await(server)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _await(server: ServeProcess) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            server.get("/healthz").close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise CannotRunError(f"era5 serve is not well: {error}") from error
            time.sleep(0.2)
        else:
            return
