"""All that this package uses of Dagster beyond its public names, with the reason for each.

Dagster may change a name with an underscore in any release. `test_dagster_internals` fails for each that a new release
lacks, and this is the module to change then. One more is in `container_launcher`: only containers need its library.

Names without an underscore that no page of Dagster's documentation has are imported where they are used, and tested in
the same way: of `dagster_webserver` (`web_server`), `dagster_postgres` (`storage`, `instance`) and `dagster_docker`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

# The entry of a run's log with its process id, as Dagster writes it; and a value of the tag that says why a run failed.
from dagster._core.events import EngineEventData, RunFailureReason

# The serialized form of an instance, from which another process opens it.
from dagster._core.instance.ref import InstanceRef

# Parameters and results of a launcher. Writing a launcher is documented, but these types have no public names.
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus

# Where a run's job is served. `execute_in_process` does not store it, and the web UI then cannot execute the run again.
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

# The tables of Dagster's database, by name.
from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata
from dagster._core.storage.runs.schema import RunStorageSqlMetadata
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata

# Tags of a run that are not documented: its code server, and why it failed.
from dagster._core.storage.tags import GRPC_INFO_TAG, RUN_FAILURE_REASON_TAG

# The web UI as an ASGI application. `dagster-webserver` has no option for a guard in front of it.
from dagster._core.workspace.context import IWorkspaceProcessContext, WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

# The part of the daemon that repeats failed runs. It has settings, but cannot be replaced by configuration.
from dagster._daemon import controller
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import retry_run, should_retry
from dagster._daemon.auto_run_reexecution.event_log_consumer import EventLogConsumerDaemon
from dagster._daemon.daemon import DaemonIterator

# Executing a stored run in this process, as the code server does: this and the two functions of `_utils` below.
# `dg.execute_job` would store a new run.
from dagster._grpc.impl import core_execute_run

# The configuration from which Dagster created a class that dagster.yaml names.
from dagster._serdes import ConfigurableClassData
from dagster._utils.hosted_user_process import recon_job_from_origin
from dagster._utils.interrupts import capture_interrupts
from dagster_postgres import PostgresEventLogStorage
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import dagster as dg
    from sqlalchemy.engine import Connection

__all__ = [
    "DAEMON_MODULE",
    "GRPC_INFO_TAG",
    "IMPORTED_BY_RUNS",
    "RUN_FAILURE_REASON_TAG",
    "STEP_LOGGER",
    "STORAGE_TABLES",
    "CheckRunHealthResult",
    "ConfigurableClassData",
    "ConnectableEventLog",
    "DaemonIterator",
    "EventLogConsumerDaemon",
    "IWorkspaceProcessContext",
    "InstanceRef",
    "LaunchRunContext",
    "RemoteJobOrigin",
    "RunFailureReason",
    "WorkerStatus",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "capture_interrupts",
    "execute_stored_run",
    "instance_of",
    "job_origin_at",
    "record_process",
    "recording_origin",
    "replace_retries",
    "retry_run",
    "should_retry",
]

# `dagster-daemon` as a module: its script is not always beside the interpreter.
DAEMON_MODULE = "dagster._daemon"
# Those of runs, events and schedules, and that of Alembic, which upgrades them.
STORAGE_TABLES = frozenset(
    {
        "alembic_version",
        *RunStorageSqlMetadata.tables,
        *SqlEventLogStorageMetadata.tables,
        *ScheduleStorageSqlMetadata.tables,
    }
)
# Logs each check of a skipped month as not executed.
STEP_LOGGER = "dagster._core.execution.plan.active"
# Modules that Dagster imports only when a run begins, which takes half a second.
IMPORTED_BY_RUNS = (
    "dagster._core.definitions.repository_definition.repository_data_builder",
    "dagster._core.execution.plan.active",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.secrets.env_file",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.root",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.system_config.composite_descent",
    "dagster._core.workspace.autodiscovery",
)


def instance_of(plugin: RunLauncher[Any] | dg.QueuedRunCoordinator) -> dg.DagsterInstance:
    """The instance whose configuration names this launcher or queue; Dagster's own use the same attribute."""
    instance: dg.DagsterInstance = plugin._instance
    return instance


class ConnectableEventLog(PostgresEventLogStorage):
    """The event log of dagster-postgres, with two private methods that can be overridden.

    `connect`, like that of the two other storages; `has_asset_key_column`, which is asked several times for a month.
    """

    def connect(self) -> AbstractContextManager[Connection]:
        """Lend a connection for one call."""
        return super()._connect()

    @override
    def _connect(self) -> AbstractContextManager[Connection]:
        return self.connect()

    def has_asset_key_column(self, connection: Connection, name: str) -> bool:
        """Return True if the table of assets has this column."""
        return super()._has_asset_key_col_on_connection(connection, name)

    @override
    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        return self.has_asset_key_column(conn, column_name)


def record_process(instance: dg.DagsterInstance, run: dg.DagsterRun, pid: int) -> None:
    """Record in the run's log which process executes it."""
    instance.report_engine_event(f"Started process for run (pid: {pid}).", run, EngineEventData.in_process(pid))


def execute_stored_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Execute the run in this process. Its errors are recorded in its log, and some are also raised."""
    if run.job_code_origin is None:
        return
    for _ in core_execute_run(recon_job_from_origin(run.job_code_origin), run, instance, inject_env_vars=False):
        pass


def job_origin_at(socket: str, location: str, repository: str, job: str) -> RemoteJobOrigin:
    """The origin of a job that a code server serves on this socket."""
    server = GrpcServerCodeLocationOrigin(host="localhost", socket=socket, location_name=location)
    return RemoteRepositoryOrigin(server, repository).get_job_origin(job)


@contextmanager
def recording_origin(instance: dg.DagsterInstance, origin: RemoteJobOrigin) -> Iterator[None]:
    """Store this origin with the runs that are created in this context."""
    recording: Any = instance
    recording.create_run_for_job = partial(instance.create_run_for_job, remote_job_origin=origin)
    try:
        yield
    finally:
        del recording.create_run_for_job


def replace_retries(daemon: type[EventLogConsumerDaemon]) -> None:
    """Make Dagster's daemon, if this is its process, repeat failed runs by this class instead of its own."""
    replaced: Any = controller
    replaced.EventLogConsumerDaemon = daemon
