"""Schedules: the newest month once it is there, what was preliminary once it is final, and, if wanted, every day.

Here: when, and what Dagster is told. Not here: which months (`era5_pipeline.updates`). All are off until they are
switched on, in the UI under Automation: each asks a service in the user's name.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import dagster as dg

from era5_pipeline.defs.jobs import load_month
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.updates import Update, current_month, newest_months, require_updatable_source, revisions
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.ledger_entry import LedgerEntry

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_PARTITION = "dagster/partition"
_REASON = "era5/reason"


@dg.schedule(
    name="monthly_update",
    job=load_month,
    cron_schedule="0 6 * * *",
    execution_timezone="UTC",
    description="Loads the newest complete month. Looks every day: a month that is not there yet is tried again.",
)
def monthly_update(context: dg.ScheduleEvaluationContext, era5: Era5Resource) -> dg.SkipReason | list[dg.RunRequest]:
    """See `updates.newest_months`."""
    return _requests(context, era5, newest_months, "the newest complete month is in the table")


@dg.schedule(
    name="revise_preliminary",
    job=load_month,
    cron_schedule="0 7 * * 1",
    execution_timezone="UTC",
    description="Fetches months anew that hold preliminary (ERA5T) hours and are old enough to be final.",
)
def revise_preliminary(
    context: dg.ScheduleEvaluationContext, era5: Era5Resource
) -> dg.SkipReason | list[dg.RunRequest]:
    """See `updates.revisions`."""
    return _requests(context, era5, revisions, "no month with preliminary hours is old enough to be final")


@dg.schedule(
    name="current_month_daily",
    job=load_month,
    cron_schedule="0 8 * * *",
    execution_timezone="UTC",
    description="Loads the current month every day, as far as it goes. The ledger says that it is incomplete.",
)
def current_month_daily(
    context: dg.ScheduleEvaluationContext, era5: Era5Resource
) -> dg.SkipReason | list[dg.RunRequest]:
    """See `updates.current_month`."""
    return _requests(context, era5, current_month, "there is nothing of the current month yet")


SCHEDULES = [monthly_update, revise_preliminary, current_month_daily]


def _requests(
    context: dg.ScheduleEvaluationContext,
    era5: Era5Resource,
    due: Callable[[Settings, Sequence[LedgerEntry], datetime], tuple[Update, ...]],
    nothing: str,
) -> dg.SkipReason | list[dg.RunRequest]:
    """Runs of the months that are due and not on their way already.

    Raises:
        Era5Error: if the table cannot be asked: the tick has failed then, and the next one tries again.
    """
    try:
        settings = era5.settings()
        require_updatable_source(settings)
    except UsageError as error:
        return dg.SkipReason(str(error))
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        entries = read_ledger(connection)
    updates = due(settings, entries, context.scheduled_execution_time)
    if not updates:
        return dg.SkipReason(nothing)
    filters = dg.RunsFilter(job_name=load_month.name, statuses=_UNFINISHED)
    under_way = {run.tags.get(_PARTITION) for run in context.instance.get_runs(filters)}
    requests = [
        dg.RunRequest(
            partition_key=update.month.key,
            run_key=f"{context.scheduled_execution_time:%Y-%m-%d} {update.month}",
            run_config={"resources": {"era5": {"config": dict(update.overrides)}}},
            tags={_REASON: update.reason},
        )
        for update in updates
        if update.month.key not in under_way
    ]
    if not requests:
        return dg.SkipReason(f"on their way already: {', '.join(str(update.month) for update in updates)}")
    return requests
