"""Make Dagster's storages survive a restart of their database server.

If Dagster loses its own connection, whatever is in progress fails: a step, the launch of a run, the record of a
failure, a retry. Each would be lost although nothing is wrong with it.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import psycopg2
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from era5_pipeline.model.errors import ServerUnreachableError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_P = ParamSpec("_P")
_R = TypeVar("_R")

# How long to retry, and how often: enough for a server that recovers from a crash. Then the call fails.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 180.0, 1.0
# SQLSTATE prefixes: the server shuts down or starts (57P01 to 57P03), or the connection broke (class 08).
_LOST_CODES = ("57P0", "08")
_log = logging.getLogger(__name__)


def outlast_restarts(*storages: object) -> None:
    """Make these Dagster storages repeat calls cut off by a lost connection, until the server answers again.

    A statement that the server had just finished is repeated too: a run's log may have an entry twice.
    """
    for storage in storages:
        # On the class, since properties of a storage without an instance raise errors.
        for name, _ in inspect.getmembers(type(storage), inspect.isfunction):
            method = getattr(storage, name)
            # Methods that return a connection cannot be repeated; what is done with it can.
            is_connection = name.endswith("connection") or name in ("connect", "dispose")
            if inspect.ismethod(method) and not name.startswith("_") and not is_connection:
                setattr(storage, name, _repeated(storage, method))


def fail_at_once(*storages: object) -> None:
    """Undo `outlast_restarts`, for callers that prefer an error to waiting."""
    for storage in storages:
        for name in [name for name, value in vars(storage).items() if hasattr(value, "is_repeated")]:
            delattr(storage, name)


def until_answered(call: Callable[[], _R]) -> _R:
    """Return the result of `call`; repeat it while it fails because Dagster's database does not answer."""
    while True:
        if _outage.given_up is not None:
            raise _outage.given_up
        try:
            returned = call()
        except Exception as error:
            if not is_lost_connection(error) or not _outage.may_last(error):
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            _outage.end_if_connected()
            return returned


@contextmanager
def not_waiting_once(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """In this context, stop waiting for the database once `is_stopped`.

    Dagster would still record the end of the run, in several calls that each take some seconds: after the first fails,
    the others fail at once.
    """
    previous, _outage.is_stopped = _outage.is_stopped, is_stopped
    try:
        yield
    finally:
        _outage.is_stopped, _outage.given_up = previous, None


class _Outage:
    """The time since which Dagster's database has not answered (monotonic seconds); None if it did last time."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_connected = False
        self.is_stopped: Callable[[], bool] = lambda: False
        self.given_up: Exception | None = None

    def may_last(self, error: Exception) -> bool:
        """Record that the database does not answer; return whether to keep waiting since the first failed call."""
        self.is_connected = False
        if self.is_stopped():
            self.given_up = error
            return False
        if self.since is None:
            self.since = time.monotonic()
            _log.warning("Dagster's database does not answer: waiting for it, up to %.0f s", _PATIENCE_SECONDS)
        return time.monotonic() - self.since < _PATIENCE_SECONDS

    def note_connection(self, *_: object) -> None:
        self.is_connected = True

    def end_if_connected(self) -> None:
        """Reset the outage, unless the call did not use the database at all."""
        if self.is_connected:
            self.since = None


_outage = _Outage()
event.listen(Engine, "engine_connect", _outage.note_connection)


def is_lost_connection(error: BaseException) -> bool:
    """Whether the error means that Dagster's database is unreachable, or closed the connection."""
    if isinstance(error, DagsterPostgresException | TransientError) or type(error) is ServerUnreachableError:
        return True
    # SQLAlchemy recognises lost connections by their messages only if they were open: it does not know "the database
    # system is in recovery mode" and "Connection refused".
    if isinstance(error, SQLAlchemyError):
        if getattr(error, "connection_invalidated", False):
            return True
        error = getattr(error, "orig", None) or error
    if not isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return False
    # An error without a code comes from the connection rather than a statement.
    return error.pgcode is None or error.pgcode.startswith(_LOST_CODES)


def _repeated(storage: object, method: Callable[_P, _R]) -> Callable[_P, _R]:
    @functools.wraps(method)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        if "_connect" in vars(storage):  # in a transaction, which can only be repeated as a whole
            return method(*arguments, **options)
        return until_answered(lambda: method(*arguments, **options))

    marked: Any = call
    marked.is_repeated = True
    return call
