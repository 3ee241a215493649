"""Dagster's own storage: dagster-postgres, in a second database on the warehouse's server; it survives restarts.

`dagster.yaml` cannot start a server, and an `env:` in it makes every command fail if the variable is not set. So
`WarehouseStorage` finds the server like the rest of the pipeline, from ERA5_DATABASE_URL or as the embedded one: `dg
launch`, the daemon and `era5` share one history without further settings. The serialized form of the instance contains
no URL, and so no password.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import time
from contextlib import ExitStack, contextmanager, nullcontext
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg2
from dagster_postgres import DagsterPostgresStorage, PostgresRunStorage, PostgresScheduleStorage
from dagster_postgres.utils import (
    DagsterPostgresException,
    create_pg_connection,
    create_pg_engine,
    set_pg_statement_timeout,
)
from sqlalchemy import event
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoFreeConnectionError
from typing_extensions import override

from era5_pipeline.defs.dagster_internals import ConfigurableClassData, ConnectableEventLog
from era5_pipeline.model.errors import ServerUnreachableError, TransientError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import dagster_url, open_warehouse, server_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import dagster as dg
    from sqlalchemy.engine import Connection, Dialect
    from sqlalchemy.pool import ConnectionPoolEntry

    from era5_pipeline.model.settings import Settings

_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

# --- The database and its connections, shared by the three storages of a process ---


# Connections kept open by a process, and allowed in addition: a run needs two, the daemon's threads sometimes more.
_KEPT, _MORE = 3, 20
# A connection of the pool that was not used for this long is tested, which costs a round trip: 150 for a month, of 430.
_IDLE_SECONDS, _USED = 1.0, "used"


@functools.cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database, which is created if it is missing."""
    with open_warehouse(settings, create=True) as warehouse:
        return dagster_url(warehouse, settings)


def _note_use(_: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED] = time.monotonic()


class DagsterDatabase:
    """Dagster's database, with a pool of connections and transactions that span several calls of its storages.

    Dagster opens some 140 connections for a month, half of its own run time. A connection that was idle is tested
    before reuse, so that a server restart between two statements does no harm; one that was just in use is not, because
    calls that a lost connection cuts off are repeated anyway. `existing` are the tables and columns that were found.
    `held` keeps an embedded server running until `close`, and `revive` starts it again if it was killed.
    """

    def __init__(self, url: str, revive: Callable[[], None] | None = None) -> None:
        self.url = url
        self.engine = create_pg_engine(
            url,
            isolation_level="AUTOCOMMIT",
            pool_size=_KEPT,
            max_overflow=_MORE,
            pool_use_lifo=True,  # one thread then needs one connection
        )
        for name in ("connect", "checkin"):
            event.listen(self.engine, name, _note_use)
        event.listen(self.engine, "checkout", self._require_alive)
        event.listen(self.engine, "do_connect", self._connect)
        self.outage = Outage()
        event.listen(self.engine, "engine_connect", self.outage.note_connection)
        self.existing: set[tuple[str, ...]] = set()
        self.held = ExitStack()
        self._revive = revive
        # False for the web UI, which shows an error after Dagster's own attempts.
        self.waits_for_server = True
        self._in_thread = threading.local()

    @property
    def _open(self) -> Connection | None:
        """The connection of the transaction that is open in this thread."""
        connection: Connection | None = getattr(self._in_thread, "connection", None)
        return connection

    @property
    def is_in_transaction(self) -> bool:
        """Return True if this thread has an open transaction, whose statements are not repeated one by one."""
        return self._open is not None

    def connect(self) -> AbstractContextManager[Connection]:
        """Lend a connection: that of this thread's transaction if there is one, else one of the pool.

        Dagster's own function tries for up to twelve seconds, with pauses of up to six. Who waits for the server longer
        does so in `until_answered`, which tries every second.
        """
        if self._open is not None:
            return nullcontext(self._open)
        return self.engine.connect() if self.waits_for_server else create_pg_connection(self.engine)

    def _require_alive(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:  # noqa: ANN401  # psycopg2's
        """Test a connection of the pool; for the web UI, which does not repeat calls, each time."""
        if self.waits_for_server and time.monotonic() - record.info[_USED] < _IDLE_SECONDS:
            return
        try:
            self.engine.dialect.do_ping(connection)
        except psycopg2.Error as error:
            raise InvalidatePoolError from error  # the pool gives another connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything that this thread stores in this context one transaction."""
        with self.engine.connect() as pooled:
            connection = pooled.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                self._in_thread.connection = connection
                try:
                    yield
                finally:
                    del self._in_thread.connection

    def _connect(self, dialect: Dialect, _: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:  # noqa: ANN401  # psycopg2's
        """Connect; a killed embedded server is started first, unless for a page, which is not to wait for that."""
        try:
            return dialect.connect(*arguments, **options)
        except psycopg2.OperationalError:
            if self._revive is None or not self.waits_for_server:
                raise
        self._revive()
        return dialect.connect(*arguments, **options)

    def close(self) -> None:
        """Close the connections, and let an embedded server stop; a second call does nothing."""
        self.engine.dispose()
        self.held.close()

    def serve_pages(self, statement_timeout: int) -> None:
        """For the web UI: show errors instead of waiting, and limit the time of statements (milliseconds)."""
        if not self.waits_for_server:  # called for each of the three storages
            return
        self.waits_for_server = False
        event.listen(
            self.engine, "connect", lambda connection, _: set_pg_statement_timeout(connection, statement_timeout)
        )
        self.engine.dispose()


# --- Calls that are repeated while the server restarts ---
#
# If Dagster loses its own connection, whatever is in progress fails: a step, the launch of a run, the record of a
# failure, a retry. Each would be lost although nothing is wrong with it. SQLAlchemy's events can repeat the attempt to
# connect, but no statement that was cut off; so it is the calls of the storages that are repeated.


# How long to retry, and how often: enough for a server that recovers from a crash. Then the call fails.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 180.0, 1.0
# SQLSTATE prefixes: the server shuts down or starts (57P01 to 57P03), or the connection broke (class 08).
_LOST_CODES = ("57P0", "08")
_log = logging.getLogger(__name__)


class Outage:
    """The time since which a database has not answered (monotonic seconds); None if it did last time.

    Each database has its own: one that is gone does not end what another one records.
    """

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
        """Record that a connection was made or lent; an event of SQLAlchemy's engine."""
        self.is_connected = True

    def end_if_connected(self) -> None:
        """Reset the outage, unless the call did not use the database at all."""
        if self.is_connected:
            self.since = None


def until_answered(call: Callable[[], _R], outage: Outage) -> _R:
    """Return the result of `call`; repeat it while it fails because Dagster's database does not answer."""
    while True:
        if outage.given_up is not None:
            raise outage.given_up
        try:
            returned = call()
        except Exception as error:
            if not is_lost_connection(error) or not outage.may_last(error):
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            outage.end_if_connected()
            return returned


@contextmanager
def not_waiting_once(instance: dg.DagsterInstance, is_stopped: Callable[[], bool]) -> Iterator[None]:
    """In this context, stop waiting for the instance's database once `is_stopped`.

    Dagster would still record the end of the run, in several calls that each take some seconds: after the first fails,
    the others fail at once.
    """
    storage = instance.event_log_storage
    outage = storage.database.outage if isinstance(storage, _EventLog) else Outage()
    previous, outage.is_stopped = outage.is_stopped, is_stopped
    try:
        yield
    finally:
        outage.is_stopped, outage.given_up = previous, None


def is_lost_connection(error: BaseException) -> bool:
    """Return True if the database of Dagster is unreachable or has closed the connection."""
    waited_for = (DagsterPostgresException, NoFreeConnectionError, TransientError)
    if isinstance(error, waited_for) or type(error) is ServerUnreachableError:
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


def outlasting_restarts(storage: _C) -> _C:
    """Class decorator: repeat calls of the storage's public methods that are cut off by a lost connection.

    Dagster has no public way for this: dagster-postgres repeats the attempt to connect, for some seconds, and no
    statement, and a storage written anew would have to define each of these methods for the same result.
    A statement that the server had just finished is repeated too: a run's log may have an entry twice.
    """
    for name in dir(storage):
        method = inspect.getattr_static(storage, name)
        # Methods that return a connection cannot be repeated; what is done with it can.
        is_connection = name.endswith("connection") or name in ("connect", "dispose")
        if isinstance(method, FunctionType) and not name.startswith("_") and not is_connection:
            setattr(storage, name, repeated(method))
    return storage


def repeated(method: Callable[..., _R]) -> Callable[..., _R]:
    """A method of a storage that is repeated until its database answers, if the storage is to wait for it."""

    @functools.wraps(method)
    def call(storage: _Shared, *arguments: Any, **options: Any) -> _R:  # noqa: ANN401  # those of the method
        if storage.database.is_in_transaction or not storage.database.waits_for_server:
            return method(storage, *arguments, **options)
        return until_answered(lambda: method(storage, *arguments, **options), storage.database.outage)

    return call


def asking_once(*names: str) -> Callable[[_C], _C]:
    """Class decorator: these methods, which ask whether a table or column exists, ask no more after a yes.

    Dagster asks for each month some 25 times, by queries of all columns of a table. Only a migration adds tables and
    columns, and none takes them away.
    """

    def decorate(storage: _C) -> _C:
        for name in names:
            setattr(storage, name, _asked_once(getattr(storage, name)))
        return storage

    return decorate


def _asked_once(method: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(method)
    def call(storage: _Shared, *arguments: Any) -> bool:  # noqa: ANN401  # those of the method
        subject = (method.__name__, *(word for word in arguments if isinstance(word, str)))
        if subject in storage.database.existing:
            return True
        exists = method(storage, *arguments)
        if exists:
            storage.database.existing.add(subject)
        return exists

    return call


# --- The three storages, and the one that `dagster.yaml` names ---


class _Shared:
    """Base of the three storages (runs, events, schedules), which use one connection pool."""

    database: DagsterDatabase

    def connect(self, run_id: str | None = None) -> AbstractContextManager[Connection]:  # Dagster's
        """Lend a connection for one call."""
        return self.database.connect()

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Prepare for the web UI.

        Dagster's version would give it untested connections, and a page of errors after a restart of the server.
        """
        self.database.serve_pages(statement_timeout)

    def dispose(self) -> None:
        """Close the database; Dagster calls this when an instance is closed."""
        self.database.close()


@asking_once("has_run_stats_index_cols", "has_backfill_id_column", "has_backfill_tags_table")
@asking_once("has_bulk_actions_selector_cols", "has_bulk_action_job_name_column")
@outlasting_restarts
class _Runs(_Shared, PostgresRunStorage):
    def __init__(self, database: DagsterDatabase) -> None:
        self.database = database
        super().__init__(database.url)

    @override
    def add_run(self, dagster_run: dg.DagsterRun) -> dg.DagsterRun:
        # Dagster stores the run and its tags in two transactions: a run whose process or server is killed between them
        # is missing from its backfill's runs, and cannot be stored again.
        with self.database.transaction():
            return super().add_run(dagster_run)


@asking_once("has_table", "has_asset_key_col", "has_asset_key_column")
@outlasting_restarts
class _EventLog(_Shared, ConnectableEventLog):
    def __init__(self, database: DagsterDatabase) -> None:
        self.database = database
        super().__init__(database.url)

    @override
    def dispose(self) -> None:
        ConnectableEventLog.dispose(self)
        super().dispose()


@asking_once("has_instigators_table", "has_secondary_index_table")
@outlasting_restarts
class _Schedules(_Shared, PostgresScheduleStorage):
    def __init__(self, database: DagsterDatabase) -> None:
        self.database = database
        super().__init__(database.url)


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres with the URL from the pipeline's settings, a pool of connections, and repeated calls."""

    def __init__(
        self,
        postgres_url: str,
        inst_data: ConfigurableClassData | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        # The base class makes three storages with an engine each, which connect to nothing if not told to make tables.
        super().__init__(postgres_url, should_autocreate_tables=False, inst_data=inst_data)
        self.database = database = DagsterDatabase(postgres_url, revive)
        self._storages = _Runs(database), _EventLog(database), _Schedules(database)

    @property
    @override
    def run_storage(self) -> _Runs:
        return self._storages[0]

    @property
    @override
    def event_log_storage(self) -> _EventLog:
        return self._storages[1]

    @property
    @override
    def schedule_storage(self) -> _Schedules:
        return self._storages[2]

    @classmethod
    @override
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    @override
    def from_config_value(
        cls,
        inst_data: ConfigurableClassData | None,
        config_value: dict[str, Any],  # type: ignore[override]  # it has no keys
    ) -> WarehouseStorage:
        settings = read_settings()
        with ExitStack() as held:
            revive = held.enter_context(server_kept(settings))
            storage = cls(_url(settings), inst_data, revive)
            # Until Dagster closes the instance, which commands, services and runs do before they end.
            storage.database.held.push(held.pop_all())
        return storage

    # If these had values, Dagster would build the three storages from this class's empty configuration.
    @property
    @override
    def event_storage_data(self) -> None:
        return None

    @property
    @override
    def run_storage_data(self) -> None:
        return None

    @property
    @override
    def schedule_storage_data(self) -> None:
        return None


def store_together(instance: dg.DagsterInstance, record: Callable[[], None]) -> None:
    """Store what `record` records in one transaction; each event would otherwise take three.

    `record` is called again if the connection was lost, since nothing has been stored then.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, _EventLog):
        record()
        return

    def once() -> None:
        with storage.database.transaction():
            record()

    until_answered(once, storage.database.outage)
