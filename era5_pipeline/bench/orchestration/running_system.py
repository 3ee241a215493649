"""`era5 up` in a process of its own, with a folder of its own: the system as a user starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.orchestration.web_api import WebApi
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
from era5_pipeline.postgres.embedded.server_processes import first_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_COMMAND = (sys.executable, "-c", "from era5_pipeline.cli import main; main()", "up", "--port")
_READY = "Press Ctrl-C"
_STOP_SECONDS = 120.0


@dataclass(frozen=True)
class RunningSystem:
    """The process id of `era5 up`, that of its embedded server (None: the server is the user's), and its web UI."""

    pid: int
    postmaster: int | None
    web: WebApi


@contextmanager
def running_system(home: Path, env: Mapping[str, str]) -> Iterator[RunningSystem]:
    """Run `era5 up` with ERA5_HOME=`home` and the settings `env`, and none of the user's.

    Raises:
        CannotRunError: if it does not start, with what it printed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ERA5_", "DAGSTER_"))}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "up.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603  # our own command
            (*_COMMAND, str(port)),
            env=kept | dict(env) | {"ERA5_HOME": str(home)},
            cwd=home,  # without the user's .env
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            if process.stdout is None or not any(line.startswith(_READY) for line in process.stdout):
                log.seek(0)
                raise CannotRunError(f"era5 up did not start: {log.read().strip()[-1000:]}")
            server = EmbeddedServer(home)
            postmaster = None if "ERA5_DATABASE_URL" in env else first_number(server.data_folder / "postmaster.pid")
            yield RunningSystem(process.pid, postmaster, WebApi(f"http://127.0.0.1:{port}"))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=_STOP_SECONDS)
