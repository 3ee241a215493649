"""The sensors: alerts of failed runs to a webhook, and whether the table has the newest month that it should."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from era5_pipeline.defs.assets import WEATHER
from era5_pipeline.defs.resources import Era5Resource  # noqa: TC001  # Dagster reads the annotation
from era5_pipeline.defs.run_tags import SOURCE, WILL_RETRY, is_dropped, month_of, resource_config
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.monitor.metrics import newest_complete_month_of
from era5_pipeline.planning.updates import Freshness, due_month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.http import post_json, require_webhook_url
from era5_pipeline.warehouse.ledger import read_months

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# --- The failure of a run in words: month, source, message and remedy, read from Dagster's event log ---


_KINDS = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
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

    @property
    def text(self) -> str:
        """All of it as text."""
        what = self.month or self.job
        source = f" (source {self.source})" if self.source else ""
        lines = (f"ERA5 {what} failed{source}", self.message, self.remedy, f"run {self.run_id}", self.url)
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
    month = _month_text(run)
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


def _month_text(run: dg.DagsterRun) -> str | None:
    month = month_of(run)
    return None if month is None else str(month)


def _source_of(run: dg.DagsterRun, settings: Settings) -> str:
    return run.tags.get(SOURCE) or resource_config(run).get("source") or settings.source_name


def _reason(instance: dg.DagsterInstance, run: dg.DagsterRun, month: str | None) -> tuple[datetime, str, str]:
    """Time, message and remedy of the failure: of a step if one failed, else of the run."""
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
        return time, f"an unexpected error ({name}) in {event.step_key}", "The run's log has the details."
    return time, message, remedy


def _text(value: dg.MetadataValue[Any]) -> str:
    return value.value if isinstance(value.value, str) else ""


def summary_of(first: FailedRun, runs: Sequence[dg.DagsterRun]) -> dict[str, Any]:
    """The body of one alert for many runs that failed at once, as in a backfill; the reason is that of the first."""
    months = sorted(month for run in runs if (month := _month_text(run)))
    shown = f"{months[0]} to {months[-1]}" if len(months) > 1 else "".join(months)
    return first.to_json() | {
        "text": f"ERA5: {len(runs)} more runs failed ({shown or first.job}). One of them:\n{first.text}",
        "months": months,
        "run_ids": [run.run_id for run in runs],
    }


# --- The sensor that posts failed runs to a webhook, if ERA5_ALERT_URL is set ---
#
# It is not a Dagster `run_failure_sensor`, which moves past a failure even if its alert was not delivered. This one
# keeps undelivered alerts in its cursor, and tries again for some hours.


_SETTING = "ERA5_ALERT_URL"
_INTERVAL_SECONDS = 30
# The age at which events are processed: Dagster's tag that a run will be retried follows the event, and an event of
# another process may become visible after one with a higher number.
_SETTLED_SECONDS = 10.0
# When the sensor is switched on, failures this recent are reported; earlier ones are history.
_HISTORY_SECONDS = 600.0
_EVENTS_AT_ONCE = 200
# The most alerts of a tick that are sent one by one; the rest are combined in one.
_SINGLE_ALERTS = 5
# A tick may take a minute; a single post a quarter of one.
_TICK_SECONDS = 20.0
# Tries before an alert is given up: after 30 s, 1, 2, 4, ... minutes, at most an hour; in all some five hours.
_MOST_TRIES = 12
_MOST_WAIT_SECONDS = 3600.0
# The most run ids in the cursor; if more failures wait, the oldest are given up.
_MOST_PENDING = 2000

_log = logging.getLogger(__name__)


@dataclass
class AlertCursor:
    """The state of the sensor between ticks.

    `after` is the number of the last event seen, `pending` are runs whose alerts have not been delivered; the receiver
    has refused `tries` times in a row, and is tried again at `again_at` (Unix seconds).
    """

    after: int | None = None
    pending: list[str] = field(default_factory=list)
    tries: int = 0
    again_at: float = 0.0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read the cursor; an empty one if it is missing or not ours."""
        try:
            return cls(**json.loads(text or "{}"))
        except (ValueError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def _default_status() -> dg.DefaultSensorStatus:
    try:
        is_set = read_settings().alert_url is not None
    except UsageError:  # reported when the settings are read next
        is_set = False
    return dg.DefaultSensorStatus.RUNNING if is_set else dg.DefaultSensorStatus.STOPPED


@dg.sensor(
    name="alert_on_failure",
    minimum_interval_seconds=_INTERVAL_SECONDS,
    default_status=_default_status(),
    description="Posts failed runs that are not retried to the webhook in ERA5_ALERT_URL: month, message and remedy.",
)
def alert_on_failure(context: dg.SensorEvaluationContext, era5: Era5Resource) -> dg.SensorResult | dg.SkipReason:
    """Collect new failures, then deliver what is pending."""
    settings = era5.settings()
    if settings.alert_url is None:
        return dg.SkipReason(f"{_SETTING} is not set: failures are not reported")
    url = settings.alert_url.get_secret_value()
    require_webhook_url(url, _SETTING)
    cursor, now = AlertCursor.parse(context.cursor), time.time()
    _collect(context.instance, cursor, now)

    def complain(text: str) -> None:
        context.log.error(text)
        _log.error(text)

    if not cursor.pending:
        said = "no new failures"
    elif now < cursor.again_at:
        said = f"{len(cursor.pending)} alerts are waiting: next try in {cursor.again_at - now:.0f} s"
    else:
        said = _deliver(context.instance, settings, url, cursor, complain)
    return dg.SensorResult(skip_reason=said, cursor=str(cursor))


def _collect(instance: dg.DagsterInstance, cursor: AlertCursor, now: float) -> None:
    """Add the runs that failed since the last tick to the pending ones."""
    found = instance.fetch_run_status_changes(
        dg.RunStatusChangeRecordsFilter(
            dg.DagsterEventType.RUN_FAILURE,
            after_storage_id=cursor.after,
            after_timestamp=now - _HISTORY_SECONDS if cursor.after is None else None,
        ),
        limit=_EVENTS_AT_ONCE,
        ascending=True,
    )
    cursor.after = cursor.after or 0
    for record in found.records:
        if record.timestamp > now - _SETTLED_SECONDS:
            break
        cursor.after = record.storage_id
        run = instance.get_run_by_id(record.run_id)
        if run is None or run.tags.get(WILL_RETRY) == "true" or is_dropped(run):
            continue
        if run.run_id not in cursor.pending:
            cursor.pending.append(run.run_id)


def _deliver(
    instance: dg.DagsterInstance,
    settings: Settings,
    url: str,
    cursor: AlertCursor,
    complain: Callable[[str], None],
) -> str:
    """Post alerts of pending runs, the oldest first, until one is refused or time is up; return a summary."""
    until = time.monotonic() + _TICK_SECONDS
    if len(cursor.pending) > _MOST_PENDING:
        _give_up(cursor, len(cursor.pending) - _MOST_PENDING, "too many wait", complain)
    delivered = 0
    for run_ids in _batches(cursor.pending):
        if time.monotonic() > until:
            break
        body = _body(instance, settings, run_ids)
        problem = None if body is None else post_json(url, body)
        if problem is not None:
            return f"{delivered} alerts delivered; {_postpone(cursor, problem, complain)}"
        delivered += len(run_ids)
        cursor.pending = cursor.pending[len(run_ids) :]
        cursor.tries, cursor.again_at = 0, 0.0
    return f"{delivered} alerts delivered, {len(cursor.pending)} wait"


def _batches(pending: Sequence[str]) -> list[Sequence[str]]:
    """The runs of each alert: a few individually, the rest together."""
    single = [pending[i : i + 1] for i in range(min(len(pending), _SINGLE_ALERTS))]
    rest = pending[_SINGLE_ALERTS:]
    return [*single, rest] if rest else single


def _body(instance: dg.DagsterInstance, settings: Settings, run_ids: Sequence[str]) -> Mapping[str, object] | None:
    """The alert for these runs; None if they were deleted."""
    runs = instance.get_runs(dg.RunsFilter(run_ids=list(run_ids)))
    if not runs:
        return None
    first = read_failed_run(instance, runs[0], settings)
    return first.to_json() if len(runs) == 1 else summary_of(first, runs)


def _postpone(cursor: AlertCursor, problem: str, complain: Callable[[str], None]) -> str:
    """Set the time of the next try, or give up after too many."""
    cursor.tries += 1
    if cursor.tries >= _MOST_TRIES:
        return _give_up(cursor, len(cursor.pending), f"the receiver {problem}, {cursor.tries} times", complain)
    wait = min(_MOST_WAIT_SECONDS, _INTERVAL_SECONDS * 2.0 ** (cursor.tries - 1))
    cursor.again_at = time.time() + wait
    said = f"the receiver {problem}: {len(cursor.pending)} alerts wait, next try in {wait:.0f} s"
    complain(f"{_SETTING}: {said}")
    return said


def _give_up(cursor: AlertCursor, count: int, why: str, complain: Callable[[str], None]) -> str:
    """Drop the oldest pending alerts, and name their runs."""
    dropped, cursor.pending = cursor.pending[:count], cursor.pending[count:]
    cursor.tries, cursor.again_at = 0, 0.0
    said = f"{count} alerts were not delivered ({why})"
    complain(f"{_SETTING}: {said}; runs: {', '.join(dropped)}")
    return said


# --- The sensor that observes on `era5/weather` whether the table has the newest month that it should by now ---
#
# It checks the months in the ledger rather than the time of a materialization, which a backfill of 1979 would make look
# fresh. It is not an asset check of `era5/weather`, as Dagster evaluates those with every materialization, a thousand
# times in a backfill. Nor is it a check on a separate asset: a fourth box in the row would make the web UI open the
# graph so small that the boxes show only their names.


_FRESHNESS_SECONDS = 3600


@dg.sensor(
    name="freshness",
    minimum_interval_seconds=_FRESHNESS_SECONDS,
    description="Says every hour whether the newest complete month in the table is the newest that the service has "
    "published, with two days to load it, in an observation of era5/weather.",
)
def freshness(era5: Era5Resource) -> dg.SensorResult:
    """Compare the ledger with the calendar."""
    settings = era5.settings()
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
    observed = dg.AssetObservation(WEATHER, description=str(found), metadata=metadata)
    return dg.SensorResult(asset_events=[observed], skip_reason=str(found))
