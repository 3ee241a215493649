"""Schedules: load the newest complete month, replace preliminary months by final data, load the current month daily.

Defines when they run, and their run requests, for each data set; which months are due is decided in `planning.updates`.
All are off until they are switched on in the UI under Automation, because each sends requests to a service in the
user's name; so is the lake's upkeep, which removes files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import dagster as dg

from era5_pipeline.defs.assets import LOAD_MONTH
from era5_pipeline.defs.failures import as_failures
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.run_tags import PARTITION, dataset_of_run, job_name
from era5_pipeline.lake.open_lake import KEEP_DAYS, ORPHAN_HOURS, open_lake
from era5_pipeline.model.dataset import DATASETS, Dataset
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.updates import Update, current_month, newest_months, require_updatable_source, revisions
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.ledger_entry import MonthContents

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_REASON = "era5/reason"


@dataclass(frozen=True)
class _Kind:
    """A schedule that each data set has: when it runs, the months that are due then, and what it says if none is."""

    name: str
    cron: str
    description: str
    due: Callable[[Settings, Sequence[MonthContents], datetime], tuple[Update, ...]]
    nothing_due: str


_KINDS = (
    _Kind(
        "monthly_update",
        "0 6 * * *",
        "Every day at 06:00 UTC: loads the newest complete month of {dataset}, once the source has it.",
        newest_months,
        "the newest complete month is already in the table",
    ),
    _Kind(
        "revise_preliminary",
        "0 7 * * 1",
        "On Mondays at 07:00 UTC: fetches months of {dataset} again that hold preliminary (expver 0005) hours and are "
        "old enough to be final, or that an earlier one of several sources has in final form.",
        revisions,
        "no month with preliminary hours is old enough to be final",
    ),
    _Kind(
        "current_month_daily",
        "0 8 * * *",
        "Every day at 08:00 UTC: loads the available part of the current month of {dataset}, which the ledger marks "
        "as incomplete.",
        current_month,
        "the source has no data of the current month yet",
    ),
)


def _schedule(kind: _Kind, dataset: Dataset) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=job_name(kind.name, dataset),
        job=LOAD_MONTH[dataset.name],
        cron_schedule=kind.cron,
        execution_timezone="UTC",
        description=dataset.sql(kind.description),
    )
    def request_due_months(
        context: dg.ScheduleEvaluationContext, era5: Era5Resource
    ) -> dg.SkipReason | list[dg.RunRequest]:
        """Request the months of the data set that are due, unless they are queued or running."""
        return _requests(context, era5, kind, dataset)

    return request_due_months


@dg.op(description="Expires old snapshots of the lake, and removes files that belong to none.")
def remove_old_files(context: dg.OpExecutionContext, era5: Era5Resource) -> None:
    """Remove from the lake's tables of all data sets what is older than the stated times."""
    keep, orphans_after = timedelta(days=KEEP_DAYS), timedelta(hours=ORPHAN_HOURS)
    for dataset in DATASETS.values():
        with as_failures(context.retry_number):
            settings = era5.settings(dataset)
            lake = open_lake(settings)
            from era5_pipeline.lake.upkeep import clean  # noqa: PLC0415  # pyiceberg, which may be missing

            with (
                open_warehouse(settings) as warehouse,
                warehouse.connect() as connection,
                server_errors("cleaning the lake"),
            ):
                done = clean(connection, lake, keep=keep, orphans_after=orphans_after)
        context.log.info(
            f"{dataset.short_title}: removed {done.snapshots} snapshots and {done.files} files with {done.bytes:,} "
            f"bytes; {done.waiting_files} files belong to no snapshot, but not for long enough"
        )


@dg.job(description="Removes from the lake what is older than the stated times: era5 lake clean.")
def clean_lake() -> None:
    """`era5 lake clean`, as a run."""
    remove_old_files()


@dg.schedule(
    name="lake_upkeep",
    job=clean_lake,
    cron_schedule="0 4 * * 0",
    execution_timezone="UTC",
    description="On Sundays at 04:00 UTC: removes snapshots of the lake that are older than 30 days, and files that "
    "belong to none.",
)
def lake_upkeep(era5: Era5Resource) -> dg.SkipReason | dg.RunRequest:
    """Clean the lake every Sunday, if there is one."""
    return dg.RunRequest() if era5.settings().lake is not None else dg.SkipReason("ERA5_LAKE is not set")


SCHEDULES = [*(_schedule(kind, dataset) for dataset in DATASETS.values() for kind in _KINDS), lake_upkeep]


def _requests(
    context: dg.ScheduleEvaluationContext, era5: Era5Resource, kind: _Kind, dataset: Dataset
) -> dg.SkipReason | list[dg.RunRequest]:
    """Run requests for the months that are due and not queued or running; without the ledger, the tick fails."""
    try:
        settings = era5.settings(dataset)
        require_updatable_source(settings)
    except UsageError as error:
        return dg.SkipReason(str(error))
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        contents = read_ledger(connection)
    updates = kind.due(settings, contents, context.scheduled_execution_time)
    if not updates:
        return dg.SkipReason(kind.nothing_due)
    # Runs of any job: a backfill from the web UI uses an implicit one.
    runs = context.instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED))
    unfinished = {run.tags.get(PARTITION) for run in runs if dataset_of_run(run) == dataset}
    # A month's files share one name: its other parts follow with the next tick.
    first = {update.month: update for update in reversed(updates)}
    requests = [
        dg.RunRequest(
            partition_key=update.month.key,
            run_key=f"{context.scheduled_execution_time:%Y-%m-%d} {update.month}",
            run_config={"resources": {"era5": {"config": dict(update.overrides)}}},
            tags={_REASON: update.reason},
        )
        for update in first.values()
        if update.month.key not in unfinished
    ]
    if not requests:
        return dg.SkipReason(f"already queued or running: {', '.join(str(update.month) for update in updates)}")
    return requests
