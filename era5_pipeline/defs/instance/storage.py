"""Dagster's own storage: dagster-postgres, in a second database on the warehouse's server; it survives restarts.

`dagster.yaml` cannot start a server, and an `env:` in it makes every command fail if the variable is not set. So
`WarehouseStorage` finds the server like the rest of the pipeline, from ERA5_DATABASE_URL or as the embedded one: `dg
launch`, the daemon and `era5` share one history without further settings. The serialized form of the instance contains
no URL, and so no password.
"""

from __future__ import annotations

import functools
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import psycopg2
from dagster_postgres import (
    DagsterPostgresStorage,
    PostgresEventLogStorage,
    PostgresRunStorage,
    PostgresScheduleStorage,
)
from dagster_postgres.utils import create_pg_connection, create_pg_engine, set_pg_statement_timeout
from sqlalchemy import event
from typing_extensions import override

from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import dagster_url, open_warehouse, server_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import dagster as dg
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine import Connection, Dialect

    from era5_pipeline.model.settings import Settings

# The tables of Dagster's database: those of runs, events and schedules, and that of Alembic, which upgrades them.
STORAGE_TABLES = (
    *("alembic_version", "asset_check_executions", "asset_daemon_asset_evaluations", "asset_event_tags", "asset_keys"),
    *("backfill_tags", "bulk_actions", "concurrency_limits", "concurrency_slots", "daemon_heartbeats"),
    *("dynamic_partitions", "event_logs", "instance_info", "instigators", "job_ticks", "jobs", "kvs", "pending_steps"),
    *("run_tags", "runs", "secondary_indexes", "snapshots"),
)
# Connections kept open by a process, and allowed in addition: a run needs two, the daemon's threads sometimes more.
_KEPT, _MORE = 3, 20


@functools.cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database, which is created if it is missing."""
    with open_warehouse(settings, create=True) as warehouse:
        return dagster_url(warehouse, settings)


class DagsterDatabase:
    """Dagster's database: one pool of connections for its three storages, and transactions over several of their calls.

    Without a pool, Dagster opens some 140 connections for a month, half of its own run time. `held` keeps an embedded
    server running until `close`, and `revive` starts it again if it was killed.
    """

    def __init__(self, url: str, revive: Callable[[], None] | None = None) -> None:
        self.url = url
        self.engine = create_pg_engine(
            url,
            isolation_level="AUTOCOMMIT",
            pool_size=_KEPT,
            max_overflow=_MORE,
            pool_use_lifo=True,  # one thread then needs one connection
            pool_pre_ping=True,  # a restart of the server between two calls does no harm
        )
        event.listen(self.engine, "do_connect", self._connect)
        self.held = ExitStack()
        self._revive = revive
        self._in_thread = threading.local()

    def connect(self) -> AbstractContextManager[Connection]:
        """Lend the connection of this thread's transaction if there is one, else one of the pool."""
        open_one: Connection | None = getattr(self._in_thread, "connection", None)
        return create_pg_connection(self.engine) if open_one is None else nullcontext(open_one)

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
        """Connect; start a killed embedded server first."""
        try:
            return dialect.connect(*arguments, **options)
        except psycopg2.OperationalError:
            if self._revive is None:
                raise
        self._revive()
        return dialect.connect(*arguments, **options)

    def serve_pages(self, statement_timeout: int) -> None:
        """Limit the time of statements (milliseconds)."""
        self._revive = None  # a page shows an error rather than wait for that
        event.listen(self.engine, "connect", lambda made, _: set_pg_statement_timeout(made, statement_timeout))
        self.engine.dispose()

    def close(self) -> None:
        """Close the connections, and let an embedded server stop; a second call does nothing."""
        self.engine.dispose()
        self.held.close()


class _Shared:
    """Base of the three storages (runs, events, schedules), which use one connection pool."""

    def __init__(self, database: DagsterDatabase) -> None:
        self.database = database
        super().__init__(database.url)  # type: ignore[call-arg]  # that of Dagster's storage

    def connect(self, run_id: str | None = None) -> AbstractContextManager[Connection]:  # Dagster's
        """Lend a connection for one call."""
        return self.database.connect()

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Keep the pool, which is tested; Dagster's own is not, and shows errors after a restart of the server."""

    def dispose(self) -> None:
        """Close the database; Dagster calls this when an instance is closed."""
        self.database.close()


class _Runs(_Shared, PostgresRunStorage):
    @override
    def add_run(self, dagster_run: dg.DagsterRun) -> dg.DagsterRun:
        # Dagster stores the run and its tags in two transactions: a run whose process or server is killed between them
        # is missing from its backfill's runs, and cannot be stored again.
        with self.database.transaction():
            return super().add_run(dagster_run)


class _EventLog(_Shared, PostgresEventLogStorage):
    # Dagster asks the database for their table at each result, which takes as long as storing it.
    supports_asset_checks = True

    @override
    def _connect(self) -> AbstractContextManager[Connection]:
        return self.connect()  # the two other storages have a public name for it

    @override
    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        self.database.serve_pages(statement_timeout)  # once for the three

    @override
    def dispose(self) -> None:
        PostgresEventLogStorage.dispose(self)
        super().dispose()


class _Schedules(_Shared, PostgresScheduleStorage):
    pass


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres with the URL from the pipeline's settings, and a pool of connections."""

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
    event_storage_data = run_storage_data = schedule_storage_data = None


def store_together(instance: dg.DagsterInstance, record: Callable[[], None]) -> None:
    """Store what `record` records in one transaction; each event would otherwise take three."""
    storage = instance.event_log_storage
    with storage.database.transaction() if isinstance(storage, _EventLog) else nullcontext():
        record()
