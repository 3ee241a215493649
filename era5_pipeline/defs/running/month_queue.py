"""The queue of runs that dagster.yaml names: newest months first, or oldest, as ERA5_ORDER says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dagster._core.run_coordinator import QueuedRunCoordinator

from era5_pipeline.defs.run_tags import missing_tags, priority_tag

if TYPE_CHECKING:
    import dagster as dg
    from dagster._core.run_coordinator import SubmitRunContext


class MonthQueue(QueuedRunCoordinator):
    """Dagster's queue; a run that enters it is tagged with its month, its source, and its priority.

    A backfill submits its runs from its first month to its last, some twenty a second: of those that have been
    submitted the queue starts the one that comes first in the order.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # as they are
        super().__init__(*arguments, **options)
        # A backfill during which the code server is lost goes on when it is back. Dagster reads this from the daemon's
        # environment only.
        os.environ.setdefault("DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR", "1")

    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Tag the run, and put it in the queue."""
        run = context.dagster_run
        if tags := missing_tags(run) | priority_tag(run):
            self._instance.add_run_tags(run.run_id, tags)
        return super().submit_run(context)
