"""Runs whose process was lost: finding them, marking them as failed, and starting them again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil as _psutil

from era5_pipeline.defs.dagster_internals import GRPC_INFO_TAG, RUN_FAILURE_REASON_TAG, RunFailureReason
from era5_pipeline.defs.run_tags import HERE, HOST, MAX_RETRIES, WILL_RETRY

if TYPE_CHECKING:
    from collections.abc import Mapping

psutil: Any = _psutil  # it has no type annotations

# A started run records its process id within this many seconds.
_PID_SECONDS = 60
_MESSAGE = "The process of this run ended without recording a result."


def fail_lost_runs(instance: dg.DagsterInstance, *, own_socket: str, with_starting: bool = False) -> None:
    """Mark runs of this machine as failed if their process was lost while no daemon watched it.

    They would stay running forever, and count against `max_concurrent_runs` and the pools. `with_starting`: also runs
    that were about to be started, when no daemon is running that could be starting them.
    """
    statuses = [dg.DagsterRunStatus.STARTED, *([dg.DagsterRunStatus.STARTING] if with_starting else [])]
    for record in instance.get_run_records(dg.RunsFilter(statuses=statuses)):
        run = record.dagster_run
        is_starting = run.status is dg.DagsterRunStatus.STARTING
        if not is_starting and own_socket not in run.tags.get(GRPC_INFO_TAG, "") and not is_here(run):
            continue
        if (is_starting and process_of(instance, run.run_id) is None) or not is_alive(instance, record):
            _uncount_start(instance, run)
            fail_run(instance, run, _MESSAGE)


def fail_run(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> None:
    """Mark the run as failed, and free its slots in the pools."""
    instance.report_run_failed(run, message)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def retry_if_interrupted(instance: dg.DagsterInstance, run_id: str) -> None:
    """Let a run be restarted, however often it was, if it was interrupted rather than cancelled."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.tags.get(RUN_FAILURE_REASON_TAG) == RunFailureReason.UNEXPECTED_TERMINATION.value:
        _uncount_start(instance, run, **{WILL_RETRY: "true"})


def _uncount_start(instance: dg.DagsterInstance, run: dg.DagsterRun, **tags: str) -> None:
    """Do not count this start towards the limit of starts: the run was ended from outside.

    Dagster compares the number of starts with a tag when the failure is reported, so call this before.
    """
    most = run.tags.get(MAX_RETRIES, str(instance.run_retries_max_retries))
    if most.isdecimal() and most != "0":
        instance.add_run_tags(run.run_id, {MAX_RETRIES: str(int(most) + 1), **tags})


def is_here(run: dg.DagsterRun) -> bool:
    """Return True if the run's process is, or was, on this machine."""
    return run.tags.get(HOST) == HERE[HOST]


def is_alive(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Return True if the run's process is alive; a run that has not recorded one yet counts as alive for a minute."""
    pids = _recorded_pids(instance, record.dagster_run.run_id)
    if any(_has_run_since(pid, timestamp) for pid, timestamp in pids.items()):
        return True
    age = time.time() - (record.start_time or 0.0)
    return not pids and age < _PID_SECONDS


def process_of(instance: dg.DagsterInstance, run_id: str) -> int | None:
    """The id of the run's process, if it is still running on this machine."""
    pids = _recorded_pids(instance, run_id)
    return next((pid for pid, timestamp in pids.items() if _has_run_since(pid, timestamp)), None)


def _recorded_pids(instance: dg.DagsterInstance, run_id: str) -> Mapping[int, float]:
    """Process ids in the run's log, with the time of their entry (Unix seconds)."""
    found = {}
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        event = entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event is not None else None
        if pid is not None:
            found[int(str(pid.value))] = entry.timestamp
    return found


def _has_run_since(pid: int, timestamp: float) -> bool:
    """Return True if the process that had this id at `timestamp` (Unix seconds) is still running."""
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() <= timestamp and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
