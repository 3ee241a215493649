"""A run in a process that is forked from one that has imported everything: what that process does.

Importing the definitions takes as long as a small month's work. So the process that forks imports this module once, and
each run begins where the imports end. Here: the imports, and the run. Not here: which process forks, and when
(`defs.launchers.run_launcher`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.events import EngineEventData
from dagster._grpc.impl import core_execute_run
from dagster._utils.hosted_user_process import recon_job_from_origin
from dagster._utils.interrupts import capture_interrupts

from era5_pipeline.defs.run_tags import HERE
from era5_pipeline.defs.running.lasting_storage import until_answered
from era5_pipeline.defs.running.lost_runs import retry_if_interrupted
from era5_pipeline.defs.running.storage import release_server

if TYPE_CHECKING:
    from dagster._core.instance.ref import InstanceRef

DEFINITIONS = "era5_pipeline.definitions"
# What the process that forks imports.
PRELOADED = "era5_pipeline.defs.launchers.preloaded"


def execute_run(reference: InstanceRef, run_id: str) -> None:
    """Execute the run in this process, as Dagster's code server does in one that it starts.

    What goes wrong is recorded in the run's log; the caller looks at the run afterwards.
    """
    # A session of its own: signals to the daemon's process group do not reach it.
    os.setsid()
    try:
        with capture_interrupts(), until_answered(lambda: _opened(reference)) as instance:
            _execute(instance, run_id)
    finally:
        # A forked process ends without Python's own functions at exit.
        release_server()


def _opened(reference: InstanceRef) -> dg.DagsterInstance:
    """Open the instance, and its storage, which it would open on first use."""
    instance = dg.DagsterInstance.from_ref(reference)
    _ = instance.run_storage, instance.event_log_storage
    return instance


def _execute(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.add_run_tags(run_id, HERE)
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished or run.job_code_origin is None:
        return
    pid = os.getpid()
    instance.report_engine_event(f"Started process for run (pid: {pid}).", run, EngineEventData.in_process(pid))
    try:
        for _ in core_execute_run(recon_job_from_origin(run.job_code_origin), run, instance, inject_env_vars=False):
            pass
    except BaseException:  # noqa: BLE001, S110  # Dagster records each exception before it raises it
        pass
    retry_if_interrupted(instance, run_id)
