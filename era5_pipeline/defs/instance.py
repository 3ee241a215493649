"""The Dagster instance that `era5` uses: the project's `dagster.yaml`, in a folder below the pipeline's home."""

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
from era5_pipeline.defs.services import socket_path
from era5_pipeline.model.errors import Era5Error, TransientError, WarehouseError
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it comes without types

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the file inside the package; a checkout has it beside the package.
_CONFIGURATION = (_PACKAGE / "dagster.yaml", _PACKAGE.parent / "dagster.yaml")

# To capture what steps print, Dagster takes standard error away from the terminal, and the progress bars with it; and
# it starts four processes a run. Our steps print nothing.
_NOTHING_CAPTURED = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}

# Tags of a run in a command's own process: where that is, and that its user, not the daemon, sees to another try.
_HOST = "era5/host"
OWN_PROCESS = {_HOST: socket.gethostname(), "dagster/max_retries": "0"}
_GRPC_INFO = ".dagster/grpc_info"
# A run tells its process' number at once when it has started.
_SILENT_SECONDS = 60


def dagster_home(home: Path) -> Path:
    """The folder to set DAGSTER_HOME to; holds `dagster.yaml`, and the logs of runs.

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
    """The instance itself; its database is made on first use, and runs that were lost are failed.

    Raises:
        TransientError: if the connection to its database is lost within.
        WarehouseError: if there is no server to be had, or it refuses Dagster's tables.
    """
    folder = dagster_home(home)
    with (
        _storage_errors(),
        dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_NOTHING_CAPTURED)) as instance,
        _connections_held(instance),
    ):
        ensure_pools(instance)
        _fail_lost_runs(instance, folder)
        yield instance


@contextmanager
def _connections_held(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep connections for the next statement: Dagster opens some 140 a month, half the time that it takes for itself.

    Each is tried before it is used again, so a server that restarts between two statements goes unnoticed.
    """
    storages: tuple[Any, ...] = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
    with ExitStack() as engines:
        for storage in storages:
            # As Dagster's own `optimize_for_webserver`, which does not try them.
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
        # Not `str(error)`, which has the statement and its values.
        said = f"Dagster's database: {' '.join(str(root).split())}"
        if isinstance(root, psycopg2.OperationalError | psycopg2.InterfaceError):
            raise TransientError(said, remedy="Run it again: months that are loaded by now are left alone.") from error
        raise WarehouseError(
            said, remedy="Dagster makes tables of its own there: let its user, or set ERA5_DAGSTER_DATABASE_URL."
        ) from error


def _fail_lost_runs(instance: dg.DagsterInstance, folder: Path) -> None:
    """Fail runs of this machine whose process has ended without a word (kill -9, no memory, a power cut).

    They would go on for ever, and count against `max_concurrent_runs` and the pool of loads, until nothing runs.
    """
    ours = str(socket_path(folder))
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        here = run.tags.get(_HOST) == OWN_PROCESS[_HOST] or ours in run.tags.get(_GRPC_INFO, "")
        if here and not _is_alive(instance, record):
            instance.report_run_failed(run, "The process of this run has ended without a word.")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _is_alive(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    told = False
    for entry in instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is None:
            continue
        told = True
        if _has_run_since(int(str(pid.value)), entry.timestamp):
            return True
    silent = time.time() - (record.start_time or 0.0)
    return not told and silent < _SILENT_SECONDS


def _has_run_since(pid: int, timestamp: float) -> bool:
    """Whether the process that had this number then has it still, and lives."""
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() <= timestamp and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
