"""What the server says, as errors that a user can act on: transient or permanent, and the remedy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from era5_pipeline.errors import (
    Era5Error,
    MonthLockedError,
    ServerUnsuitableError,
    TransientError,
    WarehouseError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_AS_BEFORE = "The month is as it was before."


@contextmanager
def server_errors(doing: str) -> Iterator[None]:
    """Turn what psycopg raises within into an `Era5Error` that begins with `doing`.

    Raises:
        TransientError: the connection was cut, the server restarts or has too many connections.
        ServerUnsuitableError: a privilege is missing, the server is read-only.
        MonthLockedError: a lock could not be had in time.
        WarehouseError: anything else the server says.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, doing) from error


def translated(error: psycopg.Error, doing: str) -> Era5Error:
    """The error to show for what psycopg raised."""
    said = (
        (error.diag.message_primary or str(error)).strip().splitlines()[0]
        if str(error)
        else type(error).__name__
    )
    what = f"{doing}: {said}"
    match error:
        case pg.DiskFull():
            return WarehouseError(
                what, remedy=f"Free space on the database server. {_AS_BEFORE} Run it again."
            )
        case pg.InsufficientPrivilege():
            return ServerUnsuitableError(
                what, remedy="Connect as a user that owns the database, or grant the privilege."
            )
        case pg.ReadOnlySqlTransaction():
            return ServerUnsuitableError(
                what, remedy="This server is read-only (a standby?): use the primary's URL."
            )
        case pg.LockNotAvailable() | pg.DeadlockDetected():
            return MonthLockedError(
                what, remedy=f"{_AS_BEFORE} Run it again when the other user of the table is done."
            )
        case pg.TooManyConnections() | pg.CannotConnectNow():
            return TransientError(what, remedy="Try again in a moment, or raise max_connections.")
        case _ if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return TransientError(
                what, remedy=f"The connection to the server was lost. {_AS_BEFORE} Run it again."
            )
        case _:
            return WarehouseError(what, remedy=f"{_AS_BEFORE} The server's log has more of this.")
