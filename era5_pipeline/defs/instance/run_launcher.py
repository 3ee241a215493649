"""The run launcher that dagster.yaml names: each run is a process forked from one that has imported everything.

A process started by the code server spends two seconds of processor time on imports, several times the work of a tiny
month.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil as _psutil

from era5_pipeline.defs.instance.dagster_internals import (
    CheckRunHealthResult,
    ExecuteRunArgs,
    WorkerStatus,
    instance_of,
)
from era5_pipeline.defs.instance.lost_runs import (
    fail_run,
    is_alive,
    is_here,
    is_lost_connection,
    note_lost,
    process_of,
)
from era5_pipeline.defs.instance.services import DEFINITIONS
from era5_pipeline.defs.run_tags import HERE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from dagster._core.launcher import LaunchRunContext
    from dagster._serdes import ConfigurableClassData

psutil: Any = _psutil  # it has no type annotations

# Signals that end a run, from the one that lets it record the end; each with the seconds to wait after it.
_SIGNALS = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# In the command line of the forking process, and so of its forks.
_FORKED = "multiprocessing.forkserver"
# The module that the forking process imports.
_PRELOADED = "era5_pipeline.defs.instance.preloaded"
_PACKAGE = Path(__file__).parents[2]
# On other systems, system libraries do not survive a fork.
_CAN_FORK = sys.platform == "linux"
_LOST = "The process of this run ended without recording a result; the system may have ended it to free memory."
# How long it is tried to record the end of a run while Dagster's database does not answer, and how often.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 600.0, 2.0
_log = logging.getLogger(__name__)


def end_runs(folder: Path) -> None:
    """Stop the runs of the Dagster instance in `folder`: interrupt them, and kill those that do not react."""
    runs = run_processes(folder)
    for number, seconds in _SIGNALS:
        for process in runs:
            with suppress(psutil.Error):
                process.send_signal(number)
        _, runs = psutil.wait_procs(runs, timeout=seconds)
        if not runs:
            return


def run_processes(folder: Path) -> list[Any]:
    """The processes of runs of the instance in `folder`; each has its own session, to survive a killed daemon."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if _FORKED not in words or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == process.pid and process.environ().get("DAGSTER_HOME") == str(folder):
                found.append(process)
    return found


def _forking() -> Any:  # noqa: ANN401  # a context of `multiprocessing`
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


def import_in_advance() -> None:
    """Start the forking process, and wait until it has imported everything."""
    if _CAN_FORK:
        first = _forking().Process(target=os.getpid)
        first.start()
        first.join()


def _start_run(started: Connection, command: Sequence[str]) -> None:
    """Send the id of a new process to `started`, which then executes the run by this command of `dagster`.

    It is no child of the launcher's process, which would wait for it at its own end.
    """
    if pid := os.fork():
        started.send(pid)
        return
    started.close()
    os.setsid()  # signals to the daemon's process group do not reach it
    sys.argv = ["dagster", *command]
    (dagster,) = entry_points(group="console_scripts", name="dagster")
    with suppress(BaseException):  # Dagster records exceptions before raising them
        dagster.load()()


class ForkingRunLauncher(dg.DefaultRunLauncher):
    """Forks a process for each run of this package's definitions; other runs are started by their code server.

    The forking process is that of the standard library, with one thread and no connections. Runs survive it, and the
    daemon too; a lost run is marked as failed when found (by this process, run monitoring, or the next `era5` command).
    """

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._imported_at: float | None = None
        self._starting = threading.Lock()

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the run's process; if its code has changed since the imports, or is not ours, as Dagster does."""
        run = context.dagster_run
        instance_of(self).add_run_tags(run.run_id, HERE)
        if not self._can_fork(run):
            super().launch_run(context)
            return
        try:
            pid = self._start(run)
        except (OSError, EOFError) as error:  # the forking process died, or cannot fork
            _log.warning("run %s is started by the code server: %s", run.run_id, error or type(error).__name__)
            super().launch_run(context)
            return
        watching = (instance_of(self), pid, run.run_id)
        threading.Thread(target=watch_run, args=watching, name="watch-run", daemon=True).start()

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's process; False if the run has ended, or its process is out of reach."""
        run = instance_of(self).get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        pid = process_of(instance_of(self), run_id) if is_here(run) else None
        if pid is None:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        instance_of(self).report_run_canceling(run)
        try:
            os.kill(pid, signal.SIGINT)
        except ProcessLookupError:
            return False
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: run monitoring finds runs that were lost together with the daemon that watched them."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return True if the run's process is alive; a run on another machine, invisible from here, counts as alive."""
        record = instance_of(self).get_run_record_by_id(run.run_id)
        if record is None or not is_here(run) or is_alive(instance_of(self), record):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        instance_of(self).event_log_storage.free_concurrency_slots_for_run(run.run_id)
        note_lost(instance_of(self), run)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, _LOST)

    def _can_fork(self, run: dg.DagsterRun) -> bool:
        origin = None if run.job_code_origin is None else run.job_code_origin.repository_origin
        if not _CAN_FORK or origin is None or origin.executable_path != sys.executable:
            return False
        pointer = origin.code_pointer
        if getattr(pointer, "module", None) != DEFINITIONS:  # a pointer to a file, or to a part of one, has none
            return False
        changed_at = max(path.stat().st_mtime for path in _PACKAGE.rglob("*.py"))
        if self._imported_at is None:
            self._imported_at = changed_at
        return changed_at <= self._imported_at

    def _start(self, run: dg.DagsterRun) -> int:
        """Start a process that executes the run; return its id."""
        assert run.job_code_origin is not None  # noqa: S101  # as `_can_fork` has found
        arguments = ExecuteRunArgs(run.job_code_origin, run.run_id, instance_of(self).get_ref())
        with self._starting:
            context = _forking()
            receiver, sender = context.Pipe(duplex=False)
            # Without the interpreter and its module, which the process has.
            process = context.Process(target=_start_run, args=(sender, arguments.get_command_args()[-3:]))
            process.start()
            sender.close()
            with receiver:
                pid: int = receiver.recv()
            process.join()
        return pid


def watch_run(instance: dg.DagsterInstance, pid: int, run_id: str) -> None:
    """Wait for the end of the run's process, and mark the run as failed if it has not recorded its end.

    A run that was about to start has nobody else who looks at it for minutes: if Dagster's database does not answer, as
    after a crash that the process ended with, it is asked again.
    """
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait()  # no child of this process: it has no exit code here
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                fail_run(instance, run, _LOST)
            elif run is not None and run.is_failure:
                note_lost(instance, run)
        except Exception as error:  # noqa: BLE001  # reported here: this is a thread of its own
            _log.warning("run %s: its process has ended, and that was not recorded: %s", run_id, error)
            if is_lost_connection(error) and time.monotonic() < until:
                time.sleep(_PAUSE_SECONDS)
                continue
        return
