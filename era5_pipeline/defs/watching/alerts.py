"""The sensor that posts failed runs to a webhook, if ERA5_ALERT_URL is set.

It is a sensor of its own kind, not Dagster's `run_failure_sensor`: that one moves past a failure whether or not its
alert was delivered. This one keeps what was not delivered in its cursor, and tries again for some hours.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Self

import dagster as dg

from era5_pipeline.defs.resources import Era5Resource  # noqa: TC001  # Dagster reads the annotation
from era5_pipeline.defs.watching.failed_runs import read_failed_run, summary_of
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.runtime.http.webhook import post_json, require_webhook_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SETTING = "ERA5_ALERT_URL"
_WILL_RETRY = "dagster/will_retry"
_INTERVAL_SECONDS = 30
# Events are looked at when they are so old: the tag by which Dagster says that it will retry the run follows the event,
# and an event of another process may become visible after one with a higher number.
_SETTLED_SECONDS = 10.0
# When the sensor is switched on, failures of this time before are reported, earlier ones are history.
_HISTORY_SECONDS = 600.0
_EVENTS_AT_ONCE = 200
# Alerts of a tick that are sent one by one; what goes beyond is one alert.
_SINGLE_ALERTS = 5
# A tick may take a minute; a post may take a quarter of one.
_TICK_SECONDS = 20.0
# Until an alert is given up: after 30 s, 1, 2, 4, ... minutes, at most an hour; in all some five hours.
_MOST_TRIES = 12
_MOST_WAIT_SECONDS = 3600.0
# Run ids in the cursor; of more failures than these that wait, the oldest are given up.
_MOST_PENDING = 2000

_log = logging.getLogger(__name__)


@dataclass
class AlertCursor:
    """What the sensor remembers between ticks.

    `after` is the number of the last event seen, `pending` are runs whose alerts are to be delivered; the receiver has
    refused `tries` times in a row, and is asked again at `again_at` (Unix seconds).
    """

    after: int | None = None
    pending: list[str] = field(default_factory=list)
    tries: int = 0
    again_at: float = 0.0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read the cursor; without one, or from one that is not ours, an empty one."""
        try:
            return cls(**json.loads(text or "{}"))
        except (ValueError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def _default_status() -> dg.DefaultSensorStatus:
    try:
        is_set = read_settings().alert_url is not None
    except UsageError:  # whatever reads the settings next says so
        is_set = False
    return dg.DefaultSensorStatus.RUNNING if is_set else dg.DefaultSensorStatus.STOPPED


@dg.sensor(
    name="alert_on_failure",
    minimum_interval_seconds=_INTERVAL_SECONDS,
    default_status=_default_status(),
    description="Posts failed runs that are not retried to the webhook in ERA5_ALERT_URL: month, message and remedy.",
)
def alert_on_failure(context: dg.SensorEvaluationContext, era5: Era5Resource) -> dg.SensorResult | dg.SkipReason:
    """Collect new failures, then deliver what is pending.

    Raises:
        UsageError: if the URL is invalid; the tick is failed then.
    """
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
        said = f"{len(cursor.pending)} alerts wait: the receiver is asked again in {cursor.again_at - now:.0f} s"
    else:
        said = _deliver(context.instance, settings, url, cursor, complain)
    return dg.SensorResult(skip_reason=said, cursor=str(cursor))


def _collect(instance: dg.DagsterInstance, cursor: AlertCursor, now: float) -> None:
    """Add runs that failed since the last tick to those pending."""
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
        if run is not None and run.tags.get(_WILL_RETRY) != "true" and run.run_id not in cursor.pending:
            cursor.pending.append(run.run_id)


def _deliver(
    instance: dg.DagsterInstance,
    settings: Settings,
    url: str,
    cursor: AlertCursor,
    complain: Callable[[str], None],
) -> str:
    """Post alerts of pending runs, the oldest first, until one is refused or time is up; return what happened."""
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
    """The runs of each alert: a few alone, the others together."""
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
    """Note when to try again, or give up after too many tries."""
    cursor.tries += 1
    if cursor.tries >= _MOST_TRIES:
        return _give_up(cursor, len(cursor.pending), f"the receiver {problem}, {cursor.tries} times", complain)
    wait = min(_MOST_WAIT_SECONDS, _INTERVAL_SECONDS * 2.0 ** (cursor.tries - 1))
    cursor.again_at = time.time() + wait
    said = f"the receiver {problem}: {len(cursor.pending)} alerts wait, next try in {wait:.0f} s"
    complain(f"{_SETTING}: {said}")
    return said


def _give_up(cursor: AlertCursor, count: int, why: str, complain: Callable[[str], None]) -> str:
    """Drop the oldest pending alerts, naming their runs."""
    dropped, cursor.pending = cursor.pending[:count], cursor.pending[count:]
    cursor.tries, cursor.again_at = 0, 0.0
    said = f"{count} alerts were not delivered ({why})"
    complain(f"{_SETTING}: {said}; runs: {', '.join(dropped)}")
    return said
