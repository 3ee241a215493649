"""Errors of the server, translated into errors that a user can act on: transient or permanent, and the remedy."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from era5_pipeline.model.errors import (
    Era5Error,
    MonthLockedError,
    ServerUnsuitableError,
    TransientError,
    WarehouseError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG_IN = "CREATE ROLE name LOGIN IN ROLE era5_loader (or era5_reader); if these do not exist: era5 db init --roles."
LOST_REMEDY = "The connection to the server was lost: run it again."


@contextmanager
def server_errors(doing: str, *, afterwards: str = "") -> Iterator[None]:
    """Translate psycopg's errors in this context into an `Era5Error` whose message begins with `doing`.

    `afterwards` says in what state an error leaves the data; the remedy begins with it.

    Raises:
        TransientError: the connection was lost, the server restarts or has too many connections.
        ServerUnsuitableError: a privilege is missing, or the server is read-only.
        MonthLockedError: a lock was not granted in time.
        WarehouseError: any other error of the server.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error, doing, afterwards=afterwards) from error


@contextmanager
def lost_connections(doing: str) -> Iterator[None]:
    """Translate a lost connection, which any statement may report; other errors that nobody translated are defects."""
    try:
        yield
    except psycopg.Error as error:
        if not _is_lost(error):
            raise
        raise translate_error(error, doing) from error


def translate_error(error: psycopg.Error, doing: str, *, afterwards: str = "") -> Era5Error:
    """Return the error to raise in place of psycopg's."""
    lines = (error.diag.message_primary or str(error)).strip().splitlines() or [type(error).__name__]
    kind, remedy = _type_and_remedy(error)
    return kind(f"{doing}: {lines[0]}", remedy=f"{afterwards} {remedy}".lstrip())


def _type_and_remedy(error: psycopg.Error) -> tuple[type[Era5Error], str]:
    match error:
        case pg.DiskFull():
            return WarehouseError, "Free space on the database server's disk, then run it again."
        case pg.InsufficientPrivilege():
            return ServerUnsuitableError, (
                "Connect as a user that owns the database, or grant the privilege: GRANT era5_loader (to read: "
                "era5_reader) TO this user; era5 db init --roles makes these roles."
            )
        case pg.ReadOnlySqlTransaction():
            return ServerUnsuitableError, "This server is read-only (a standby?): use the primary's URL."
        case pg.LockNotAvailable() | pg.DeadlockDetected():
            return MonthLockedError, "Run it again when the other session has finished with the table."
        case pg.TooManyConnections() | pg.CannotConnectNow():
            return TransientError, "Try again in a moment, or raise max_connections."
        case pg.ObjectInUse():
            return TransientError, "Try again in a moment."
        case _ if _is_lost(error):
            return TransientError, LOST_REMEDY
        case _:
            return WarehouseError, "See the server's log for details."


def _is_lost(error: psycopg.Error) -> bool:
    # An error without SQLSTATE comes from the client library: the connection is lost.
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(("08", "57P"))


def connection_remedy(message: str) -> str:
    """The remedy for a failed connection with this message from the server or libpq."""
    if re.search(r'role ".*" does not exist|permission denied for database', message):
        return f"Check the user in ERA5_DATABASE_URL, or let an administrator of the server run: {_LOG_IN}"
    if "certificate" in message or "private key file" in message:
        return (
            "Check that sslrootcert in ERA5_DATABASE_URL is the file of the authority that signed the server's "
            "certificate, that the host is the one it names, and, if the server asks for a client certificate, "
            "sslcert and sslkey."
        )
    if "does not support SSL" in message:
        return (
            "Turn TLS on at the server (ssl = on); or, on a network where nobody can eavesdrop, set sslmode=prefer in "
            "ERA5_DATABASE_URL."
        )
    if "no encryption" in message and "SSL encryption" not in message:
        return "The server requires TLS: add sslmode=verify-full and sslrootcert to ERA5_DATABASE_URL."
    return (
        "Check that the server is running and that ERA5_DATABASE_URL is right (user, password, database), or unset it "
        "to use the embedded server."
    )
