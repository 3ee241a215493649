"""The warehouse as a route reads it: connections for one request, which end when its client leaves.

A route that reads takes a parameter of type `Reader`:

    @router.get("/v1/somewhere")
    def somewhere(request: Request, reader: Reader) -> Response:
        with reader.connected("reading the hours") as connection:
            ...

Such routes are functions, not coroutines: they run in threads, of which there are as many as connections.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
from fastapi import Depends, Request

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.serving.refusals import ClientLeftError, RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.serving.limits import ServingLimits
    from era5_pipeline.serving.monitoring.serving_metrics import ServingMetrics
    from era5_pipeline.serving.reading_pool import ReadingPool

# The key of a request's work in its ASGI scope, and of the pool and the limits in the state of the app.
WORK = "era5.work"
_CANCEL_SECONDS = 5.0


class RequestWork:
    """The connections that a request holds, to be cancelled when its client leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[psycopg.Connection[Any]] = []
        self.has_left = False

    @contextmanager
    def holding(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Let `leave` cancel what this connection does in this context.

        Raises:
            ClientLeftError: if the client has left, before or meanwhile.
        """
        with self._lock:
            if self.has_left:
                raise ClientLeftError
            self._held.append(connection)
        try:
            yield
        except (psycopg.Error, Era5Error, RefusalError) as error:
            if self._is_left():
                raise ClientLeftError from error
            raise
        finally:
            with self._lock:
                self._held.remove(connection)
            if self._is_left():
                # A cancellation that arrives late would end the next request's statement.
                connection.close()

    def _is_left(self) -> bool:
        return self.has_left  # set by another thread, which a type checker does not see

    def leave(self) -> None:
        """Cancel what the request's connections do; takes until the server has heard of it."""
        with self._lock:
            self.has_left = True
            for connection in self._held:
                with suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCEL_SECONDS)


class WarehouseReader:
    """The warehouse for one request: connections that only read, and the server's limits."""

    def __init__(self, pool: ReadingPool, limits: ServingLimits, metrics: ServingMetrics, work: RequestWork) -> None:
        self.limits = limits
        self._metrics = metrics
        self._pool = pool
        self._work = work

    @contextmanager
    def connected(self, doing: str) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, for as long as something is read; give it back before the answer is written.

        Raises:
            RefusalError: if there is none now, a statement takes too long, or the client left.
            Era5Error: for other errors of the server, which begin with `doing`.
        """
        with (
            self._pool.connected(doing) as connection,
            self._metrics.connection_in_use(),
            self._work.holding(connection),
        ):
            yield connection


async def _reader_of(request: Request) -> WarehouseReader:  # a coroutine: FastAPI would call a function in a thread
    state = request.app.state
    work: RequestWork = request.scope[WORK]
    return WarehouseReader(state.pool, state.limits, state.metrics, work)


Reader = Annotated[WarehouseReader, Depends(_reader_of)]
