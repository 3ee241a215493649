"""Running the app: its socket, one process or several, their log, and their shutdown."""

from __future__ import annotations

import copy
import errno
import ipaddress
import os
import pickle
import socket
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn import Config, Server
from uvicorn.config import LOGGING_CONFIG
from uvicorn.supervisors import Multiprocess

from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.serving.connections import PromptConnection, raise_file_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI

    from era5_pipeline.serving.application import ServedApp

# Grace period for answers in progress at shutdown.
_GRACE_SECONDS = 10
_BACKLOG = 512
_TEND_SECONDS = 2.0
# uvicorn kills a process that does not answer it for so long. Before one answers, it imports this module: 0.4 s of CPU.
# Meanwhile uvicorn heeds no signal: a longer time would outlast the 30 s that Kubernetes gives a server to stop.
_ANSWER_SECONDS = 20


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on the host and port; port 0: any free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(
            f"the host {host!r} is not known: {getattr(error, 'strerror', None) or error}",
            remedy="Give a name or an address of this machine: --host 127.0.0.1, or 0.0.0.0 for all of its networks.",
        ) from error
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise _cannot_listen(host, port, error) from error
    bound.set_inheritable(True)
    return bound


def _cannot_listen(host: str, port: int, error: OSError) -> Era5Error:
    match error.errno:
        case errno.EADDRINUSE:
            return UsageError(
                f"port {port} is in use on {host}", remedy="Stop what uses it, or choose another: era5 serve --port N."
            )
        case errno.EACCES:
            return UsageError(
                f"port {port} is reserved for root", remedy="Choose one from 1024 on: era5 serve --port N."
            )
        case _:
            return UsageError(
                f"cannot listen on {host}, port {port}: {error.strerror}",
                remedy="Give an address of this machine: --host 127.0.0.1, or 0.0.0.0 for all of its networks.",
            )


def address_of(bound: socket.socket) -> str:
    """The URL at which the socket is reached from this machine."""
    host, port = bound.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    """Return True if the socket is reachable only from this machine."""
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


def run_server(app: ServedApp, bound: socket.socket, workers: int, *, access_log: bool) -> None:
    """Serve on the socket until Ctrl-C or SIGTERM; answers in progress get a grace period.

    With several processes, uvicorn starts them, and replaces any that dies.
    """
    raise_file_limit()
    if workers > 1:
        from era5_pipeline.serving.requests import METRICS_FOLDER  # noqa: PLC0415  # see _ANSWER_SECONDS

        config = server_config(_AppOfProcess(pickle.dumps(app)), workers, access_log=access_log)
        # The folder where the processes write their metrics, so that any of them can add them up.
        with tempfile.TemporaryDirectory(prefix="era5-serve-") as folder:
            os.environ[METRICS_FOLDER] = folder
            Multiprocess(config, sockets=[bound]).run()
        return
    try:
        Server(server_config(app, workers, access_log=access_log)).run(sockets=[bound])
    except KeyboardInterrupt:  # uvicorn raises it again after a clean shutdown
        return


@dataclass(frozen=True)
class _AppOfProcess:
    """Makes the app in a server process, from a pickled `ServedApp`.

    Unpickling that imports the whole app (3 s of CPU), during which a process does not answer uvicorn. As bytes it is
    unpickled only when the app is made; before, on a busy machine, uvicorn killed and replaced every process for ever.
    """

    pickled: bytes

    def __call__(self) -> FastAPI:
        app: FastAPI = pickle.loads(self.pickled)()  # noqa: S301  # by `run_server`
        return app


def server_config(app: Callable[[], FastAPI], workers: int, *, access_log: bool) -> Config:
    """Uvicorn's configuration for the app that `app` makes in each process."""
    return Config(
        app,
        factory=True,
        workers=workers,
        log_config=_log_config(),
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_worker_healthcheck=_ANSWER_SECONDS,
        http=PromptConnection,
    )


@contextmanager
def tended(tend: Callable[[], None], warn: Callable[[str], None]) -> Iterator[None]:
    """Call `tend` every few seconds in a thread in this context; on an `Era5Error`, warn and stop."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(_TEND_SECONDS):
            try:
                tend()
            except Era5Error as error:
                warn(f"{error.message}\n      {error.remedy}")
                return

    thread = threading.Thread(target=repeat, name="tended", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _log_config() -> dict[str, Any]:
    """Uvicorn's log on standard error, without its own messages about start and end."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["formatters"]["access"]["fmt"] = '%(asctime)s %(client_addr)s "%(request_line)s" %(status_code)s'
    config["formatters"]["default"]["fmt"] = "%(asctime)s %(levelname)s %(message)s"
    config["handlers"]["access"]["stream"] = "ext://sys.stderr"
    config["loggers"]["uvicorn.error"] = {"handlers": ["default"], "level": "WARNING", "propagate": False}
    # Answers report these warnings, with their reason.
    config["loggers"]["psycopg"] = {"level": "ERROR"}
    config["loggers"]["psycopg.pool"] = {"level": "ERROR"}
    return config
