"""The run launcher named in dagster.yaml: each run is a process forked from one that has imported everything."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing import process as processes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil as _psutil

from era5_pipeline.defs.dagster_internals import (
    CheckRunHealthResult,
    WorkerStatus,
    capture_interrupts,
    execute_stored_run,
    instance_of,
    record_process,
)
from era5_pipeline.defs.lost_runs import fail_run, is_alive, is_here, process_of, retry_if_interrupted
from era5_pipeline.defs.run_tags import HERE
from era5_pipeline.defs.services import DEFINITIONS
from era5_pipeline.defs.storage import Outage, until_answered

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

    from era5_pipeline.defs.dagster_internals import ConfigurableClassData, InstanceRef, LaunchRunContext

# --- The processes of runs on this machine: stop those still running when `era5 up` ends ---
#
# Each has its own session, so that it survives a daemon that is killed.


psutil: Any = _psutil  # it has no type annotations

# Signals that end a run, from the one that lets it record the end; each with the seconds to wait after it.
_SIGNALS = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# In the command line of a forking process, and so of its forks.
_FORKED = ("multiprocessing.forkserver", "multiprocessing.spawn")


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
    """The processes of runs of the instance in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if not any(sign in words for sign in _FORKED) or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == process.pid and process.environ().get("DAGSTER_HOME") == str(folder):
                found.append(process)
    return found


# --- Inside the process of a run, forked from one that has imported everything ---
#
# Importing the definitions takes as long as a small month's work. So the forking process imports this module once, and
# each run starts with the imports done.


# The module imported by the forking process.
PRELOADED = "era5_pipeline.defs.preloaded"


def execute_run(reference: InstanceRef, run_id: str) -> None:
    """Execute the run in this process, as Dagster's code server does in a process that it starts.

    Errors are recorded in the run's log; the caller checks the run afterwards.
    """
    # Its own session: signals to the daemon's process group do not reach it.
    os.setsid()
    with capture_interrupts(), until_answered(lambda: _opened(reference), Outage()) as instance:
        _execute(instance, run_id)


def _opened(reference: InstanceRef) -> dg.DagsterInstance:
    """Open the instance with its storage, which would otherwise be opened on first use."""
    instance = dg.DagsterInstance.from_ref(reference)
    _ = instance.run_storage, instance.event_log_storage
    return instance


def _execute(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.add_run_tags(run_id, HERE)
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return
    record_process(instance, run, os.getpid())
    with suppress(BaseException):  # Dagster records exceptions before raising them
        execute_stored_run(instance, run)
    retry_if_interrupted(instance, run_id)


# --- The run launcher named in dagster.yaml: each run is a process forked from one that has imported everything ---
#
# A process started by the code server spends two seconds of processor time on imports, several times the work of a tiny
# month.


_PACKAGE = Path(__file__).parents[1]
_log = logging.getLogger(__name__)


class ForkingRunLauncher(dg.DefaultRunLauncher):
    """Forks a process for each run of this package's definitions; other runs are started by their code server.

    The forking process is that of the standard library, with one thread and no connections. Runs survive it, and the
    daemon too; a lost run is marked as failed when found (by this process, run monitoring, or the next `era5` command).
    """

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        # On other systems than Linux, system libraries do not survive a fork.
        self._context: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        self._context.set_forkserver_preload([PRELOADED])
        self._imported_at: float | None = None
        self._starting = threading.Lock()

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the run's process; if its code has changed since the imports, or is not ours, as Dagster does."""
        run = context.dagster_run
        if not self._can_fork(run):
            super().launch_run(context)
            return
        try:
            process = self._start(run.run_id)
        except (OSError, EOFError) as error:  # the forking process died, or cannot fork
            _log.warning("run %s is started by the code server: %s", run.run_id, error or type(error).__name__)
            super().launch_run(context)
            return
        threading.Thread(target=self._watch, args=(process, run.run_id), name="watch-run", daemon=True).start()

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
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "its process ended without recording a result")

    def _can_fork(self, run: dg.DagsterRun) -> bool:
        origin = None if run.job_code_origin is None else run.job_code_origin.repository_origin
        if origin is None or origin.executable_path != sys.executable:
            return False
        pointer = origin.code_pointer
        if getattr(pointer, "module", None) != DEFINITIONS:  # a pointer to a file, or to a part of one, has none
            return False
        changed_at = max(path.stat().st_mtime for path in _PACKAGE.rglob("*.py"))
        if self._imported_at is None:
            self._imported_at = changed_at
        return changed_at <= self._imported_at

    def _start(self, run_id: str) -> ForkServerProcess:
        with self._starting:
            process: ForkServerProcess = self._context.Process(
                target=execute_run, args=(instance_of(self).get_ref(), run_id)
            )
            process.start()
            # Otherwise Python would wait for the run at exit.
            processes._children.discard(process)  # type: ignore[attr-defined]
        return process

    def _watch(self, process: ForkServerProcess, run_id: str) -> None:
        """Wait for the end of the process, and mark the run as failed if it has not recorded its end."""
        process.join()
        code = process.exitcode
        process.close()
        try:
            instance = instance_of(self)
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                fail_run(instance, run, f"The process of this run {_end_in_words(code or 0)}.")
        except Exception as error:  # noqa: BLE001  # such as a database that is down: run monitoring checks again
            _log.warning("run %s: its process ended with %s, and that was not recorded: %s", run_id, code, error)


def _end_in_words(code: int) -> str:
    """How a process with this exit code ended; a negative code is the number of a signal."""
    if code >= 0:
        return f"unexpectedly exited with code {code}"
    hint = ": usually by the system, because memory ran out" if -code == signal.SIGKILL else ""
    return f"was terminated by signal {-code} ({signal.strsignal(-code)}){hint}"
