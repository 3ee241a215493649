"""The queue of runs that dagster.yaml names: newest months first, or oldest, as ERA5_ORDER says."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dagster._core.run_coordinator import QueuedRunCoordinator

from era5_pipeline.defs.run_tags import missing_tags, priority_tag

if TYPE_CHECKING:
    import dagster as dg
    from dagster._core.run_coordinator import SubmitRunContext

_DAEMON = "dagster._daemon.controller"


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
        if _DAEMON in sys.modules:
            # Slow to import, and of use in the daemon only.
            from era5_pipeline.defs.running.run_retries import use_in_daemon  # noqa: PLC0415

            use_in_daemon()

    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Tag the run, and put it in the queue."""
        run = context.dagster_run
        if tags := missing_tags(run) | priority_tag(run):
            self._instance.add_run_tags(run.run_id, tags)
        return super().submit_run(context)
