"""The app that `era5 serve` runs: its routes, its pool of connections, and what is around every answer."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from era5_pipeline.model.package_version import __version__
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.http.browser_guard import AllowedHosts
from era5_pipeline.serving.answer_versions import DAY_HEADER, ORIGIN_HEADERS
from era5_pipeline.serving.archive.archive_parameters import ARCHIVE_BODY
from era5_pipeline.serving.archive.archive_route import ARCHIVE_PATH, MISSING_HEADER, archive_routes
from era5_pipeline.serving.archive.client_requests import ClientRequests
from era5_pipeline.serving.climate.climate_route import climate_routes
from era5_pipeline.serving.error_answers import ERROR_RESPONSES, add_error_handlers, describe_routes
from era5_pipeline.serving.limits import ServingLimits
from era5_pipeline.serving.monitoring.health import health_routes
from era5_pipeline.serving.monitoring.serving_metrics import ServingMetrics, metrics_routes
from era5_pipeline.serving.pages.page_routes import page_routes
from era5_pipeline.serving.pages.place_page import PageCache
from era5_pipeline.serving.reading_pool import ReadingPool
from era5_pipeline.serving.request_guard import RequestGuard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Headers that pages of other origins may read.
_TOLD = (*ORIGIN_HEADERS, DAY_HEADER, MISSING_HEADER)
# Besides the requests that have a turn: health, metrics, and cancelling what nobody waits for.
_MORE_THREADS = 4


@dataclass(frozen=True)
class ServedApp:
    """The parts of a process of the server; each process of several calls it to have an app of its own."""

    url: str = field(repr=False)
    limits: ServingLimits = field(default_factory=ServingLimits)
    cors_origins: tuple[str, ...] = ()
    hosts: AllowedHosts = field(default_factory=AllowedHosts)

    def __call__(self) -> FastAPI:
        """The app."""
        return make_app(Warehouse(self.url), self.limits, self.cors_origins, self.hosts)


def make_app(
    warehouse: Warehouse,
    limits: ServingLimits | None = None,
    cors_origins: tuple[str, ...] = (),
    hosts: AllowedHosts | None = None,
) -> FastAPI:
    """An app that answers from the warehouse; its connections are opened when it starts, and closed at its end."""
    limits = limits or ServingLimits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = limits.connections + _MORE_THREADS
        with ReadingPool(warehouse, limits) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(
        title="ERA5 warehouse",
        version=__version__,
        summary="Hours of ERA5 and what they say of the climate of a place, from a table in PostgreSQL",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address of such a redirect would be made of what the client calls this host
        responses=ERROR_RESPONSES,
    )
    metrics = ServingMetrics(limits.connections)
    app.state.limits, app.state.metrics = limits, metrics
    app.state.pages = PageCache(limits.wait_seconds)
    add_error_handlers(app)
    for routes in (archive_routes, climate_routes, page_routes, health_routes, metrics_routes):
        app.include_router(routes)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=cors_origins, allow_methods=["GET", "HEAD", "POST"], expose_headers=_TOLD
        )
    app.add_middleware(RequestGuard, limits=limits, metrics=metrics, hosts=hosts or AllowedHosts())
    app.add_middleware(ClientRequests, path=ARCHIVE_PATH, seconds=limits.wait_seconds)
    describe_routes(app, {ARCHIVE_PATH: ARCHIVE_BODY})
    return app
