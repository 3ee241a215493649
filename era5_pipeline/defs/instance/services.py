"""Dagster's long-running processes: the code server first, then webserver and daemon, all on loopback."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from era5_pipeline.model.errors import LocalDiskError, UsageError, disk_errors
from era5_pipeline.runtime.files import write_json
from era5_pipeline.runtime.supervisor import ManagedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
LOCATION, DEFINITIONS = "era5_pipeline", "era5_pipeline.definitions"
WEB_SERVER, DAEMON = "era5_pipeline.defs.instance.web_server", "era5_pipeline.defs.instance.daemon"
# How often a killed service is restarted within ten minutes.
_RESTARTS = 5
# How long a service may take to answer a check of its health; it is checked again.
_HEALTH_SECONDS = 2
# The limit for the path of a Unix socket is 104 (macOS) or 108 bytes.
_SOCKET_BYTES = 100


def dagster_services(folder: Path, port: int) -> tuple[ManagedProcess, ...]:
    """Code server, webserver and daemon; the code server listens on a socket in `folder`, the webserver on `port`.

    Webserver and daemon share one code server; otherwise each would start one. It starts first, because a webserver
    without it answers with errors. Location and socket keep their names across restarts: schedules and backfills are
    stored under them.
    """
    socket = socket_path(folder)
    socket.unlink(missing_ok=True)
    workspace = folder / "workspace.yaml"
    server = {"host": "localhost", "socket": str(socket), "location_name": LOCATION}
    # JSON is valid YAML.
    write_json(workspace, {"load_from": [{"grpc_server": server}]})
    with_workspace = ("--workspace", str(workspace))
    return (
        ManagedProcess(
            "code-server",
            (
                *(*_module("dagster"), "code-server", "start", "--module-name", DEFINITIONS),
                *("--location-name", LOCATION, "--socket", str(socket)),
            ),
            ready=partial(_serves_grpc, socket),
            restarts=_RESTARTS,
        ),
        ManagedProcess(
            "webserver",
            (*_module(WEB_SERVER), "--host", LOOPBACK, "--port", str(port), *with_workspace),
            ready=partial(_serves_http, f"http://{LOOPBACK}:{port}/server_info"),
            restarts=_RESTARTS,
        ),
        ManagedProcess("daemon", (*_module(DAEMON), "run", *with_workspace), restarts=_RESTARTS),
    )


@contextmanager
def sole_services(folder: Path) -> Iterator[None]:
    """Lock `folder` for one set of services: a second code server would take over the socket of the first."""
    with disk_errors("starting the services", folder):
        file = (folder / "services.lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"era5 up is already running in {folder.parent}",
                remedy="Use or stop that one, or set ERA5_HOME to another folder.",
            ) from None
        yield


def socket_path(folder: Path) -> Path:
    """The code server's socket: in `folder`, or in a private temporary folder if that path is too long."""
    path = folder / "code.sock"
    if len(os.fsencode(path)) <= _SOCKET_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    private = Path(tempfile.gettempdir()) / f"era5-{os.getuid()}-{digest}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.getuid():
        raise LocalDiskError(
            f"{private} belongs to another user", remedy="Set ERA5_HOME to a folder with a shorter path."
        )
    return private / "code.sock"


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name)


def _serves_grpc(socket: Path) -> bool:
    if not socket.exists():
        return False
    # The health service that is standard for gRPC.
    try:
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=_HEALTH_SECONDS)
    except grpc.RpcError:
        return False
    return bool(answer.status == HealthCheckResponse.SERVING)


def _serves_http(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=_HEALTH_SECONDS) as response:  # noqa: S310  # always http, on loopback
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
