"""The queue of runs, newest or oldest months first, and the part of the daemon that repeats lost runs."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.dagster_internals import (
    EventLogConsumerDaemon,
    instance_of,
    replace_retries,
    retry_run,
    should_retry,
)
from era5_pipeline.defs.run_tags import WILL_RETRY, missing_tags, priority_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.defs.dagster_internals import DaemonIterator, IWorkspaceProcessContext

# --- The part of the daemon that repeats lost runs, whatever else was lost at the same moment ---
#
# Dagster's own checks each failure only once, when it reads the event, and gives up the run if the code server or the
# database does not answer at that moment. Some runs then count as failed for good, and a backfill waits forever for the
# promised retry of others.


# How far back to look for failures, in seconds: when the daemon starts, and later. (A failure carries the time just
# before it was stored; the storage may have waited for its server since then.)
_FIRST_WINDOW, _WINDOW = 86_400.0, 300.0
# Seconds between two checks of all runs that are promised a retry, however old.
_ALL_SECONDS = 60.0
# How long, and how often, a retry is attempted while the code server is unreachable.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 600.0, 1.0
_log = logging.getLogger(__name__)


class RunRetryDaemon(EventLogConsumerDaemon):
    """Repeats failed runs that Dagster's settings allow to be retried, by checking the runs instead of events."""

    def __init__(self) -> None:
        super().__init__()
        self._window, self._all_at = _FIRST_WINDOW, 0.0

    def run_iteration(self, workspace_process_context: IWorkspaceProcessContext[Any]) -> DaemonIterator:
        """Repeat each run that waits for a retry."""
        for run in self._waiting(workspace_process_context.instance):
            yield None
            yield from self._repeat(workspace_process_context, run)

    def _waiting(self, instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
        now = time.time()
        filters = [dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=_utc(now - self._window))]
        if now >= self._all_at:
            filters.append(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={WILL_RETRY: "true"}))
        found = {run.run_id: run for asked in filters for run in instance.get_runs(asked) if _is_waiting(run)}
        if now >= self._all_at:
            self._all_at = now + _ALL_SECONDS
        self._window = _WINDOW
        return list(found.values())

    def _repeat(self, context: IWorkspaceProcessContext[Any], run: dg.DagsterRun) -> Iterator[None]:
        instance, until = context.instance, time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                if should_retry(run, instance):
                    retry_run(run, context)
                break
            except dg.DagsterInvalidSubsetError:
                _mark_as_successful(instance, run)
                return
            except Exception as error:  # noqa: BLE001  # usually, the code server does not answer
                if time.monotonic() > until:
                    instance.report_engine_event(f"This run cannot be repeated: {error}", run)
                    break
                _log.warning("run %s is repeated later: %s", run.run_id, error)
            yield
            time.sleep(_PAUSE_SECONDS)
        again = instance.get_run_by_id(run.run_id)
        if again is not None and again.is_complete_and_waiting_to_retry:
            # Nothing can repeat it, such as a run of `dg launch`, or of a backfill that was cancelled.
            instance.add_run_tags(run.run_id, {WILL_RETRY: "false"})


def _is_waiting(run: dg.DagsterRun) -> bool:
    # Without the tag, the process ended before it could say whether the run is retried.
    return run.is_complete_and_waiting_to_retry or WILL_RETRY not in run.tags


def _mark_as_successful(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Record the success of a run that was lost after its last step."""
    instance.report_dagster_event(
        dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.RUN_SUCCESS.value,
            job_name=run.job_name,
            message="All steps had succeeded when the process of this run was lost.",
        ),
        run_id=run.run_id,
    )


def _utc(timestamp: float) -> datetime:
    return datetime.fromtimestamp(timestamp, tz=UTC)


# --- The queue of runs that dagster.yaml names: newest or oldest months first, by ERA5_ORDER ---


class MonthQueue(dg.QueuedRunCoordinator):
    """Dagster's queue; it tags each run that enters with its month, its source, and its priority.

    A backfill submits its runs from first to last month, some twenty a second; of those submitted so far, the queue
    starts the one that comes first in the order.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # passed on
        super().__init__(*arguments, **options)
        # A backfill continues when a lost code server is back. Dagster reads this only from the daemon's environment.
        os.environ.setdefault("DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR", "1")
        replace_retries(RunRetryDaemon)

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        """Tag the run, and put it in the queue."""
        run = context.dagster_run
        if tags := missing_tags(run) | priority_tag(run):
            instance_of(self).add_run_tags(run.run_id, tags)
        return super().submit_run(context)
