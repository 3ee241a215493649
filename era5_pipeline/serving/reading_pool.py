"""Connections of the server to the database: a few that only read, kept open, and opened again after a restart."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from era5_pipeline.model.errors import Era5Error, SchemaVersionError
from era5_pipeline.postgres.schema_version import require_usable, schema_version
from era5_pipeline.postgres.server_errors import translate_error
from era5_pipeline.query.packed_hours import prepare_for_reading
from era5_pipeline.serving.refusals import BusyError, DatabaseAwayError, OtherSchemaError, SlowStatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.serving.limits import ServingLimits

    Connection = psycopg.Connection[Any]

# While the last attempt to connect failed, requests do not wait longer than this for the next.
_AWAY_SECONDS = 0.5
# An attempt that fails is repeated for so long; a later request begins another.
_RECONNECT_SECONDS = 10.0


def _check(connection: Connection) -> None:
    """Raise if the connection was lost, or the database was upgraded since it was opened: the pool then opens another.

    In place of the pool's own check, which asks for nothing: this too is one round trip.
    """
    try:
        require_usable(connection, schema_version(connection))
    except SchemaVersionError:
        connection.close()  # one that is open would be given out again
        raise


class ReadingPool:
    """A pool of connections that read only: in autocommit mode, in UTC, with a limit for each statement."""

    def __init__(self, warehouse: Warehouse, limits: ServingLimits) -> None:
        self._warehouse = warehouse
        self._limits = limits
        self._failure: Exception | None = None
        self._session = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{math.ceil(limits.statement_seconds * 1000)}",
            "idle_in_transaction_session_timeout": f"{math.ceil(limits.statement_seconds * 1000)}",
        }
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            # The pool asks its class only to connect; the warehouse does that as for every command.
            connection_class=cast("type[Connection]", self),
            min_size=1,
            max_size=limits.connections + 1,  # `/healthz` is answered when all others are in use, too
            open=False,
            check=_check,
            timeout=limits.wait_seconds,
            reconnect_timeout=_RECONNECT_SECONDS,
            name="era5 serve",
        )

    def connect(self, _conninfo: str = "", **_: object) -> Connection:
        """Open a connection; the pool calls it."""
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
        self._pool.open()  # without a database the server starts too, and answers 503
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def numbers(self) -> tuple[int, int]:
        """The number of open connections, and of those in use."""
        stats = self._pool.get_stats()
        size = stats.get("pool_size", 0)
        return size, size - stats.get("pool_available", 0)

    @contextmanager
    def connected(self, doing: str) -> Iterator[Connection]:
        """A connection for this context; errors of the server begin with `doing`.

        Raises:
            DatabaseAwayError: if the server cannot be reached, or the connection was lost.
            OtherSchemaError: if the database was upgraded to a version that this program does not know.
            BusyError: if no connection became free in time.
            SlowStatementError: if a statement took longer than the limit.
            Era5Error: as `server_errors` says.
        """
        connection = self._take()
        try:
            yield connection
        except psycopg.Error as error:
            raise self._translated(error, doing) from error
        except Era5Error as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise self._translated(error.__cause__, doing) from error
            raise
        finally:
            self._pool.putconn(connection)

    def _take(self) -> Connection:
        wait = _AWAY_SECONDS if self._failure else self._limits.wait_seconds
        try:
            return self._pool.getconn(wait)
        except PoolTimeout as error:
            if isinstance(self._failure, SchemaVersionError):
                raise OtherSchemaError from self._failure
            if self._failure is not None:
                raise DatabaseAwayError from self._failure
            raise BusyError(wait) from error

    def _translated(self, error: psycopg.Error, doing: str) -> Exception:
        if isinstance(error, psycopg.errors.QueryCanceled):
            return SlowStatementError(self._limits.statement_seconds)
        return translate_error(error, doing)
