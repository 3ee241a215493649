"""The Dagster instance of the `era5` commands: the project's `dagster.yaml`, copied to a folder below ERA5_HOME."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil as _psutil
import psycopg2
from dagster._core.instance.ref import InstanceRef
from dagster_postgres.utils import DagsterPostgresException, create_pg_engine
from sqlalchemy.exc import SQLAlchemyError

from era5_pipeline.defs.pools import ensure_pools
from era5_pipeline.defs.running.services import socket_path
from era5_pipeline.model.errors import Era5Error, TransientError, WarehouseError
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it has no type annotations

_PACKAGE = Path(__file__).parents[2]
# In a wheel the file is inside the package, in a checkout beside it.
_CONFIGURATION = (_PACKAGE / "dagster.yaml", _PACKAGE.parent / "dagster.yaml")

# To capture the output of steps, Dagster redirects standard error, which hides the progress bars, and starts four
# processes per run. Our steps print nothing.
_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}

# Tags of a run in the process of a command: its host, and no retries by the daemon, since the user repeats the command.
_HOST = "era5/host"
OWN_PROCESS = {_HOST: socket.gethostname(), "dagster/max_retries": "0"}
_GRPC_INFO = ".dagster/grpc_info"
# A started run records its process id within this time.
_PID_SECONDS = 60


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
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance, create its database if it is missing, and mark lost runs as failed.

    Raises:
        TransientError: if the connection to its database is lost in this context.
        WarehouseError: if no server is reachable, or it refuses to create Dagster's tables.
    """
    folder = dagster_home(home)
    with (
        _storage_errors(),
        dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_NO_COMPUTE_LOGS)) as instance,
        _pooled_connections(instance),
    ):
        ensure_pools(instance)
        _fail_lost_runs(instance, folder)
        yield instance


@contextmanager
def _pooled_connections(instance: dg.DagsterInstance) -> Iterator[None]:
    """Reuse connections: Dagster opens some 140 per month, half of its own run time.

    Each is tested before it is reused, so that a server restart between two statements does no harm.
    """
    storages: tuple[Any, ...] = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
    with ExitStack() as engines:
        for storage in storages:
            # Like Dagster's own `optimize_for_webserver`, but with `pool_pre_ping`.
            storage._engine = create_pg_engine(
                storage.postgres_url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=20, pool_pre_ping=True
            )
            engines.callback(storage._engine.dispose)
        yield


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


def _fail_lost_runs(instance: dg.DagsterInstance, folder: Path) -> None:
    """Mark runs of this machine as failed whose process was lost (kill -9, out of memory, power cut).

    They would stay running for ever, and count against `max_concurrent_runs` and the pools.
    """
    own_socket = str(socket_path(folder))
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        is_here = run.tags.get(_HOST) == OWN_PROCESS[_HOST] or own_socket in run.tags.get(_GRPC_INFO, "")
        if is_here and not _is_alive(instance, record):
            instance.report_run_failed(run, "The process of this run ended without recording a result.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _is_alive(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    has_pid = False
    for entry in instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is None:
            continue
        has_pid = True
        if _has_run_since(int(str(pid.value)), entry.timestamp):
            return True
    age = time.time() - (record.start_time or 0.0)
    return not has_pid and age < _PID_SECONDS


def _has_run_since(pid: int, timestamp: float) -> bool:
    """Whether the process that had this id at `timestamp` (Unix seconds) is still running."""
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() <= timestamp and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
