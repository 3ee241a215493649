"""The HTTP server in a thread of the tests, on a free port of 127.0.0.1, and a client of it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
from uvicorn import Server

from era5_pipeline.serving.application import make_app
from era5_pipeline.serving.server import address_of, bound_socket, server_config
from era5_pipeline_tests.warehouse.loads import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import APIRouter

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.serving.browser_guard import AllowedHosts
    from era5_pipeline.serving.fetch import FetchRequests
    from era5_pipeline.serving.requests import ServingLimits


@contextmanager
def served(
    warehouse: Warehouse,
    limits: ServingLimits | None = None,
    *,
    cors_origins: tuple[str, ...] = (),
    hosts: AllowedHosts | None = None,
    fetches: FetchRequests | None = None,
    routes: APIRouter | None = None,
) -> Iterator[httpx.Client]:
    """Serve the warehouse in this context, with routes of the test besides; yields a client of the server."""
    app = make_app(warehouse, limits, cors_origins, hosts, fetches)
    if routes is not None:
        app.include_router(routes)
    with bound_socket("127.0.0.1", 0) as bound:
        url = address_of(bound)
        config = server_config(lambda: app, workers=1, access_log=False)
        config.log_config = None  # pytest reads the log
        server = Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="era5 serve")
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive())
            with httpx.Client(base_url=url, timeout=SECONDS) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            assert not thread.is_alive(), "the server did not end"
