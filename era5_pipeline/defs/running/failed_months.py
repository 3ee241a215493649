"""Months whose latest attempt failed, in any process, with the settings of that attempt: for `era5 load --failed`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.run_tags import SETTINGS, month_of
from era5_pipeline.model.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.model.months import Month

_PARTITION = "dagster/partition"
_PAGE = 500


@dataclass(frozen=True)
class FailedMonth:
    """A month, why it failed, and the settings of the failed run that the present environment does not set itself."""

    month: Month
    reason: str
    overrides: Mapping[str, Any]


def failed_months(instance: dg.DagsterInstance) -> list[FailedMonth]:
    """The months whose latest run failed, oldest first.

    A cancelled run is no attempt; a month that is queued or running is not failed.
    """
    latest: dict[Month, dg.DagsterRun] = {}
    cursor = None
    failures = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    while page := instance.get_runs(failures, cursor=cursor, limit=_PAGE):
        for run in page:  # the newest first
            month = month_of(run)
            if month is not None:
                latest.setdefault(month, run)
        cursor = page[-1].run_id
    return [
        FailedMonth(month, _reason(instance, run), _overrides(run))
        for month, run in sorted(latest.items())
        if _is_latest(instance, run)
    ]


def _is_latest(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether no later run of the month did anything but be cancelled."""
    tags = {_PARTITION: run.tags[_PARTITION]}
    for other in instance.get_runs(dg.RunsFilter(tags=tags)):  # the newest first
        if other.run_id == run.run_id:
            return True
        if other.status not in (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.CANCELING):
            return False
    return True


def _reason(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The first line of what the run said of its failure."""
    for kind in (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE):
        for entry in instance.all_logs(run.run_id, of_type=kind):
            event = entry.dagster_event
            if event is None:
                continue
            if kind is dg.DagsterEventType.STEP_FAILURE:
                failure = event.step_failure_data
                said = failure.user_failure_data.description if failure.user_failure_data is not None else None
                said = said or (None if failure.error is None else (failure.error.cause or failure.error).message)
            else:
                said = event.message
            if said and said.strip():
                return str(said).strip().splitlines()[0]
    return "the run failed without a message"


def _overrides(run: dg.DagsterRun) -> dict[str, Any]:
    """The run's own configuration; and of the environment that it ran in, what the present one leaves open.

    Raises:
        UsageError: if the present settings are invalid.
    """
    environment = json.loads(run.tags.get(SETTINGS, "{}"))
    present = read_settings().model_fields_set
    run_config: Mapping[str, Any] = run.run_config
    config = run_config.get("resources", {}).get("era5", {}).get("config") or {}
    return {
        **{name: value for name, value in environment.items() if name in Settings.model_fields and name not in present},
        **{name: value for name, value in config.items() if not isinstance(value, dict)},
    }
