"""The queue of runs that dagster.yaml names: newest or oldest months first, by ERA5_ORDER."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg

from era5_pipeline.defs.instance.dagster_internals import instance_of
from era5_pipeline.defs.run_tags import missing_tags, priority_tag


class MonthQueue(dg.QueuedRunCoordinator):
    """Dagster's queue; it tags each run that enters with its month, its source, and its priority.

    A backfill submits its runs from first to last month, some twenty a second; of those submitted so far, the queue
    starts the one that comes first in the order.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # passed on
        super().__init__(*arguments, **options)
        # A backfill continues when a lost code server is back. Dagster reads this only from the daemon's environment.
        os.environ.setdefault("DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR", "1")

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        """Tag the run, and put it in the queue."""
        run = context.dagster_run
        if tags := missing_tags(run) | priority_tag(run):
            instance_of(self).add_run_tags(run.run_id, tags)
        return super().submit_run(context)
