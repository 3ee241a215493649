"""The app that `era5 serve` runs: its routes with `/healthz`, its pool of connections, and its middleware."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003  # pydantic evaluates it
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import psycopg
from fastapi import APIRouter, FastAPI, Response
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.package_version import __version__
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.dataset_connection import datasets_in, turn_to
from era5_pipeline.read.held import newest_hours
from era5_pipeline.serving.answers import DAY_HEADER, ORIGIN_HEADERS
from era5_pipeline.serving.archive.client_requests import ClientRequests
from era5_pipeline.serving.archive.parameters import ARCHIVE_BODY
from era5_pipeline.serving.archive.route import ARCHIVE_PATH, MISSING_HEADER, archive_routes
from era5_pipeline.serving.browser_guard import AllowedHosts
from era5_pipeline.serving.climate import climate_routes
from era5_pipeline.serving.errors import ERROR_RESPONSES, ErrorAnswer, add_error_handlers, describe_routes
from era5_pipeline.serving.fetch import FETCH_RESPONSES, FetchRequests, add_fetch_handler
from era5_pipeline.serving.pages import PageCache, page_routes
from era5_pipeline.serving.request_guard import RequestGuard
from era5_pipeline.serving.requests import (
    Reader,  # FastAPI evaluates it
    ReadingPool,
    ServingLimits,
    ServingMetrics,
    metrics_routes,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from era5_pipeline.model.dataset import Dataset


health_routes = APIRouter(tags=["server"])


class HealthAnswer(BaseModel):
    """The process answers, and so does its database; `newest_hours` are those that it holds, by source (UTC).

    Those of other data sets than the server's own are `newest_hours_of`, by the name of the data set.
    """

    status: Literal["ok"] = "ok"
    database: Literal["ok", "not asked"]
    newest_hours: dict[str, datetime] | None = None
    newest_hours_of: dict[str, dict[str, datetime]] | None = None


@health_routes.get("/healthz", responses={503: {"model": ErrorAnswer}}, response_model_exclude_none=True)
def healthz(reader: Reader, response: Response, live: bool = False) -> HealthAnswer:
    """Say whether the server can answer: 503 if its database cannot be reached.

    With `live=true`, only check that the process is alive, without asking the database.
    """
    response.headers["Cache-Control"] = "no-store"
    if live:
        return HealthAnswer(database="not asked")
    with reader.connected("asking the database") as connection:
        connection.execute("SELECT 1")
        own, others = _newest_hours(connection, reader.dataset), {}
        for dataset in datasets_in(connection):
            if dataset != reader.dataset and (found := _newest_hours(connection, dataset)):
                others[dataset.name] = found
        return HealthAnswer(database="ok", newest_hours=own, newest_hours_of=others or None)


def _newest_hours(connection: psycopg.Connection[Any], dataset: Dataset) -> dict[str, datetime] | None:
    """The newest hours; None if the ledger is missing, or locked: a server is no less healthy for that."""
    turn_to(connection, dataset)
    try:
        with connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '100ms'")
            return newest_hours(connection) or None
    except psycopg.errors.LockNotAvailable:
        return None


# Headers that pages from other origins may read.
_TOLD = (*ORIGIN_HEADERS, DAY_HEADER, MISSING_HEADER)
# Threads in addition to those of requests in progress: for health, metrics, and cancelling abandoned statements.
_MORE_THREADS = 4


@dataclass(frozen=True)
class ServedApp:
    """The parts of a server process; each of several processes calls it to make its app."""

    url: str = field(repr=False)
    limits: ServingLimits = field(default_factory=ServingLimits)
    cors_origins: tuple[str, ...] = ()
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    fetches: FetchRequests | None = None
    dataset: Dataset = ERA5

    def __call__(self) -> FastAPI:
        """The app."""
        return make_app(
            Warehouse(self.url, dataset=self.dataset), self.limits, self.cors_origins, self.hosts, self.fetches
        )


def make_app(
    warehouse: Warehouse,
    limits: ServingLimits | None = None,
    cors_origins: tuple[str, ...] = (),
    hosts: AllowedHosts | None = None,
    fetches: FetchRequests | None = None,
) -> FastAPI:
    """An app that answers from the warehouse; it opens its connections at startup, and closes them at shutdown.

    With `fetches`, requests for places that are not loaded ask for them.
    """
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
        redirect_slashes=False,  # a redirect would contain the client's name for this host
        responses=ERROR_RESPONSES,
    )
    metrics = ServingMetrics(limits.connections)
    app.state.limits, app.state.metrics = limits, metrics
    app.state.pages = PageCache(limits.wait_seconds)
    app.state.fetches, app.state.cors_origins = fetches, cors_origins
    add_error_handlers(app)
    add_fetch_handler(app)
    for routes in (archive_routes, climate_routes, page_routes, health_routes, metrics_routes):
        more = FETCH_RESPONSES.get(str(routes.tags[0])) if fetches else None
        app.include_router(routes, responses=more)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=cors_origins, allow_methods=["GET", "HEAD", "POST"], expose_headers=_TOLD
        )
    app.add_middleware(RequestGuard, limits=limits, metrics=metrics, hosts=hosts or AllowedHosts())
    app.add_middleware(ClientRequests, path=ARCHIVE_PATH, seconds=limits.wait_seconds)
    describe_routes(app, {ARCHIVE_PATH: ARCHIVE_BODY})
    return app
