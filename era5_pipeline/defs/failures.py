"""Errors as Dagster failures: transient ones are retried, permanent ones show their remedy; both go to the ledger.

And the months whose latest run failed, which `era5 load --failed` runs again.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import dagster as dg

from era5_pipeline.defs.resources import TOGETHER, current_results
from era5_pipeline.defs.run_tags import PARTITION, SETTINGS, dataset_of_run, is_dropped, month_of, resource_config
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import (
    Era5Error,
    RefusedError,
    ServerUnreachableError,
    StoreUnreachableError,
    TransientError,
    UsageError,
    is_caused_by,
)
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.attempts import record_failure
from era5_pipeline.warehouse.schema import ensure_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from era5_pipeline.defs.resources import Era5Resource
    from era5_pipeline.flat.checks import CheckResult
    from era5_pipeline.model.dataset import Dataset

# Enough for a server restart, which takes up to a minute; a longer outage is left to the next run. It is not set as
# `retry_policy` of the assets, because Dagster would then also retry defects and interrupted steps.
RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)

_log = logging.getLogger(__name__)


@contextmanager
def as_failures(attempt: int) -> Iterator[None]:
    """Turn an `Era5Error` into a `Failure`, which the UI shows as its message and remedy instead of a traceback.

    A transient error requests a retry according to `RETRIES`, unless it has been waited for; `attempt` counts from 0.
    """
    try:
        yield
    except Exception as error:
        if was_interrupted(error):
            raise dg.DagsterExecutionInterruptedError from error
        if isinstance(error, Era5Error):
            current_results().error = error
            _fail(error, attempt)
        raise


def _fail(error: Era5Error, attempt: int) -> NoReturn:
    failure = dg.Failure(
        description=str(error),
        metadata={
            "message": error.message,
            "remedy": error.remedy,
            "exit_code": error.exit_code,
        },
        allow_retries=_may_pass(error),
    )
    # Of a request too many, Dagster would show "Exceeded max_retries" in place of the message.
    if not failure.allow_retries or attempt >= RETRIES.max_retries:
        raise failure from error
    failure.__cause__ = error
    delay = RETRIES.calculate_delay(attempt + 1)
    _log.warning("%s: trying again in %.0f s", error.message, delay)
    raise dg.RetryRequested(RETRIES.max_retries, delay) from failure


def _may_pass(error: Era5Error) -> bool:
    """Return whether a retry may succeed soon. Waiting for a file store is over before its error is raised."""
    if isinstance(error, StoreUnreachableError):
        return False
    # A restarting server refuses connections for a moment; without any server, no run gets this far.
    return isinstance(error, TransientError) or type(error) is ServerUnreachableError


def refusal(outcomes: Iterable[CheckResult], facts: Mapping[str, dg.MetadataValue]) -> dg.Failure | None:
    """The failure of a stage whose checks refused the month, with their sentences, their remedies and the facts.

    None if all passed.
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if not failed:
        return None
    sentences = "\n".join(outcome.description for outcome in failed)
    remedies = "\n".join(dict.fromkeys(outcome.remedy for outcome in failed))
    return dg.Failure(
        description=f"{sentences}\n{remedies}",
        metadata={"message": sentences, "remedy": remedies, "exit_code": RefusedError.exit_code, **facts},
        allow_retries=False,
    )


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an interrupt, of Python or Dagster, led to this error."""
    return is_caused_by(error, KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


# --- Failures of a month's first stages, recorded in the warehouse, so that `era5 status` shows them ---


@contextmanager
def failure_in_ledger(month: str, era5: Era5Resource, dataset: Dataset) -> Iterator[None]:
    """Record a failure of this stage of the month; no retry follows a `Failure`, which is raised in any case."""
    try:
        yield
    except dg.Failure as failure:
        with suppress(UsageError):  # of settings that cannot be read, which is why the stage failed
            record_failed_month(era5.settings(dataset), Month.parse(month), str(failure.metadata["message"].value))
        raise


def record_failed_month(settings: Settings, month: Month, message: str) -> None:
    """Record that the month failed; without a writable database, only log it."""
    try:
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
            ensure_schema(connection)  # this may be the very first month
            with server_errors("recording a failure"):
                record_failure(connection, month, " ".join(message.split()))
    except Era5Error as error:
        _log.info("%s: its failure could not be recorded: %s", month, error)


# --- For `era5 load --failed`: months whose latest attempt failed, in any process, with its settings ---


_PAGE = 500
FAILURES = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}


@dataclass(frozen=True)
class FailedMonth:
    """A month, why it failed, and the settings of that run that the present environment does not set itself."""

    month: Month
    reason: str
    overrides: Mapping[str, Any]


def failed_months(instance: dg.DagsterInstance, dataset: Dataset = ERA5) -> list[FailedMonth]:
    """The months of the data set whose latest run failed, oldest first.

    Cancelled runs do not count as attempts; a month that is queued or running is not failed, nor one that was dropped.
    """
    latest: dict[Month, dg.DagsterRun] = {}
    cursor = None
    failures = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    while page := instance.get_runs(failures, cursor=cursor, limit=_PAGE):
        for run in page:  # the newest first
            month = month_of(run)
            if month is not None and dataset_of_run(run) == dataset:
                latest.setdefault(month, run)
        cursor = page[-1].run_id
    return [
        FailedMonth(month, failure_of(instance, run).first_line, _overrides(run))
        for month, run in sorted(latest.items())
        if not is_dropped(run) and _is_latest(instance, run)
    ]


def _is_latest(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True if all later runs of the month were cancelled."""
    tags, dataset = {PARTITION: run.tags[PARTITION]}, dataset_of_run(run)
    for other in instance.get_runs(dg.RunsFilter(tags=tags)):  # the newest first
        if other.run_id == run.run_id:
            return True
        was_cancelled = other.status in (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.CANCELING)
        if not was_cancelled and dataset_of_run(other) == dataset:
            return False
    return True


@dataclass(frozen=True)
class RunFailure:
    """Why a run failed, and when; `unexpected` is the type of an error that the pipeline did not report itself."""

    at: datetime
    message: str
    remedy: str = ""
    unexpected: str | None = None

    @property
    def first_line(self) -> str:
        """The first line of the message, if there is one."""
        return next(iter(self.message.strip().splitlines()), "the run failed without a message")


def failure_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> RunFailure:
    """Read why the run failed: from its first failed step, or from the run itself if no step failed."""
    found = RunFailure(datetime.now(tz=UTC), "")
    for entry in instance.all_logs(run.run_id, of_type=FAILURES):
        event, at = entry.dagster_event, datetime.fromtimestamp(entry.timestamp, tz=UTC)
        if event is None:
            continue
        if event.event_type is not dg.DagsterEventType.STEP_FAILURE:
            found = RunFailure(at, event.message or "")
            continue
        failure = event.step_failure_data
        if (said := failure.user_failure_data) is not None:
            texts = {name: value.value for name, value in said.metadata.items() if isinstance(value.value, str)}
            return RunFailure(at, texts.get("message") or said.description or "", texts.get("remedy", ""))
        error = failure.error and (failure.error.cause or failure.error)
        return RunFailure(at, error.message if error else "", unexpected=(error and error.cls_name) or "unknown")
    return found


def _overrides(run: dg.DagsterRun) -> dict[str, Any]:
    """The run's own configuration, and the settings of its environment that are not set in the present one."""
    environment = json.loads(run.tags.get(SETTINGS, "{}"))
    present = read_settings().model_fields_set
    return {
        **{name: value for name, value in environment.items() if name in Settings.model_fields and name not in present},
        **{name: value for name, value in resource_config(run).items() if name != TOGETHER},
    }
