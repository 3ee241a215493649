"""The job `load_months`: months of a range in one run, which shares their common work.

The records of a run of Dagster take longer than a small month's work. Those of a range are the same: for every month a
materialization of each asset, and its checks. A run of one month is in `assets`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace

import dagster as dg
from pydantic import Field

from era5_pipeline.defs import metadata
from era5_pipeline.defs.assets import AssetKeys, reporter
from era5_pipeline.defs.failures import as_failures, record_failed_month, was_interrupted
from era5_pipeline.defs.instance.storage import store_together
from era5_pipeline.defs.months_ahead import MonthsAhead, pays_off
from era5_pipeline.defs.resources import Era5Resource, StageResults
from era5_pipeline.defs.run_tags import job_name
from era5_pipeline.flat.checks import FLAT_CHECKS, RAW_CHECKS, CheckResult
from era5_pipeline.model.dataset import DATASETS, Dataset
from era5_pipeline.model.errors import Era5Error, NotYetAvailableError, RefusedError, StoreUnreachableError
from era5_pipeline.model.months import Month, months_between
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.words import counted
from era5_pipeline.planning.current_contents import unchanged_months
from era5_pipeline.postgres.connect import Warehouse, open_warehouse
from era5_pipeline.runtime.progress import ProgressLines, add_listener
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.source import Source
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.load_month import LoadSession, load_session

_SHOWN_FAILURES = 20


@dataclass(frozen=True)
class RangeCaller:
    """Callbacks of a range in this process: `around` each month, `done` with month, run id and results once loaded.

    A month that cannot be loaded ends the run, which records nothing about it: `failed` has the error, and the caller
    starts a separate run for that month, which records the failure, or records it itself.
    """

    around: Callable[[Month], AbstractContextManager[None]]
    done: Callable[[Month, str, StageResults], None]
    failed: Callable[[Era5Error], None]


_caller: ContextVar[RangeCaller | None] = ContextVar("era5_range_caller", default=None)


@contextmanager
def called_by(caller: RangeCaller) -> Iterator[None]:
    """Set the caller of ranges that run in this context."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


class MonthRange(dg.Config):
    """The months from `first` to `last`, YYYY-MM or years; of each year only the `calendar_months`, if any."""

    first: str
    last: str
    calendar_months: list[int] = Field(default=[])


def _load_in_turn(context: dg.OpExecutionContext, config: MonthRange, era5: Era5Resource, dataset: Dataset) -> None:
    """Load the months of the data set, and record each."""
    caller, failures = _caller.get(), dict[Month, Era5Error]()
    with ExitStack() as stack:
        stack.enter_context(add_listener(ProgressLines(context.log.info)))
        with as_failures(context.retry_number):
            months = months_between(config.first, config.last, config.calendar_months)
            settings = era5.settings(dataset)
            if caller:  # which leaves months that the first of several sources lacks to a run of their own
                settings = settings.of_source(settings.source_name)
            loading = stack.enter_context(_loading(settings, reporter(context)))
            left_alone = frozenset() if caller else unchanged_months(loading.settings, loading.warehouse, months)
            months = tuple(month for month in months if month not in left_alone)
        if pays_off(loading.settings, months):
            ahead = stack.enter_context(closing(MonthsAhead(loading.settings, months, loading.say)))
            loading = replace(loading, ahead=ahead)
        for month in months:
            try:
                with caller.around(month) if caller else nullcontext():
                    results = loading.load(month, months)
            except Era5Error as error:
                if was_interrupted(error):
                    raise dg.DagsterExecutionInterruptedError from error
                context.log.warning(f"{month} is not loaded: {error}")
                if caller:
                    caller.failed(error)
                if caller or isinstance(error, NotYetAvailableError):
                    break
                failures[month] = error
                record_failed_month(loading.settings, month, error.message)
                if isinstance(error, StoreUnreachableError):
                    break
                continue
            _record(context, month, results)
            if caller:
                caller.done(month, context.run_id, results)
    if failures:
        raise _failure(failures)


def load_in_turn_name(dataset: Dataset) -> str:
    """The name of the op in the job of a range, by which its configuration is given."""
    return job_name("load_in_turn", dataset)


def _load_months(dataset: Dataset) -> dg.JobDefinition:
    @dg.op(
        name=load_in_turn_name(dataset),
        description="Loads months one after another, each in a transaction of its own.",
        out=dg.Out(dg.Nothing),
    )
    def load_in_turn(context: dg.OpExecutionContext, config: MonthRange, era5: Era5Resource) -> None:
        _load_in_turn(context, config, era5, dataset)

    @dg.job(name=job_name("load_months", dataset), description="Loads months of a range in one run, one after another.")
    def load_months() -> None:
        """Load a range of months."""
        load_in_turn()

    return load_months


# By the name of the data set.
LOAD_MONTHS = {dataset.name: _load_months(dataset) for dataset in DATASETS.values()}


@dataclass(frozen=True)
class _Loading:
    """Settings, source and connection that the months of a range share, and the process that prepares them, if any.

    The source is opened for each month if it is one of several (None).
    """

    settings: Settings
    source: Source | None
    warehouse: Warehouse
    session: LoadSession
    say: Callable[[str], None]
    ahead: MonthsAhead | None = None

    def load(self, month: Month, together: Sequence[Month]) -> StageResults:
        """Run the stages of a month; its files may be fetched with those of the months `together`.

        Raises:
            RefusedError: if a check refused the month.
            Era5Error: as in `stages`.
        """
        results = StageResults()
        prepared = None if self.ahead is None else self.ahead.take(month)
        if prepared is not None:
            results.raw, results.flat = prepared.raw, prepared.flat
            if prepared.error is not None:
                raise prepared.error
        results.raw = results.raw or run_raw(self.settings, month, self.say, source=self.source, together=together)
        _require_passed(results.raw.outcomes)
        results.flat = results.flat or run_flat(self.settings, month, source=self.source)
        _require_passed(results.flat.outcomes)
        results.load = run_load(self.settings, self.warehouse, month, self.say, session=self.session)
        for note in results.load.loaded.notes:
            self.say(note)
        _require_passed(results.load.outcomes)
        return results


@contextmanager
def _loading(settings: Settings, say: Callable[[str], None]) -> Iterator[_Loading]:
    with (
        open_warehouse(settings, create=True) as warehouse,
        load_session(warehouse, settings.lock_timeout_seconds) as session,
    ):
        if len(settings.source_names) > 1:
            yield _Loading(settings, None, warehouse, session, say)
            return
        with source_of(settings, say).in_turn() as source:
            yield _Loading(settings, source, warehouse, session, say)


def _require_passed(outcomes: Iterable[CheckResult]) -> None:
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        raise RefusedError(
            "; ".join(outcome.description for outcome in failed), remedy=" ".join(outcome.remedy for outcome in failed)
        )


def _record(context: dg.OpExecutionContext, month: Month, results: StageResults) -> None:
    """Record a month at once: events yielded by an op are stored one by one, and might be cut off by an interrupt."""

    def log_events() -> None:
        for event in _events(month, results):
            context.log_event(event)  # type: ignore[arg-type]  # its annotation lacks the results of checks

    store_together(context.instance, log_events)


def _events(month: Month, results: StageResults) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Yield the results of a loaded month for Dagster, as in a run of the month."""
    if results.raw is None or results.flat is None or results.load is None:
        return
    keys = AssetKeys.of(results.raw.raw.dataset)
    for asset, facts, outcomes in (
        (keys.raw, metadata.raw_metadata(results.raw), results.raw.outcomes),
        (keys.flat, metadata.flat_metadata(results.flat), results.flat.outcomes),
        (keys.weather, metadata.weather_metadata(results.load), results.load.outcomes),
    ):
        yield dg.AssetMaterialization(asset, partition=month.key, metadata=facts)
        for outcome in outcomes:
            yield dg.AssetCheckEvaluation(
                asset_key=asset,
                check_name=outcome.name,
                passed=outcome.passed,
                description=outcome.description,
                blocking=outcome.name in (*RAW_CHECKS, *FLAT_CHECKS),
                partition=month.key,
            )
    if results.load.committed is not None:
        facts = metadata.lake_metadata(results.load.committed)
        yield dg.AssetMaterialization(keys.lake, partition=month.key, metadata=facts)


def _failure(failures: dict[Month, Era5Error]) -> dg.Failure:
    shown = [error.message for error in failures.values()][:_SHOWN_FAILURES]
    more = len(failures) - len(shown)
    lines = [f"not loaded: {counted(len(failures), 'month')}", *shown, *([f"and {more:,} more"] if more else [])]
    remedies = dict.fromkeys(error.remedy for error in failures.values())
    return dg.Failure(
        description="\n".join(lines),
        metadata={"remedy": "\n".join(remedies), "months": [str(month) for month in failures]},
        allow_retries=False,
    )
