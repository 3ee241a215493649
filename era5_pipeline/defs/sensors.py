"""The sensors: lost runs are repeated, failed ones reported to a webhook; and whether the newest month is there."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from era5_pipeline.defs.assets import LOAD_MONTH, AssetKeys
from era5_pipeline.defs.failures import failure_of
from era5_pipeline.defs.instance.lost_runs import is_repeated, requests_of_lost_runs
from era5_pipeline.defs.month_range import LOAD_MONTHS
from era5_pipeline.defs.resources import Era5Resource  # noqa: TC001  # Dagster reads the annotation
from era5_pipeline.defs.run_tags import SOURCE, dataset_of_run, is_dropped, job_name, month_of, resource_config
from era5_pipeline.model.dataset import DATASETS, ERA5, Dataset, dataset_option
from era5_pipeline.model.errors import TransientError, UsageError
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.monitor.metrics import newest_complete_month_of
from era5_pipeline.planning.updates import Freshness, due_month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.webhook import post_json, require_webhook_url
from era5_pipeline.warehouse.ledger import read_months

# --- The sensor that requests the months of lost runs again ---


def _repeating(name: str, job: str) -> dg.SensorDefinition:
    """The sensor for lost runs of this job; one for several jobs prints a warning that its definition is in beta."""

    @dg.sensor(
        name=name,
        job_name=job,
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests what is left of runs that were lost with their process, their server or the code server.",
    )
    def repeat(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Request each lost run again once; a month that it had loaded is only confirmed."""
        began = time.time()
        since = float(context.cursor) if context.cursor else None
        requests = list(requests_of_lost_runs(context.instance, job, since))
        return dg.SensorResult(requests, cursor=str(began), skip_reason=None if requests else "no run was lost")

    return repeat


REPEATING = [
    _repeating(job_name(name, dataset), jobs[dataset.name].name)
    for dataset in DATASETS.values()
    for name, jobs in (("repeat_lost_runs", LOAD_MONTH), ("repeat_lost_ranges", LOAD_MONTHS))
]


# --- The failure of a run in words: month, source, message and remedy, read from Dagster's event log ---


# The longest message of an alert; the run's log has all of it.
_CHARACTERS = 1500


@dataclass(frozen=True)
class FailedRun:
    """A failed run; `month` and `source` are None for a run that is not for a month."""

    run_id: str
    job: str
    month: str | None
    source: str | None
    message: str
    remedy: str
    failed_at: datetime
    url: str | None
    dataset: Dataset = ERA5

    @property
    def text(self) -> str:
        """All of it as text."""
        what = self.month or self.job
        source = f" (source {self.source})" if self.source else ""
        failed = f"{self.dataset.short_title} {what} failed{source}"
        lines = (failed, self.message, self.remedy, f"run {self.run_id}", self.url)
        return "\n".join(line for line in lines if line)

    def to_json(self) -> dict[str, Any]:
        """The body of an alert: `text` is shown by chat services, the rest is for programs."""
        return {
            "text": self.text,
            "month": self.month,
            "source": self.source,
            "message": self.message,
            "remedy": self.remedy,
            "run_id": self.run_id,
            "url": self.url,
            "job": self.job,
            "failed_at": self.failed_at.isoformat(),
        }


def read_failed_run(instance: dg.DagsterInstance, run: dg.DagsterRun, settings: Settings) -> FailedRun:
    """Read why the run failed. An unexpected error is reported by its type only: its text may contain anything."""
    month, failure = month_of(run), failure_of(instance, run)
    message, remedy = failure.message.strip() or "the run failed", failure.remedy
    if failure.unexpected is not None:
        message, remedy = f"an unexpected error ({failure.unexpected})", "The run's log has the details."
    elif not remedy:
        again = f", or by era5 load --from {month}{dataset_option(dataset_of_run(run))}" if month else ""
        remedy = f"Run it again from the web UI{again}."
    return FailedRun(
        run_id=run.run_id,
        job=run.job_name,
        month=str(month) if month else None,
        source=(run.tags.get(SOURCE) or resource_config(run).get("source") or settings.source_name) if month else None,
        message=message[:_CHARACTERS],
        remedy=remedy[:_CHARACTERS],
        failed_at=failure.at,
        url=None if settings.ui_url is None else f"{settings.ui_url.rstrip('/')}/runs/{run.run_id}",
        dataset=dataset_of_run(run),
    )


# --- The sensor that posts each failed run to a webhook, if ERA5_ALERT_URL is set ---


_SETTING = "ERA5_ALERT_URL"
_INTERVAL_SECONDS = 30

_log = logging.getLogger(__name__)


def _default_status() -> dg.DefaultSensorStatus:
    try:
        is_set = read_settings().alert_url is not None
    except UsageError:  # reported when the settings are read next
        is_set = False
    return dg.DefaultSensorStatus.RUNNING if is_set else dg.DefaultSensorStatus.STOPPED


@dg.run_failure_sensor(
    name="alert_on_failure",
    minimum_interval_seconds=_INTERVAL_SECONDS,
    default_status=_default_status(),
    monitor_all_code_locations=True,
    description="Posts failed runs that are not retried to the webhook in ERA5_ALERT_URL: month, message and remedy.",
)
def alert_on_failure(context: dg.RunFailureSensorContext, era5: Era5Resource) -> None:
    """Post a failed run once; an alert that is not accepted fails the tick, which names the run."""
    settings = era5.settings()
    if settings.alert_url is None:
        return
    url = settings.alert_url.get_secret_value()
    require_webhook_url(url, _SETTING)
    run = context.instance.get_run_by_id(context.dagster_run.run_id)
    if run is None or is_dropped(run) or is_repeated(context.instance, run):
        return
    problem = post_json(url, read_failed_run(context.instance, run, settings).to_json())
    if problem is not None:
        message = f"{_SETTING}: the receiver {problem}: the failure of run {run.run_id} is not reported"
        _log.error(message)
        raise TransientError(message, remedy="See the run in the web UI.")


# --- The sensor that observes on `era5/weather` whether the table has the newest month that it should by now ---
#
# It checks the months in the ledger rather than the time of a materialization, which a backfill of 1979 would make look
# fresh. It is not an asset check of `era5/weather`, as Dagster evaluates those with every materialization, a thousand
# times in a backfill. Nor is it a check on a separate asset: a fourth box in the row would make the web UI open the
# graph so small that the boxes show only their names. Each data set has one, on its own asset.


_FRESHNESS_SECONDS = 3600


def _freshness(dataset: Dataset) -> dg.SensorDefinition:
    key = AssetKeys.of(dataset).weather

    @dg.sensor(
        name=job_name("freshness", dataset),
        minimum_interval_seconds=_FRESHNESS_SECONDS,
        description="Says every hour whether the newest complete month in the table is the newest that the service has "
        f"published, with two days to load it, in an observation of {key.to_user_string()}.",
    )
    def freshness(era5: Era5Resource) -> dg.SensorResult:
        """Compare the ledger with the calendar."""
        settings = era5.settings(dataset)
        with (
            open_warehouse(settings) as warehouse,
            warehouse.connect() as connection,
            server_errors("reading the ledger"),
        ):
            newest = newest_complete_month_of(read_months(connection))
        found = Freshness(newest, due_month(datetime.now(tz=UTC), settings.available_after_days))
        metadata: dict[str, str | int | bool] = {
            "fresh": found.is_fresh,
            "newest complete month": str(newest or "none"),
            "due": str(found.due),
        }
        if found.overdue_months is not None:
            metadata["overdue months"] = found.overdue_months
        observed = dg.AssetObservation(key, description=str(found), metadata=metadata)
        return dg.SensorResult(asset_events=[observed], skip_reason=str(found))

    return freshness


FRESHNESS = {dataset.name: _freshness(dataset) for dataset in DATASETS.values()}
