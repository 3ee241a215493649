"""A request: its limits and metrics, and database connections that are cancelled when its client leaves."""

from __future__ import annotations

import math
import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import psycopg
from fastapi import APIRouter, Depends, Query, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from psycopg_pool import ConnectionPool, PoolTimeout

from era5_pipeline.model.dataset import DATASETS, dataset_named
from era5_pipeline.model.errors import Era5Error, SchemaVersionError, UsageError
from era5_pipeline.postgres.dataset_connection import turn_to
from era5_pipeline.postgres.schema_version import require_usable, schema_version
from era5_pipeline.postgres.server_errors import translate_error
from era5_pipeline.read.hours import prepare_for_reading
from era5_pipeline.serving.errors import Refusal, RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse

    Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class ServingLimits:
    """Limits of one process of the server.

    `connections`: to the database, and so the requests answered at once. `waiting_requests`: how many more may wait for
    their turn, each for `wait_seconds`. `statement_seconds`: the longest statement. `values`: the most values of an
    answer. `url_bytes`: the longest path with its query.
    """

    connections: int = 8
    waiting_requests: int = 200
    wait_seconds: float = 5.0
    statement_seconds: float = 30.0
    values: int = 5_000_000
    url_bytes: int = 16_384

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits of the settings, ERA5_SERVE_..."""
        return cls(**{name.removeprefix("serve_"): value for name, value in settings if name.startswith("serve_")})

    def require_values(self, count: int) -> None:
        """Refuse an answer of more values than allowed: hours times variables times places."""
        if count > self.values:
            raise UsageError(
                f"the answer would have {count:,} values, and the limit is {self.values:,}",
                remedy="Ask for fewer days, variables or places at once, or use era5 export.",
            )


# Environment variable: the folder where all processes of a server write metrics. The library reads it when imported.
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# The label of requests without a route: their paths are arbitrary.
_NO_ROUTE = "none"

metrics_routes = APIRouter(tags=["server"])


class ServingMetrics:
    """The metrics of one process, kept where the others find them."""

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
        self.under_way = _live_gauge("era5_http_requests_under_way", "Requests that are being answered", self._own)
        self.in_use = _live_gauge("era5_http_connections_in_use", "Database connections in use by requests", self._own)
        _live_gauge("era5_http_connections_limit", "Connections that the pools may have", self._own).set(connections)

    def answered(self, route: str | None, status: int, seconds: float, sent_bytes: int) -> None:
        """Count an answer; `route` is the path of the route, with its parameters' names."""
        name = route or _NO_ROUTE
        self._requests.labels(name, str(status)).inc()
        self._seconds.labels(name).observe(seconds)
        self._bytes.labels(name).inc(sent_bytes)

    def registry(self) -> CollectorRegistry:
        """The metrics of all processes."""
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

    The numbers cover all processes of this server since it started. Numbers of the table itself come from
    `era5 metrics`.
    """
    found: ServingMetrics = request.app.state.metrics
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(found.registry()), headers={"Content-Type": media_type, "Cache-Control": "no-store"})


# The longest that requests wait for a connection after the last attempt to connect has failed.
_AWAY_SECONDS = 0.5
# A failing attempt is repeated for this long; a later request starts another.
_RECONNECT_SECONDS = 10.0


def _check(connection: Connection) -> None:
    """Raise if the connection was lost, or the database upgraded since it was opened: the pool then opens another.

    Replaces the pool's own check, an empty statement: this too is one round trip.
    """
    try:
        require_usable(connection, schema_version(connection))
    except SchemaVersionError:
        connection.close()  # the pool would reuse an open one
        raise


class ReadingPool:
    """A pool of read-only connections: in autocommit mode, in UTC, with a limit for each statement.

    They read the tables of whichever data set is asked for; of the warehouse's if none is.
    """

    def __init__(self, warehouse: Warehouse, limits: ServingLimits) -> None:
        self._warehouse = warehouse
        self._limits = limits
        self._failure: Exception | None = None
        self._session = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{math.ceil(limits.statement_seconds * 1000)}",
            "idle_in_transaction_session_timeout": f"{math.ceil(limits.statement_seconds * 1000)}",
        }
        connect = self._connect

        class PooledConnection(psycopg.Connection[Any]):
            """A connection of the pool, opened as the warehouse opens those of every command."""

            @classmethod
            def connect(cls, *_: object, **__: object) -> Connection:  # type: ignore[override]  # of all parameters
                return connect()

        self._pool: ConnectionPool[Connection] = ConnectionPool(
            connection_class=PooledConnection,
            min_size=1,
            max_size=limits.connections + 1,  # one for `/healthz` when all others are in use
            open=False,
            check=_check,
            timeout=limits.wait_seconds,
            reconnect_timeout=_RECONNECT_SECONDS,
            name="era5 serve",
        )

    def _connect(self) -> Connection:
        try:
            connection = self._warehouse.connect(self._session)
            try:
                prepare_for_reading(connection)
            except BaseException:
                connection.close()
                raise
        except Exception as error:
            self._failure = error
            raise
        self._failure = None
        return connection

    def __enter__(self) -> Self:
        self._pool.open()  # the server starts even without a database, and answers 503
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def dataset(self) -> Dataset:
        """The data set of requests that name none."""
        return self._warehouse.dataset

    @contextmanager
    def connected(self, doing: str, dataset: Dataset | None = None) -> Iterator[Connection]:
        """A connection for this context, to the data set's tables; errors of the server begin with `doing`."""
        connection = self._take()
        turn_to(connection, dataset or self.dataset)
        try:
            yield connection
        except psycopg.Error as error:
            raise self._translated(error, doing) from error
        except Era5Error as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise self._translated(error.__cause__, doing) from error
            raise
        finally:
            turn_to(connection, self.dataset)  # whose tables the pool checks
            self._pool.putconn(connection)

    def _take(self) -> Connection:
        wait = _AWAY_SECONDS if self._failure else self._limits.wait_seconds
        try:
            return self._pool.getconn(wait)
        except PoolTimeout as error:
            if isinstance(self._failure, SchemaVersionError):
                raise RefusalError(Refusal.OTHER_SCHEMA) from self._failure
            if self._failure is not None:
                raise RefusalError(Refusal.DATABASE_AWAY) from self._failure
            raise RefusalError(Refusal.BUSY, wait) from error

    def _translated(self, error: psycopg.Error, doing: str) -> Exception:
        if isinstance(error, psycopg.errors.QueryCanceled):
            return RefusalError(Refusal.SLOW_STATEMENT, self._limits.statement_seconds)
        return translate_error(error, doing)


# --- The warehouse for a route: connections for one request, cancelled when its client leaves ---
#
# A route that reads takes a parameter of type `Reader`:
#
#     @router.get("/v1/somewhere")
#     def somewhere(request: Request, reader: Reader) -> Response:
#         with reader.connected("reading the hours") as connection:
#             ...
#
# Such routes are functions, not coroutines: they run in threads, as many as there are connections.


# Keys of a request's work in its ASGI scope, and of the pool and the limits in the state of the app.
WORK = "era5.work"
# Key of a request's scope: true if it is a HEAD, which routes see as a GET.
HEAD = "era5.head"
_CANCEL_SECONDS = 5.0


class RequestWork:
    """The connections that a request holds, to be cancelled when its client leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[psycopg.Connection[Any]] = []
        self.has_left = False

    @contextmanager
    def holding(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Let `leave` cancel what this connection does in this context."""
        with self._lock:
            if self.has_left:
                raise RefusalError(Refusal.CLIENT_LEFT)
            self._held.append(connection)
        try:
            yield
        except (psycopg.Error, Era5Error, RefusalError) as error:
            if self._is_left():
                raise RefusalError(Refusal.CLIENT_LEFT) from error
            raise
        finally:
            with self._lock:
                self._held.remove(connection)
            if self._is_left():
                # A late cancellation would hit the next request's statement.
                connection.close()

    def _is_left(self) -> bool:
        return self.has_left  # set by another thread, unknown to the type checker

    def leave(self) -> None:
        """Cancel the statements of the request's connections; returns when the server has received that."""
        with self._lock:
            self.has_left = True
            for connection in self._held:
                with suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCEL_SECONDS)


class WarehouseReader:
    """The warehouse for one request: read-only connections, and the server's limits."""

    def __init__(self, pool: ReadingPool, limits: ServingLimits, metrics: ServingMetrics, work: RequestWork) -> None:
        self.limits = limits
        self._metrics = metrics
        self._pool = pool
        self._work = work

    @property
    def dataset(self) -> Dataset:
        """The data set of requests that name none."""
        return self._pool.dataset

    def dataset_named(self, name: str | None) -> Dataset:
        """The data set of this name, in a request; None: it names none."""
        return self.dataset if name is None else dataset_named(name)

    @contextmanager
    def connected(self, doing: str, dataset: Dataset | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, while reading the data set; return it before the answer is written."""
        with (
            self._pool.connected(doing, dataset) as connection,
            self._metrics.in_use.track_inprogress(),
            self._work.holding(connection),
        ):
            yield connection


async def _reader_of(request: Request) -> WarehouseReader:  # a coroutine, as FastAPI runs functions in a thread
    state = request.app.state
    work: RequestWork = request.scope[WORK]
    return WarehouseReader(state.pool, state.limits, state.metrics, work)


AskedDataset = Annotated[
    str | None,
    Query(description=f"The data set, {' or '.join(DATASETS)}; without, that which the server was started with."),
]
Reader = Annotated[WarehouseReader, Depends(_reader_of)]
