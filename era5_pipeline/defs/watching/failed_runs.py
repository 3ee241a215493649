"""What a failed run failed of, for people: month, source, message and remedy, read from Dagster's event log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.model.settings import Settings

_PARTITION = "dagster/partition"
_SOURCE = "era5/source"
_KINDS = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
# A message of an alert; the run's log has all of it.
_CHARACTERS = 1500


@dataclass(frozen=True)
class FailedRun:
    """A failed run; `month` and `source` are None for a run of something else than a month."""

    run_id: str
    job: str
    month: str | None
    source: str | None
    message: str
    remedy: str
    failed_at: datetime
    url: str | None

    @property
    def text(self) -> str:
        """All of it as lines to read."""
        what = self.month or self.job
        source = f" (source {self.source})" if self.source else ""
        lines = (f"ERA5 {what} failed{source}", self.message, self.remedy, f"run {self.run_id}", self.url)
        return "\n".join(line for line in lines if line)

    def to_json(self) -> dict[str, Any]:
        """The body of an alert: `text` is what chat services show, the rest is for programs."""
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
    """Read why the run failed. Of an unexpected error only its type is reported: its text may contain anything."""
    month = _month_of(run)
    failed_at, message, remedy = _reason(instance, run, month)
    return FailedRun(
        run_id=run.run_id,
        job=run.job_name,
        month=month,
        source=None if month is None else _source_of(run, settings),
        message=message[:_CHARACTERS],
        remedy=remedy[:_CHARACTERS],
        failed_at=failed_at,
        url=None if settings.ui_url is None else f"{settings.ui_url.rstrip('/')}/runs/{run.run_id}",
    )


def _month_of(run: dg.DagsterRun) -> str | None:
    try:
        return str(Month.parse(run.tags.get(_PARTITION, "")))
    except UsageError:
        return None


def _source_of(run: dg.DagsterRun, settings: Settings) -> str:
    configured: Any = run.run_config
    for key in ("resources", "era5", "config", "source"):
        configured = configured.get(key) if isinstance(configured, dict) else None
    return run.tags.get(_SOURCE) or configured or settings.source_name


def _reason(instance: dg.DagsterInstance, run: dg.DagsterRun, month: str | None) -> tuple[datetime, str, str]:
    """Time, message and remedy of the failure: of a step if one failed, else of the run itself."""
    again = "Run it again from the web UI" + (f", or by era5 load --from {month}." if month else ".")
    time, message, remedy = datetime.now(tz=UTC), "the run failed", again
    for entry in instance.all_logs(run.run_id, of_type=_KINDS):
        event = entry.dagster_event
        if event is None:
            continue
        time = datetime.fromtimestamp(entry.timestamp, tz=UTC)
        if event.event_type is not dg.DagsterEventType.STEP_FAILURE:
            message = " ".join((event.message or message).split())
            continue
        failure = event.step_failure_data
        if failure.user_failure_data is not None:
            said = {name: _text(value) for name, value in failure.user_failure_data.metadata.items()}
            return time, said.get("message") or failure.user_failure_data.description or message, said.get("remedy", "")
        error = failure.error.cause or failure.error if failure.error is not None else None
        name = (error.cls_name if error is not None else None) or "an unknown error"
        return time, f"an unexpected error ({name}) in {event.step_key}", "The log of the run has all of it."
    return time, message, remedy


def _text(value: dg.MetadataValue[Any]) -> str:
    return value.value if isinstance(value.value, str) else ""


def summary_of(first: FailedRun, runs: Sequence[dg.DagsterRun]) -> dict[str, Any]:
    """The body of one alert for many runs that failed at once, as of a backfill; the reason is that of the first."""
    months = sorted(month for run in runs if (month := _month_of(run)))
    shown = f"{months[0]} to {months[-1]}" if len(months) > 1 else "".join(months)
    return first.to_json() | {
        "text": f"ERA5: {len(runs)} more runs failed ({shown or first.job}). One of them:\n{first.text}",
        "months": months,
        "run_ids": [run.run_id for run in runs],
    }
