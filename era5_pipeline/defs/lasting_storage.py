"""Let whoever uses Dagster's database outlast a restart of its server.

Dagster takes the loss of its own connection for a failure of whatever was under way: a step, the launch of a run, the
note that a run failed, the repetition of a run. Each would be lost although nothing is wrong with it.
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

# Enough for a server that recovers from a crash; then the call fails.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 180.0, 1.0
# The server ends or starts (57P01 to 57P03), or the connection broke (class 08).
_LOST_CODES = ("57P0", "08")
_log = logging.getLogger(__name__)


def outlast_restarts(*storages: object) -> None:
    """Let these storages of Dagster's repeat what was cut off by a lost connection, until the server answers again.

    A statement that the server had just finished is then repeated too: an entry of a run's log may be there twice.
    """
    for storage in storages:
        # Of the class, since properties of a storage that belongs to no instance yet raise errors.
        for name, _ in inspect.getmembers(type(storage), inspect.isfunction):
            method = getattr(storage, name)
            # Those that return a connection cannot be repeated: what is done with it is.
            is_connection = name.endswith("connection") or name in ("connect", "dispose")
            if inspect.ismethod(method) and not name.startswith("_") and not is_connection:
                setattr(storage, name, _repeated(storage, method))


def fail_at_once(*storages: object) -> None:
    """Undo `outlast_restarts`: for who rather shows an error than waits."""
    for storage in storages:
        for name in [name for name, value in vars(storage).items() if hasattr(value, "is_repeated")]:
            delattr(storage, name)


def until_answered(call: Callable[[], _R]) -> _R:
    """Return what `call` returns; call it again while it fails because Dagster's database does not answer."""
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
    """Within it, do not wait for the database once `is_stopped`.

    Dagster would still record that the run has ended, in several calls, each of which takes it some seconds: after
    the first in vain, the others fail at once.
    """
    previous, _outage.is_stopped = _outage.is_stopped, is_stopped
    try:
        yield
    finally:
        _outage.is_stopped, _outage.given_up = previous, None


class _Outage:
    """Since when Dagster's database has not answered this process (monotonic seconds); None if it did last time."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_connected = False
        self.is_stopped: Callable[[], bool] = lambda: False
        self.given_up: Exception | None = None

    def may_last(self, error: Exception) -> bool:
        """Note that it does not answer; return whether to wait for it, which begins with the first call in vain."""
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
        """Begin anew with the patience, unless what was called did not ask the database at all."""
        if self.is_connected:
            self.since = None


_outage = _Outage()
event.listen(Engine, "engine_connect", _outage.note_connection)


def is_lost_connection(error: BaseException) -> bool:
    """Return whether the error says that Dagster's database cannot be reached or closed the connection."""
    if isinstance(error, DagsterPostgresException | TransientError) or type(error) is ServerUnreachableError:
        return True
    # SQLAlchemy recognises by their words only errors of connections that were open: "the database system is in
    # recovery mode" and "Connection refused" are none to it.
    if isinstance(error, SQLAlchemyError):
        if getattr(error, "connection_invalidated", False):
            return True
        error = getattr(error, "orig", None) or error
    if not isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return False
    # An error without a code comes from the connection, not from a statement.
    return error.pgcode is None or error.pgcode.startswith(_LOST_CODES)


def _repeated(storage: object, method: Callable[_P, _R]) -> Callable[_P, _R]:
    @functools.wraps(method)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        if "_connect" in vars(storage):  # within a transaction, which can only be repeated as a whole
            return method(*arguments, **options)
        return until_answered(lambda: method(*arguments, **options))

    marked: Any = call
    marked.is_repeated = True
    return call
