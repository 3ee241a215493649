"""The Dagster instance of the `era5` commands, with its storage: dagster-postgres in a second database."""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg2
from dagster._core.instance.ref import InstanceRef
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage, PostgresRunStorage
from dagster_postgres.utils import (
    DagsterPostgresException,
    create_pg_connection,
    create_pg_engine,
    set_pg_statement_timeout,
)
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from era5_pipeline.defs.lasting_storage import fail_at_once, outlast_restarts, until_answered
from era5_pipeline.defs.lost_runs import fail_lost_runs
from era5_pipeline.defs.resources import ensure_pools
from era5_pipeline.defs.run_tags import HERE
from era5_pipeline.defs.services import socket_path
from era5_pipeline.model.errors import Era5Error, TransientError, WarehouseError
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.postgres.connect import dagster_url, open_warehouse
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine import Connection, Engine

# --- Dagster's own storage: dagster-postgres in a second database on the warehouse's server ---
#
# `dagster.yaml` cannot start a server, and an `env:` in it makes every command fail if the variable is not set. So
# this class finds the server like the rest of the pipeline, from ERA5_DATABASE_URL or as the embedded one: `dg
# launch`, the daemon and `era5` share one history without further settings. The serialized form of the instance
# contains no URL, and so no password.


_until_exit = ExitStack()
# Connections kept open by a process, and allowed in addition: a run needs two, the daemon's threads sometimes more.
_KEPT, _MORE = 3, 20


@cache
def _url(settings: Settings) -> str:
    """The URL of Dagster's database. An embedded server is kept running until this process ends."""
    import atexit  # noqa: PLC0415  # registered on first use, to run before handlers registered at import

    atexit.register(_until_exit.close)
    return dagster_url(_until_exit.enter_context(open_warehouse(settings, create=True)), settings)


def release_server() -> None:
    """Stop keeping an embedded server running, in a process that ends without Python's exit handlers."""
    _until_exit.close()


def _serve_pages(engine: Engine, storages: tuple[Any, ...], statement_timeout: int, **_: object) -> None:
    """For the web UI: show errors instead of waiting, and limit the time of statements (milliseconds)."""
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
    """Store what `record` records in one transaction; each event would otherwise take three.

    `record` is called again if the connection was lost, since nothing has been stored then.
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

    Dagster uses two: a run whose process or server is killed between them is missing from its backfill's runs, and
    cannot be stored again.
    """
    with _transaction(storage._engine) as connection:
        within: Any = copy.copy(storage)  # a copy, as threads share the storage
        within.connect = lambda: nullcontext(connection)
        PostgresRunStorage._core_add_run(within, row, tags)


class WarehouseStorage(DagsterPostgresStorage):
    """dagster-postgres with the URL from the pipeline's settings, and with a pool of connections.

    Dagster opens some 140 for a month, half of its own run time. Each is tested before reuse, so that a server restart
    between two statements does no harm.
    """

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url=postgres_url, inst_data=inst_data)
        engine = create_pg_engine(
            postgres_url, isolation_level="AUTOCOMMIT", pool_size=_KEPT, max_overflow=_MORE, pool_pre_ping=True
        )
        # Like Dagster's own `optimize_for_webserver`, but with one engine for all three.
        storages: tuple[Any, ...] = (self.run_storage, self.event_log_storage, self.schedule_storage)
        for storage in storages:
            storage._engine = engine
            # Dagster's version gives the web UI untested connections, and a page of errors after a restart of the
            # server.
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

    # If this had a value, Dagster would build the three storages from this class's empty configuration.
    @property
    def event_storage_data(self) -> None:
        """None: this object is the event storage."""

    @property
    def run_storage_data(self) -> None:
        """None: this object is the run storage."""

    @property
    def schedule_storage_data(self) -> None:
        """None: this object is the schedule storage."""


# --- The Dagster instance of the `era5` commands: the project's `dagster.yaml`, copied to a folder below ERA5_HOME ---


_PACKAGE = Path(__file__).parents[1]
# In a wheel the file is inside the package, in a checkout next to it.
_CONFIGURATION = (_PACKAGE / "dagster.yaml", _PACKAGE.parent / "dagster.yaml")

# To capture the output of steps, Dagster redirects standard error, which hides the progress bars, and starts four
# processes per run. Our steps print nothing.
_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}

# Tags of a run in a command's process: its host, and no retries by the daemon, as the user repeats the command.
OWN_PROCESS = {**HERE, "dagster/max_retries": "0"}


def dagster_home(home: Path) -> Path:
    """The folder for DAGSTER_HOME, with `dagster.yaml` and the logs of runs.

    Raises:
        Era5Error: if the installation has no `dagster.yaml`.
        LocalDiskError: if the folder cannot be written.
    """
    configuration = next((path for path in _CONFIGURATION if path.is_file()), None)
    if configuration is None:
        raise Era5Error(
            "dagster.yaml is missing from this installation of era5-pipeline",
            remedy="Install the package again, from a complete checkout or wheel.",
        )
    folder, text = home / "dagster", configuration.read_text(encoding="utf-8")
    written = folder / "dagster.yaml"
    if not written.is_file() or written.read_text(encoding="utf-8") != text:
        with replacing(written) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return folder


@contextmanager
def open_instance(home: Path, *, no_daemon: bool = False) -> Iterator[dg.DagsterInstance]:
    """Open the instance, create its database if it is missing, and mark lost runs as failed.

    `no_daemon`: no daemon is running, so runs about to be started are lost too.

    Raises:
        TransientError: if the connection to its database is lost in this context.
        WarehouseError: if no server is reachable, or it refuses to create Dagster's tables.
    """
    folder = dagster_home(home)
    with (
        _storage_errors(),
        dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_NO_COMPUTE_LOGS)) as instance,
        closing_connections(instance),
    ):
        ensure_pools(instance)
        fail_lost_runs(instance, own_socket=str(socket_path(folder)), with_starting=no_daemon)
        yield instance


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, DagsterPostgresException) as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        # Not `str(error)`, which contains the statement and its values.
        message = f"Dagster's database: {' '.join(str(root).split())}"
        if isinstance(root, psycopg2.OperationalError | psycopg2.InterfaceError):
            raise TransientError(
                message, remedy="Run the command again: months that are already loaded are skipped."
            ) from error
        raise WarehouseError(
            message,
            remedy="Let its user create tables there, or set ERA5_DAGSTER_DATABASE_URL to another database.",
        ) from error
