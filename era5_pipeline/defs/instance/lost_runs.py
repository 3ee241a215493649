"""Runs that ended with their process, server or code server: finding them, and requesting their months again.

The stages of a month are idempotent, so a month that a lost run had loaded is only confirmed by the next one.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil as _psutil
from dagster_postgres.utils import DagsterPostgresException
from psycopg2 import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnectionError

from era5_pipeline.defs.run_tags import (
    BACKFILL,
    HERE,
    HOST,
    MAX_RETRIES,
    PARTITION,
    PRIORITY,
    REPEATED_BY,
    RUN_KEY,
    WILL_RETRY,
    dataset_of_run,
    is_dropped,
    job_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

psutil: Any = _psutil  # it has no type annotations

# A started run records its process id within this many seconds.
_PID_SECONDS = 60
_MESSAGE = "The process of this run ended without recording a result."
# A run is started this often in all; one that ended with its daemon, or was interrupted, does not count.
_STARTS = 5
_STARTED, _NOT_COUNTED = "era5/starts", "era5/start_not_counted"
# Errors of a step that have nothing to do with its month, by the names that Dagster records.
_INTERRUPTED = {"KeyboardInterrupt", dg.DagsterExecutionInterruptedError.__name__}
_LOST_CONNECTION = {error.__name__ for error in (OperationalError, InterfaceError, DagsterPostgresException)}
_ENDED_BACKFILLS = {"CANCELED", "CANCELING"}
# SQLSTATE prefixes: the server shuts down or starts (57P01 to 57P03), or the connection broke (class 08).
_LOST_CODES = ("57P0", "08")
_KINDS = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}


def is_lost_connection(error: BaseException) -> bool:
    """Return True if Dagster's database did not answer, or closed the connection."""
    root = error
    while (cause := getattr(root, "orig", None) or root.__cause__) is not None:
        root = cause
    if isinstance(error, DagsterPostgresException | NoFreeConnectionError):
        return True
    # An error without a code comes from the connection rather than a statement.
    return isinstance(root, OperationalError | InterfaceError) and (root.pgcode or "08").startswith(_LOST_CODES)


def has_lost_connection(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return True if the run failed because Dagster's database did not answer, or closed the connection."""
    found = list(_errors_of_steps(instance, run_id))
    return bool(found) and all(errors and errors <= _LOST_CONNECTION for errors in found)


def fail_lost_runs(instance: dg.DagsterInstance, *, with_starting: bool = False) -> None:
    """Mark runs of this machine as failed if their process was lost while no daemon watched it.

    They would stay running forever, and count against `max_concurrent_runs` and the pools. `with_starting`: also runs
    that were about to be started, when no daemon is running that could be starting them.
    """
    statuses = [dg.DagsterRunStatus.STARTED, *([dg.DagsterRunStatus.STARTING] if with_starting else [])]
    for record in instance.get_run_records(dg.RunsFilter(statuses=statuses)):
        run = record.dagster_run
        is_starting = run.status is dg.DagsterRunStatus.STARTING
        if not is_starting and not is_here(run):
            continue
        if (is_starting and process_of(instance, run.run_id) is None) or not is_alive(instance, record):
            instance.add_run_tags(run.run_id, {_NOT_COUNTED: "true"})
            fail_run(instance, run, _MESSAGE)


def fail_run(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> None:
    """Mark the run as failed, and free its slots in the pools."""
    note_lost(instance, run)
    instance.report_run_failed(run, message)
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def note_lost(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Tag a run that has failed, or is about to, if it is repeated: its backfill then waits for that."""
    if is_repeated(instance, run):
        instance.add_run_tags(run.run_id, {WILL_RETRY: "true"})


def is_repeated(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True if the run was lost, and its month is to be requested again.

    Not if a step of it failed because of its month, it was a command's (`dg launch` stores no origin), or it has been
    started too often.
    """
    is_of_command = run.tags.get(MAX_RETRIES) == "0" or run.remote_job_origin is None
    if is_of_command or is_dropped(run) or _starts(instance, run) >= _STARTS:
        return False
    outside = _INTERRUPTED | _LOST_CONNECTION
    return all(errors and errors <= outside for errors in _errors_of_steps(instance, run.run_id))


def _starts(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int:
    """How many starts count for this run and those that it repeats."""
    earlier = int(run.tags.get(_STARTED, "0"))
    is_outside = _NOT_COUNTED in run.tags or any(
        errors and errors <= _INTERRUPTED for errors in _errors_of_steps(instance, run.run_id)
    )
    return earlier + (not is_outside)


def _errors_of_steps(instance: dg.DagsterInstance, run_id: str) -> Iterator[set[str]]:
    """Yield for each failed step, or a run that failed outside of its steps, the name of the error at its root.

    Empty for a failure that the pipeline reported itself: it is one of the month.
    """
    for entry in instance.all_logs(run_id, of_type=_KINDS):
        event = entry.dagster_event
        if event is None:
            continue
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            failure = event.step_failure_data
            error = None if failure.user_failure_data is not None else failure.error
            yield _root(error)
        elif (data := event.event_specific_data) is not None and (error := getattr(data, "error", None)) is not None:
            yield _root(error)


def _root(error: Any) -> set[str]:  # noqa: ANN401  # Dagster's record of an error
    while error is not None and error.cause is not None:
        error = error.cause
    return set() if error is None else {error.cls_name}


# --- Requesting the months of lost runs again ---


# How far back to look for failures, in seconds: at first, and before what the last tick saw.
_FIRST_WINDOW, _OVERLAP = 86_400.0, 300.0
# Tags that belong to one run rather than to what it was to do.
_OF_ONE_RUN = (HOST, _NOT_COUNTED)
# The job that has all assets of a month: a run from the web UI may be of a job without a name of its own.
_OF_A_MONTH = "load_month"


def requests_of_lost_runs(instance: dg.DagsterInstance, job: str, since: float | None) -> Iterator[dg.RunRequest]:
    """Yield a request of this job for each lost run of it that nothing has repeated yet.

    A run of a month may be of a job without a name of its own, if it was launched for some of the assets.
    `since` is when that was done last (Unix seconds), None if never.
    """
    after = (time.time() - _FIRST_WINDOW) if since is None else since - _OVERLAP
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.fromtimestamp(after, tz=UTC))
    for run in instance.get_runs(failed):
        is_decided = run.tags.get(WILL_RETRY) == "false" or REPEATED_BY in run.tags
        if is_decided or _job_of(run) != job:
            continue
        if _is_wanted(instance, run) and is_repeated(instance, run):
            later = _later_run(instance, run)
            if later is None:
                instance.add_run_tags(run.run_id, {WILL_RETRY: "true"})
                yield _request(instance, run)
            else:
                instance.add_run_tags(run.run_id, {WILL_RETRY: "true", REPEATED_BY: later.run_id})
        else:
            instance.add_run_tags(run.run_id, {WILL_RETRY: "false"})


def _job_of(run: dg.DagsterRun) -> str:
    return job_name(_OF_A_MONTH, dataset_of_run(run)) if PARTITION in run.tags else run.job_name


def _is_wanted(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True unless the run's backfill was cancelled or removed."""
    if (name := run.tags.get(BACKFILL)) is None:
        return True
    backfill = instance.get_backfill(name)
    return backfill is not None and backfill.status.value not in _ENDED_BACKFILLS


def _later_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun | None:
    """The newest run of the same month, or for the same request, that came after this one and was submitted."""
    same = {PARTITION: run.tags[PARTITION]} if PARTITION in run.tags else {RUN_KEY: run.run_id}
    runs = instance.get_runs(dg.RunsFilter(tags=same))
    newest = next((one for one in runs if dataset_of_run(one) == dataset_of_run(run)), None)
    if newest is None or newest.run_id == run.run_id or newest.status is dg.DagsterRunStatus.NOT_STARTED:
        return None
    return newest


def _request(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.RunRequest:
    kept = {
        name: text
        for name, text in run.tags.items()
        if name in (BACKFILL, PRIORITY)
        or (name not in _OF_ONE_RUN and not name.removeprefix(".").startswith("dagster/"))
    }
    return dg.RunRequest(
        run_key=run.run_id,
        partition_key=run.tags.get(PARTITION),
        job_name=_job_of(run),
        asset_selection=_assets_left(instance, run) or None,
        run_config=dict(run.run_config),
        tags={**kept, _STARTED: str(_starts(instance, run))},
    )


def _assets_left(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[dg.AssetKey]:
    """The assets that the run was to materialize and has not; if it has all, all of them, which confirms them."""
    planned, made = (
        {event.asset_key for entry in instance.all_logs(run.run_id, of_type=kind) if (event := entry.dagster_event)}
        for kind in (dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, dg.DagsterEventType.ASSET_MATERIALIZATION)
    )
    return sorted(key for key in planned - made or planned if key is not None)


# --- Where a run's process is ---


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
