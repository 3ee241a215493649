"""Dagster's long-running parts as services: the code server first, then webserver and daemon, all on loopback."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING

from dagster._grpc.client import DagsterGrpcClient

from era5_pipeline.supervisor import Service

if TYPE_CHECKING:
    from pathlib import Path

LOOPBACK = "127.0.0.1"


def dagster_services(socket: Path, port: int) -> tuple[Service, ...]:
    """Services that share one code server, reached by `socket`; the webserver listens on `port`.

    One code server for both: each would start one of its own otherwise. It comes first, for a webserver without it
    answers with errors.
    """
    at_socket = ("--grpc-socket", str(socket))
    return (
        Service(
            "code-server",
            (*_module("dagster"), "code-server", "start", "--module-name", "era5_pipeline.definitions")
            + ("--location-name", "era5_pipeline", "--socket", str(socket)),
            ready=partial(_serves_grpc, socket),
        ),
        Service(
            "webserver",
            (*_module("dagster_webserver"), "--host", LOOPBACK, "--port", str(port), *at_socket),
            ready=partial(_serves_http, f"http://{LOOPBACK}:{port}/server_info"),
        ),
        Service("daemon", (*_module("dagster._daemon"), "run", *at_socket)),
    )


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name)


def _serves_grpc(socket: Path) -> bool:
    return socket.exists() and DagsterGrpcClient(socket=str(socket)).health_check_query() == "SERVING"


def _serves_http(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310  # the URL is ours, on loopback
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
