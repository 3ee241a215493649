"""Run months through the assets in this process, recorded by Dagster like any other run: one, or many in turn."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from bisect import bisect_left
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.assets import LOAD_MONTH, load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.failures import record_failed_month
from era5_pipeline.defs.instance.dagster_internals import execute_here, job_origin_at
from era5_pipeline.defs.instance.lost_runs import has_lost_connection, is_lost_connection
from era5_pipeline.defs.instance.services import LOCATION, socket_path
from era5_pipeline.defs.month_range import LOAD_MONTHS, RangeCaller, called_by, load_in_turn_name
from era5_pipeline.defs.resources import TOGETHER, StageResults, collected_results
from era5_pipeline.defs.run_tags import (
    DROPPED,
    MONTH,
    MONTHS,
    OWN_PROCESS,
    PARTITION,
    missing_tags,
)
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import (
    Era5Error,
    MonthFailedError,
    RefusedError,
    ReplacedError,
    SourceError,
    StoreError,
    StoreUnreachableError,
    TransientError,
)
from era5_pipeline.model.months import calendar_months_of, spans
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.source import locked_month

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dagster_shared.error import SerializableErrorInfo

    from era5_pipeline.defs.instance.dagster_internals import RemoteJobOrigin
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month


# How long a month waits for Dagster's database, and how often it is tried: enough for a server that recovers.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 180.0, 1.0
_DATASET = "dataset"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ErrorReport:
    """Why a month was not loaded: message, remedy and exit code, as in `Era5Error`."""

    message: str
    remedy: str
    exit_code: int


@dataclass(frozen=True)
class MonthRun:
    """The outcome of a month's run; `errors` is empty on success, and for a month that was skipped."""

    month: Month
    run_id: str
    results: StageResults
    errors: tuple[ErrorReport, ...] = ()

    @property
    def skipped(self) -> str | None:
        """Why the month was skipped; None if it was not."""
        error = self.results.not_yet_available
        return None if error is None else error.message


def run_month(
    instance: dg.DagsterInstance,
    month: Month,
    *,
    overrides: Mapping[str, object],
) -> MonthRun:
    """Materialize raw, flat and weather of the month; `overrides` are fields of `Era5Resource`.

    Errors of the month are returned in `errors` instead of being raised. A run that is lost with the connection to
    Dagster's database is followed by another, once that answers.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            run = _run_once(instance, month, overrides)
            if not run.errors or not has_lost_connection(instance, run.run_id):
                return run
        except Exception as error:
            if not is_lost_connection(error) or time.monotonic() > until:
                raise
        _wait_for_database(instance, month, until)


def _wait_for_database(instance: dg.DagsterInstance, month: Month, until: float) -> None:
    """Return once Dagster's database answers; raise its error if it does not by then (monotonic seconds)."""
    seconds = max(0.0, until - time.monotonic())
    _log.warning("%s: Dagster's database does not answer: waiting for it, up to %.0f s", month, seconds)
    while True:
        time.sleep(_PAUSE_SECONDS)
        try:
            instance.get_runs_count()
        except Exception as error:
            if not is_lost_connection(error) or time.monotonic() > until:
                raise
        else:
            return


def _run_once(instance: dg.DagsterInstance, month: Month, overrides: Mapping[str, object]) -> MonthRun:
    with _interrupts_raised(), collected_results() as results:
        job = LOAD_MONTH[_dataset(overrides).name]
        result = _execute(instance, job.name, _run_config(overrides), {PARTITION: month.key})
    errors = [ErrorReport(check.description, check.remedy, RefusedError.exit_code) for check in results.failed_checks]
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            errors += _step_errors(event, month, result.run_id, results)
        elif event.event_type is dg.DagsterEventType.RUN_FAILURE and not errors:
            errors.append(_defect(month, result.run_id, event.job_failure_data.error))
    return MonthRun(month, result.run_id, results, tuple(errors))


def record_refused(
    instance: dg.DagsterInstance, month: Month, overrides: Mapping[str, object], error: Era5Error
) -> MonthRun:
    """Record a month that is refused before it is run as a failed run without steps, for the UI and `failed_months`.

    `overrides` are the fields of `Era5Resource` that its run would have had.
    """
    job = LOAD_MONTH[_dataset(overrides).name]
    run = _create_run(instance, job.name, _run_config(overrides), {PARTITION: month.key})
    instance.add_run_tags(run.run_id, missing_tags(run))
    instance.report_run_failed(run, f"{error.message}\n{error.remedy}")
    return MonthRun(month, run.run_id, StageResults(error=error), (_reported(error),))


def _reported(error: Era5Error) -> ErrorReport:
    return ErrorReport(error.message, error.remedy, error.exit_code)


def record_dropped(instance: dg.DagsterInstance, months: Iterable[Month], dataset: Dataset = ERA5) -> None:
    """Record that `era5 drop` removed these months, as failed runs without steps: Dagster cannot unmark a partition.

    In the web UI the months are "Failed", and not loaded any more; alerts and `failed_months` leave these runs alone.
    """
    for month in months:
        tags = {PARTITION: month.key, MONTH: str(month), DROPPED: "true"}
        run = _create_run(instance, LOAD_MONTH[dataset.name].name, _run_config({}), tags)
        instance.report_run_failed(run, "dropped by era5 drop")


def _create_run(
    instance: dg.DagsterInstance, job: str, config: Mapping[str, Any], tags: Mapping[str, str]
) -> dg.DagsterRun:
    """Store a run of this process, which the web UI can execute again; the resource adds month and source."""
    return instance.create_run_for_job(
        job_def=defs.resolve_job_def(job),
        run_config=config,
        tags={**OWN_PROCESS, **tags},
        remote_job_origin=job_origin(instance, job),
    )


def _execute(
    instance: dg.DagsterInstance, job: str, config: Mapping[str, Any], tags: Mapping[str, str]
) -> dg.JobExecutionResult:
    return execute_here(instance, defs.resolve_job_def(job), _create_run(instance, job, config, tags))


def run_months_together(
    instance: dg.DagsterInstance,
    months: Sequence[Month],
    *,
    overrides: Mapping[str, object],
    around: Callable[[Month], AbstractContextManager[None]],
    on_run: Callable[[MonthRun], None],
) -> Era5Error | None:
    """Load months of a range in one Dagster run, until one cannot be loaded; call `on_run` for each that is.

    They are all months of the range, or all of certain calendar months (`calendar_months_of`).

    It ends before the first month that cannot be loaded, and returns its error, of which it records nothing.
    """
    errors: list[Era5Error] = []
    caller = RangeCaller(around, lambda month, run_id, results: on_run(MonthRun(month, run_id, results)), errors.append)
    config = {
        "first": str(months[0]),
        "last": str(months[-1]),
        "calendar_months": list(calendar_months_of(months) or ()),
    }
    dataset = _dataset(overrides)
    with _interrupts_raised(), called_by(caller), _left_if_lost():
        _execute(
            instance,
            LOAD_MONTHS[dataset.name].name,
            {"ops": {load_in_turn_name(dataset): {"config": config}}, **_run_config(overrides)},
            {MONTHS: spans(months)},
        )
    return errors[0] if errors else None


@contextmanager
def _left_if_lost() -> Iterator[None]:
    """Let months be left to `run_month` if the connection to Dagster's database is lost in this context."""
    try:
        yield
    except Exception as error:
        if not is_lost_connection(error):
            raise


def _dataset(overrides: Mapping[str, object]) -> Dataset:
    """The data set of these overrides of the settings; in Dagster, that of the job."""
    return read_settings(dataset=overrides.get(_DATASET)).wanted_dataset


def _run_config(overrides: Mapping[str, object]) -> dict[str, Any]:
    return {
        "resources": {"era5": {"config": {name: of for name, of in overrides.items() if name != _DATASET}}},
        # The command line reports the run itself, which Dagster's console log would bury.
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }


def job_origin(instance: dg.DagsterInstance, job: str = load_month.name) -> RemoteJobOrigin:
    """The origin of the job as served by `era5 up`; by default that of a month.

    Without it, "Re-execute" in the web UI fails for a run of this process, with HTTP 500.
    """
    socket = str(socket_path(Path(instance.root_directory)))
    return job_origin_at(socket, LOCATION, defs.get_repository_def().name, job)


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if a signal asked to stop: Dagster ends the run, but does not raise.

    Dagster replaces our signal handlers. Python also writes the number of each signal to this pipe, whatever the
    handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    received: set[int] = set()

    def is_stopped() -> bool:
        with suppress(BlockingIOError):  # no more signals
            received.update(os.read(reader, 4096))
        return not received.isdisjoint((signal.SIGINT, signal.SIGTERM))

    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    except Exception as error:
        if is_stopped():  # the interrupted run could not be recorded
            raise KeyboardInterrupt from error
        raise
    else:
        if is_stopped():
            raise KeyboardInterrupt
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writer)
        os.close(reader)


def _step_errors(event: dg.DagsterEvent, month: Month, run_id: str, results: StageResults) -> list[ErrorReport]:
    failure = event.step_failure_data
    # `as_failures` raises a `dg.Failure` either for the error just recorded in the results, or for failed checks, which
    # are reported separately.
    if failure.user_failure_data is not None and results.error is not None:
        return [_reported(results.error)]
    if failure.user_failure_data is not None and results.failed_checks:
        return []
    return [_defect(month, run_id, failure.error)]


def _defect(month: Month, run_id: str, error: SerializableErrorInfo | None) -> ErrorReport:
    # Dagster's message is about the step; its cause is the exception raised there.
    message = "" if error is None else (error.cause or error).message
    return ErrorReport(
        f"{month}: {' '.join(message.split()) or 'an unexpected error'}",
        f"This is a defect of the pipeline: please report it, with the log of Dagster's run {run_id}.",
        Era5Error.exit_code,
    )


# --- Run months one after another in this process: in one run, unless they arrive one by one ---


# Exit codes of a service or a store of files that would refuse the other months too.
_REFUSED_CODES = {SourceError.exit_code, StoreError.exit_code}
_SERVICE_CODES = {MonthFailedError.exit_code, TransientError.exit_code}
# After this many failures of the service in a row, the other months are not tried.
_FAILED_IN_A_ROW = 3
# Each other command may begin a month once while this one tries it again.
_REPLACED_TRIES = 5


@dataclass
class _Wish:
    """Months that are due with the same settings, each with its position among those that are wanted."""

    overrides: Mapping[str, Any]
    settings: Settings
    positions: dict[Month, int] = field(default_factory=dict)

    @property
    def months(self) -> list[Month]:
        """The months, ascending."""
        return sorted(self.positions)

    def request_groups(self) -> Iterator[tuple[Month, ...]]:
        """Yield the months in groups that one request covers; each alone if the store of files does not answer."""
        left = self.months
        with suppress(Era5Error):  # the month's run reports it
            for group in source_of(self.settings).request_groups(self.months):
                left = left[len(group) :]
                yield group
        yield from ((month,) for month in left)

    def is_known(self, month: Month) -> bool:
        """Return True if the source has the month's files."""
        with suppress(Era5Error):
            return source_of(self.settings).known(month) is not None
        return False


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
    _told: int = 0

    def run(self) -> None:
        """Run the months, until the service would refuse the others too.

        Raises:
            KeyboardInterrupt: if interrupted.
        """
        for wish in self._wishes:
            kind = source_kind(wish.settings.source_name)
            if kind.is_requested_by_month:
                self._run_by_request(wish)
            else:
                self._run_in_ranges(wish, is_chunked=kind.is_chunked)
        if not self._is_service_down():
            self._tell_unchanged(len(self.wanted))

    @cached_property
    def _wishes(self) -> list[_Wish]:
        """The months that are due, by what is wanted of them."""
        wishes: list[_Wish] = []
        for position, (month, overrides) in enumerate(self.wanted):
            if self._is_due(month, overrides):
                alike = (wish for wish in wishes if wish.overrides == overrides and month not in wish.positions)
                if (wish := next(alike, None)) is None:
                    wishes.append(wish := _Wish(overrides, read_settings(**overrides)))
                wish.positions[month] = position
        return wishes

    def _is_due(self, month: Month, overrides: Mapping[str, Any]) -> bool:
        return month not in self.unchanged or bool(overrides.get("refetch"))

    def _run_by_request(self, wish: _Wish) -> None:
        """Run each month, while the request of the next group waits in the service's queue."""
        groups = wish.request_groups()
        group, following = next(groups, ()), next(groups, ())
        while group:
            for month in group:
                if self._is_service_down():
                    return
                # Two requests in the queue, as in a backfill, once the service has delivered a first month.
                if following and self._last is not None and self._last.results.raw is not None:
                    source_of(wish.settings).request_ahead(following)
                self._run_alone(wish, month, group if len(group) > 1 else ())
                if month != group[-1] and month == group[0] and not wish.is_known(group[-1]):
                    # The request for several months failed, and the source has reported why.
                    groups = ((later,) for later in wish.months if later > month)
                    following = next(groups)
                    break
            group, following = following, next(groups, ())

    def _run_in_ranges(self, wish: _Wish, *, is_chunked: bool) -> None:
        """Run the months in as few runs as ranges, or calendar months of one, describe them.

        A run ends before a month that cannot be loaded, which is run alone; so is the one after it, as it may fail too.
        A store that did not answer is not asked again.
        """
        left, error = wish.months, None
        while left and not self._is_service_down():
            # If this many are picked by calendar months, fewer are too.
            most = bisect_left(range(1, len(left) + 1), 1, key=lambda n: calendar_months_of(left[:n]) is None)
            months = left[:1] if self._last is not None and self._last.errors else left[:most]
            if len(months) > 1:
                error = run_months_together(
                    self.instance,
                    months,
                    overrides=wish.overrides,
                    around=self.around,
                    on_run=lambda run: self._record(wish, run),
                )
                left = [month for month in left if wish.positions[month] not in self.done]
            if isinstance(error, StoreUnreachableError):
                record_failed_month(wish.settings, left[0], error.message)
                self._record(wish, record_refused(self.instance, left[0], wish.overrides, error))
            elif left and left[0] in months:
                self._run_alone(wish, left[0], left if is_chunked else ())
                left = left[1:]

    def _run_alone(self, wish: _Wish, month: Month, together: Sequence[Month]) -> None:
        """Run a month whose files may be fetched with those of the months `together`."""
        overrides = {**wish.overrides, TOGETHER: list(map(str, together))} if together else wish.overrides
        with self.around(month):
            run = run_month(self.instance, month, overrides=overrides)
            if isinstance(run.results.error, ReplacedError):
                # Of commands that load other places of the month from the same home, these go on one after the other.
                lock = wish.settings.files_home / "raw" / f"{month}.lock"
                with locked_month(month, lock, _log.warning, "it is loaded again then"):
                    for _ in range(_REPLACED_TRIES):
                        run = run_month(self.instance, month, overrides=overrides)
                        if not isinstance(run.results.error, ReplacedError):
                            break
        self._record(wish, run)

    @property
    def _last(self) -> MonthRun | None:
        return next(reversed(self.done.values()), None)

    def _record(self, wish: _Wish, run: MonthRun) -> None:
        position = wish.positions[run.month]
        self._tell_unchanged(position)
        self.done[position] = run
        self.on_run(run)

    def _tell_unchanged(self, end: int) -> None:
        """Call `on_unchanged` for the months that are not run, up to this position."""
        for month, overrides in self.wanted[self._told : end]:
            if not self._is_due(month, overrides):
                self.on_unchanged(month)
        self._told = max(self._told, end)

    def _is_service_down(self) -> bool:
        """Return True if other months would fail too: the service refused one, or failed for several in a row."""
        runs = list(self.done.values())[-_FAILED_IN_A_ROW:]
        last = [{error.exit_code for error in run.errors} for run in runs]
        is_refused = bool(last) and not last[-1].isdisjoint(_REFUSED_CODES)
        if runs and isinstance(runs[-1].results.error, StoreUnreachableError):
            return True
        return is_refused or (len(last) == _FAILED_IN_A_ROW and all(codes & _SERVICE_CODES for codes in last))
