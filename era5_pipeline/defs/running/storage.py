"""Dagster's own storage: dagster-postgres in a second database on the warehouse's server.

`dagster.yaml` cannot start a server, and an `env:` in it makes every command fail if the variable is not set. So this
class finds the server like the rest of the pipeline, from ERA5_DATABASE_URL or as the embedded one: `dg launch`, the
daemon and `era5` share one history without further settings. The instance's serialized form contains no URL, and so no
password.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage, PostgresRunStorage
from dagster_postgres.utils import create_pg_connection, create_pg_engine, set_pg_statement_timeout
from sqlalchemy import event

from era5_pipeline.defs.running.lasting_storage import fail_at_once, outlast_restarts, until_answered
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.postgres.connect import dagster_url, open_warehouse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import dagster as dg
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine import Connection, Engine

_until_exit = ExitStack()
# Connections that a process keeps open: a run needs two at once, the daemon's threads sometimes more.
_KEPT, _MORE = 3, 20


@cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database. An embedded server is kept running until this process ends."""
    import atexit  # noqa: PLC0415  # registered on first use, so that it runs before what was registered at import

    atexit.register(_until_exit.close)
    return dagster_url(_until_exit.enter_context(open_warehouse(settings, create=True)), settings)


def release_server() -> None:
    """Stop keeping an embedded server running, in a process that ends without Python's own functions at exit."""
    _until_exit.close()


def _serve_pages(engine: Engine, storages: tuple[Any, ...], statement_timeout: int, **_: object) -> None:
    """For the web UI: pages show an error rather than wait, and statements are limited in time (milliseconds)."""
    fail_at_once(*storages)
    event.listen(engine, "connect", lambda connection, _: set_pg_statement_timeout(connection, statement_timeout))
    engine.dispose()


@contextmanager
def closing_connections(instance: dg.DagsterInstance) -> Iterator[None]:
    """Close the instance's connections at the end of the context."""
    try:
        yield
    finally:
        storage: Any = instance.run_storage
        storage._engine.dispose()


def store_together(instance: dg.DagsterInstance, record: Callable[[], None]) -> None:
    """Store what `record` records in one transaction; each event would otherwise take three of its own.

    It is called again if the connection was lost, since nothing of it is stored then.
    """

    def once() -> None:
        with _one_transaction(instance):
            record()

    until_answered(once)


@contextmanager
def _one_transaction(instance: dg.DagsterInstance) -> Iterator[None]:
    if not isinstance(instance.event_log_storage, PostgresEventLogStorage):
        yield
        return
    storage: Any = instance.event_log_storage
    with _transaction(storage._engine) as connection:
        storage._connect = lambda: nullcontext(connection)
        try:
            yield
        finally:
            del storage._connect


@contextmanager
def _transaction(engine: Engine) -> Iterator[Connection]:
    with create_pg_connection(engine) as pooled:
        connection = pooled.execution_options(isolation_level="READ COMMITTED")
        with connection.begin():
            yield connection


def _add_run_whole(storage: PostgresRunStorage, row: dict[str, Any], tags: Mapping[str, str]) -> None:
    """Store a run and its tags in one transaction.

    Dagster takes two: a run whose process or server is killed between them is in no list of a backfill's runs, and
    cannot be stored again.
    """
    with _transaction(storage._engine) as connection:
        within: Any = copy.copy(storage)  # threads share the storage itself
        within.connect = lambda: nullcontext(connection)
        PostgresRunStorage._core_add_run(within, row, tags)


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres with the URL from the pipeline's settings, and with connections that are used again.

    Dagster opens some 140 for a month, half of its own run time. Each is tested before it is used again, so that a
    server restart between two statements does no harm.
    """

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url=postgres_url, inst_data=inst_data)
        engine = create_pg_engine(
            postgres_url, isolation_level="AUTOCOMMIT", pool_size=_KEPT, max_overflow=_MORE, pool_pre_ping=True
        )
        # Like Dagster's own `optimize_for_webserver`, but one engine for the three.
        storages: tuple[Any, ...] = (self.run_storage, self.event_log_storage, self.schedule_storage)
        for storage in storages:
            storage._engine = engine
            # The web UI would get connections that are not tested, and a page of errors after a restart of the server.
            storage.optimize_for_webserver = partial(_serve_pages, engine, storages)
        runs: Any = self.run_storage
        runs._core_add_run = partial(_add_run_whole, runs)
        outlast_restarts(*storages)

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """No configuration."""
        return {}

    @classmethod
    def from_config_value(
        cls,
        inst_data: ConfigurableClassData | None,
        config_value: dict[str, Any],  # type: ignore[override]  # it has no keys
    ) -> WarehouseStorage:
        """Create the storage; Dagster calls this when it loads an instance.

        Raises:
            WarehouseError: if no server is reachable.
        """
        return cls(postgres_url=_url(read_settings()), inst_data=inst_data)

    # With a value here, Dagster would build the three storages from this class's empty configuration.
    @property
    def event_storage_data(self) -> None:
        """None: this object is the event storage."""

    @property
    def run_storage_data(self) -> None:
        """None: this object is the run storage."""

    @property
    def schedule_storage_data(self) -> None:
        """None: this object is the schedule storage."""
