"""Numbers of the server for Prometheus: requests, their duration and bytes, connections in use; over all processes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of the environment: where processes of one server write their numbers. It is read when the library is imported.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Of requests that no route answers: their paths are anybody's words.
_NO_ROUTE = "none"

metrics_routes = APIRouter(tags=["server"])


class ServingMetrics:
    """The numbers of one process, kept where the others find them."""

    def __init__(self, connections: int) -> None:
        self._own = CollectorRegistry()
        self._requests = Counter(
            "era5_http_requests", "Requests that were answered", ("route", "status"), registry=self._own
        )
        self._seconds = Histogram(
            "era5_http_request_duration_seconds",
            "Time from a request to the end of its answer",
            ("route",),
            buckets=_SECONDS,
            registry=self._own,
        )
        self._bytes = Counter(
            "era5_http_response_bytes",
            "Bytes of answers, as they were sent, without headers",
            ("route",),
            registry=self._own,
        )
        self._under_way = _live_gauge("era5_http_requests_under_way", "Requests that are being answered", self._own)
        self._in_use = _live_gauge(
            "era5_http_connections_in_use", "Connections that a request is reading by", self._own
        )
        _live_gauge("era5_http_connections_limit", "Connections that the pools may have", self._own).set(connections)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request as under way in this context."""
        self._under_way.inc()
        try:
            yield
        finally:
            self._under_way.dec()

    @contextmanager
    def connection_in_use(self) -> Iterator[None]:
        """Count a connection as in use in this context."""
        self._in_use.inc()
        try:
            yield
        finally:
            self._in_use.dec()

    def answered(self, route: str | None, status: int, seconds: float, sent_bytes: int) -> None:
        """Count an answer; `route` is the path of the route, with its parameters' names."""
        name = route or _NO_ROUTE
        self._requests.labels(name, str(status)).inc()
        self._seconds.labels(name).observe(seconds)
        self._bytes.labels(name).inc(sent_bytes)

    def registry(self) -> CollectorRegistry:
        """The numbers of all processes."""
        folder = os.environ.get(METRICS_FOLDER)
        if folder is None:
            return self._own
        for path in Path(folder).glob("gauge_live*_*.db"):
            pid = int(path.stem.rpartition("_")[2])
            if not Path("/proc", str(pid)).exists():
                mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
        everything = CollectorRegistry()
        MultiProcessCollector(everything, folder)  # type: ignore[no-untyped-call]
        return everything


def _live_gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(name, text, registry=registry, multiprocess_mode="livesum")


@metrics_routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text"}},
)
def metrics(request: Request) -> Response:
    """Count requests, seconds, bytes and connections, for Prometheus.

    They are of all processes of this server, since it started. Numbers of the table itself come from `era5 metrics`.
    """
    found: ServingMetrics = request.app.state.metrics
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(found.registry()), headers={"Content-Type": media_type, "Cache-Control": "no-store"})
