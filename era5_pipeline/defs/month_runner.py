"""Run months one after another in this process, those of a series in one run; find months whose last run failed."""

from __future__ import annotations

import json
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.run_tags import SETTINGS, month_of
from era5_pipeline.defs.runner import MonthRun, run_month, run_months_together
from era5_pipeline.model.errors import (
    Era5Error,
    MonthFailedError,
    SourceError,
    StoreError,
    StoreUnreachableError,
    TransientError,
)
from era5_pipeline.model.months import calendar_months_of
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.sources.open_source import (
    can_go_together,
    is_known,
    is_of_series,
    months_together,
    request_ahead,
    request_together,
)
from era5_pipeline.sources.source import due_months

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from era5_pipeline.model.months import Month

# --- For `era5 load --failed`: months whose latest attempt failed, in any process, with the settings of that attempt
# ---


_PARTITION = "dagster/partition"
_PAGE = 500


@dataclass(frozen=True)
class FailedMonth:
    """A month, why it failed, and the settings of that run that the present environment does not set itself."""

    month: Month
    reason: str
    overrides: Mapping[str, Any]


def failed_months(instance: dg.DagsterInstance) -> list[FailedMonth]:
    """The months whose latest run failed, oldest first.

    Cancelled runs do not count as attempts; a month that is queued or running is not failed.
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
    """Whether all later runs of the month were cancelled."""
    tags = {_PARTITION: run.tags[_PARTITION]}
    for other in instance.get_runs(dg.RunsFilter(tags=tags)):  # the newest first
        if other.run_id == run.run_id:
            return True
        if other.status not in (dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.CANCELING):
            return False
    return True


def _reason(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The first line of the run's failure message."""
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
    """The run's own configuration, and the settings of its environment that are not set in the present one."""
    environment = json.loads(run.tags.get(SETTINGS, "{}"))
    present = read_settings().model_fields_set
    run_config: Mapping[str, Any] = run.run_config
    config = run_config.get("resources", {}).get("era5", {}).get("config") or {}
    return {
        **{name: value for name, value in environment.items() if name in Settings.model_fields and name not in present},
        **{name: value for name, value in config.items() if not isinstance(value, dict)},
    }


# --- Run months one after another in this process; months of a series in one run, which is much faster ---


# Exit codes of a service or a store of files that would refuse the other months too.
_REFUSED_CODES = {SourceError.exit_code, StoreError.exit_code}
_SERVICE_CODES = {MonthFailedError.exit_code, TransientError.exit_code}
# After this many failures of the service in a row, the other months are not tried.
_FAILED_IN_A_ROW = 3


@dataclass
class MonthRunner:
    """Months to run, each with its overrides of the settings, except the `unchanged` ones.

    `around` is entered for each month, `on_run` called after it, `on_unchanged` for a month that is not run. `done` are
    the runs by position in `wanted`: a month can be wanted twice, with two areas.
    """

    instance: dg.DagsterInstance
    wanted: Sequence[tuple[Month, Mapping[str, Any]]]
    unchanged: Collection[Month]
    around: Callable[[Month], AbstractContextManager[None]]
    on_run: Callable[[MonthRun], None]
    on_unchanged: Callable[[Month], None]
    done: dict[int, MonthRun] = field(default_factory=dict)
    _of_series: dict[frozenset[tuple[str, Any]], bool] = field(default_factory=dict)
    # True until a request for several months has failed; and the position after the months of the newest request.
    _asks_together: bool = True
    _requested_until: int = 0

    def run(self) -> None:
        """Run the months, until the service would refuse the others too.

        Raises:
            KeyboardInterrupt: if interrupted.
        """
        for position, (month, _) in enumerate(self.wanted):
            if self._is_service_down():
                return
            if not self._is_due(position):
                self.on_unchanged(month)
            elif position not in self.done:
                self._run_together(position)
                if position not in self.done:
                    self._run_alone(position)

    def _is_due(self, position: int) -> bool:
        month, overrides = self.wanted[position]
        return month not in self.unchanged or bool(overrides.get("refetch"))

    def _run_alone(self, position: int) -> None:
        month, overrides = self.wanted[position]
        together = self._requested_with(position)
        if together:
            self._requested_until = position + len(together)
        # Two requests in the queue, as in a backfill, once the service has delivered a first month.
        if self._last is not None and self._last.results.raw is not None:
            self._request_following(position)
        with self.around(month), due_months(together):
            run = run_month(self.instance, month, overrides=overrides)
        if together and not self._is_known(together[-1], overrides):
            # The source has reported why.
            self._asks_together, self._requested_until = False, 0
        self._record(position, run)

    def _is_known(self, month: Month, overrides: Mapping[str, Any]) -> bool:
        with suppress(Era5Error):  # an unreachable store is reported by the month's run
            return is_known(read_settings(**overrides), month)
        return False

    def _request_following(self, position: int) -> None:
        """Send the next request: for the first due month that is not covered by the request at this position."""
        first = max(position + 1, self._requested_until)
        following = next((n for n in range(first, len(self.wanted)) if self._is_due(n)), None)
        if following is None:
            return
        month, overrides = self.wanted[following]
        if together := self._requested_with(following):
            request_together(read_settings(**overrides), together)
        else:
            request_ahead(read_settings(**overrides), month)

    def _requested_with(self, position: int) -> tuple[Month, ...]:
        """The months from there on that one request covers, if all of them are due; else empty."""
        month, overrides = self.wanted[position]
        settings = read_settings(**overrides)
        months = months_together(settings, month) if self._asks_together else (month,)
        positions = range(position, position + len(months))
        wanted = [(one, overrides) for one in months]
        if len(months) == 1 or list(self.wanted[position : positions.stop]) != wanted:
            return ()
        if not all(self._is_due(n) and n not in self.done for n in positions):
            return ()
        with suppress(Era5Error):  # an unreachable store is reported by the month's run
            return months if can_go_together(settings, months) else ()
        return ()

    def _run_together(self, position: int) -> None:
        """Run the months from there on in one run, unless the month before failed: these may fail too."""
        months = self._months_together(position)
        if len(months) > 1 and not (self._last is not None and self._last.errors):
            run_months_together(
                self.instance,
                months,
                overrides=self.wanted[position][1],
                around=self.around,
                on_run=lambda run: self._record(position + months.index(run.month), run),
            )

    def _months_together(self, position: int) -> list[Month]:
        """The due months from there on that form a range, or calendar months of one, and are requested alike."""
        first, overrides = self.wanted[position]
        if not self._is_of_series(overrides):
            return [first]
        months = [first]
        for offset, (month, own) in enumerate(self.wanted[position + 1 :], start=1):
            if month <= months[-1] or own != overrides or not self._is_due(position + offset):
                break
            months.append(month)
        # If this many are picked by calendar months, fewer are too.
        together = bisect_left(range(1, len(months) + 1), 1, key=lambda n: calendar_months_of(months[:n]) is None)
        return months[:together]

    def _is_of_series(self, overrides: Mapping[str, Any]) -> bool:
        """Whether months with these overrides are point series; cached, since finding out may list folders."""
        key = frozenset(overrides.items())
        if key not in self._of_series:
            self._of_series[key] = is_of_series(read_settings(**overrides))
        return self._of_series[key]

    @property
    def _last(self) -> MonthRun | None:
        return next(reversed(self.done.values()), None)

    def _record(self, position: int, run: MonthRun) -> None:
        self.done[position] = run
        self.on_run(run)

    def _is_service_down(self) -> bool:
        """Whether other months would fail too: the service refused one, or failed for several in a row."""
        runs = list(self.done.values())[-_FAILED_IN_A_ROW:]
        last = [{error.exit_code for error in run.errors} for run in runs]
        is_refused = bool(last) and not last[-1].isdisjoint(_REFUSED_CODES)
        if runs and isinstance(runs[-1].results.error, StoreUnreachableError):
            return True
        return is_refused or (len(last) == _FAILED_IN_A_ROW and all(codes & _SERVICE_CODES for codes in last))
