"""The assets `era5/raw`, `era5/flat`, `era5/weather`, `era5/lake`: a month's stages, with the checks between them.

Each data set has its own, by the same code.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Self, TypeAlias

import dagster as dg

from era5_pipeline.defs import metadata, resources
from era5_pipeline.defs.failures import as_failures, failure_in_ledger, refusal
from era5_pipeline.defs.resources import Era5Resource, current_results
from era5_pipeline.defs.run_tags import job_name
from era5_pipeline.flat.checks import FLAT_CHECKS, RAW_CHECKS, TABLE_CHECKS, CheckResult
from era5_pipeline.model.dataset import DATASETS, ERA5, Dataset
from era5_pipeline.model.errors import NotYetAvailableError, UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.runtime.progress import ProgressLines, add_listener
from era5_pipeline.stages import run_flat, run_load, run_raw


class AssetKeys(NamedTuple):
    """The keys of a data set's assets: `era5/raw`, or `era5_land/raw`."""

    raw: dg.AssetKey
    flat: dg.AssetKey
    weather: dg.AssetKey
    lake: dg.AssetKey

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The keys of this data set."""
        return cls(*(dg.AssetKey([dataset.schema, name]) for name in ("raw", "flat", "weather", "lake")))


RAW, FLAT, WEATHER, _ = AssetKeys.of(ERA5)
Results: TypeAlias = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]
OWNERS = ["team:era5"]
_log = logging.getLogger(__name__)


def reporter(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> Callable[[str], None]:
    """Return a callback that reports waits and notes in the run's log and on the terminal."""

    def say(text: str) -> None:
        context.log.info(text)
        _log.warning(text)  # for the terminal: `era5 load` silences Dagster's own log

    return say


def _progress_in_log(context: dg.AssetExecutionContext) -> AbstractContextManager[None]:
    """Report the progress of a long stage in the run's log, in addition to a terminal's bars."""
    return add_listener(ProgressLines(context.log.info))


def _materialized_unless_refused(
    asset: dg.AssetKey, outcomes: Sequence[CheckResult], facts: metadata.Metadata
) -> Results:
    """Yield the materialization with its checks; if these refuse the month, yield them alone and raise `Failure`."""
    checks, failure = metadata.check_results(asset, outcomes), refusal(outcomes, facts)
    if failure is None:
        yield dg.MaterializeResult(asset_key=asset, metadata=facts, check_results=checks)
        return
    yield from checks
    raise failure


def months_of(dataset: Dataset) -> dg.MonthlyPartitionsDefinition:
    """From its first month to the current one, which stays incomplete until it ends."""
    return dg.MonthlyPartitionsDefinition(start_date=dataset.first_month.key, end_offset=1)


MONTHS = months_of(ERA5)


def _raw(dataset: Dataset) -> dg.AssetsDefinition:
    key = AssetKeys.of(dataset).raw

    # A multi_asset with one asset, because `can_subset` makes its results optional: a month that the source does not
    # have yet is then skipped, with its downstream assets. An `asset` must return the results of its checks.
    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                key,
                group_name=dataset.schema,
                kinds={"netcdf"},
                owners=OWNERS,
                description=f"The month's netCDF files as received: paths, SHA-256, hours and {dataset.short_title} "
                "versions.",
                skippable=True,
            )
        ],
        can_subset=True,
        partitions_def=months_of(dataset),
        pool=resources.CDS,
        check_specs=metadata.check_specs(key, RAW_CHECKS, blocking=True),
    )
    def raw(context: dg.AssetExecutionContext, era5: Era5Resource) -> Results:
        """Get the month's files from the source, and check that they are complete."""
        with failure_in_ledger(context.partition_key, era5, dataset), as_failures(context.retry_number):
            try:
                with _progress_in_log(context):
                    month, together = Month.parse(context.partition_key), era5.months_together()
                    result = run_raw(era5.settings(dataset), month, reporter(context), together=together)
            except NotYetAvailableError as error:
                context.log.warning(f"skipped: {error}")
                context.log_event(metadata.skipped(key, context.partition_key, error))
                current_results().not_yet_available = error
                return
            for warning in result.raw.warnings:
                context.log.warning(warning)
            facts = metadata.raw_metadata(result)
            current_results().raw = result
            yield from _materialized_unless_refused(key, result.outcomes, facts)

    return raw


def _flat(dataset: Dataset) -> dg.AssetsDefinition:
    keys = AssetKeys.of(dataset)

    @dg.asset(
        key=keys.flat,
        partitions_def=months_of(dataset),
        deps=[keys.raw],
        group_name=dataset.schema,
        kinds={"xarray", "dask", "parquet"},
        owners=OWNERS,
        description="The month as rows in one Parquet or CSV file: location-major, in the units of the table.",
        metadata={"dagster/column_schema": metadata.column_schema(dataset)},
        check_specs=metadata.check_specs(keys.flat, FLAT_CHECKS, blocking=True),
    )
    def flat(context: dg.AssetExecutionContext, era5: Era5Resource) -> Results:
        """Flatten the month's raw files."""
        with failure_in_ledger(context.partition_key, era5, dataset), as_failures(context.retry_number):
            with _progress_in_log(context):
                result = run_flat(era5.settings(dataset), Month.parse(context.partition_key))
            for column in result.flat.columns:
                if column.warning is not None:
                    context.log.warning(column.warning)
            facts = metadata.flat_metadata(result)
            current_results().flat = result
            yield from _materialized_unless_refused(keys.flat, result.outcomes, facts)

    return flat


def _weather(dataset: Dataset) -> dg.AssetsDefinition:
    keys = AssetKeys.of(dataset)

    @dg.asset(
        key=keys.weather,
        partitions_def=months_of(dataset),
        deps=[keys.flat],
        group_name=dataset.schema,
        pool=resources.WAREHOUSE,
        # TimescaleDB is detected only when a month is loaded: `server` in its metadata names it.
        kinds={"postgres"},
        owners=OWNERS,
        description=f"The month in the table {dataset.table}, replaced in one transaction together with its row in the "
        "ledger.",
        metadata={
            "dagster/column_schema": metadata.column_schema(dataset),
            "dagster/table_name": dataset.table,
        },
        check_specs=metadata.check_specs(keys.weather, TABLE_CHECKS, blocking=False),
    )
    def weather(context: dg.AssetExecutionContext, era5: Era5Resource) -> dg.MaterializeResult:  # type: ignore[type-arg]
        """Load the flat month into the table, and compare the two."""
        say = reporter(context)
        with as_failures(context.retry_number):
            settings = era5.settings(dataset)
            with open_warehouse(settings, create=True) as warehouse, _progress_in_log(context):
                result = run_load(settings, warehouse, Month.parse(context.partition_key), say)
            for note in result.loaded.notes:
                say(note)
            materialized: dg.MaterializeResult[None] = dg.MaterializeResult(
                metadata=metadata.weather_metadata(result),
                check_results=metadata.check_results(keys.weather, result.outcomes),
            )
            if result.committed is not None:
                facts = metadata.lake_metadata(result.committed)
                context.log_event(dg.AssetMaterialization(keys.lake, partition=context.partition_key, metadata=facts))
            current_results().load = result
            return materialized

    return weather


def lake_assets() -> tuple[dg.AssetSpec, ...]:
    """The assets `era5/lake` and its like, if ERA5_LAKE is set where the code location is loaded.

    No step of their own makes them: a load replaces the month in the table and in the lake by one transaction.
    """
    try:
        settings = read_settings()
    except UsageError:
        return ()  # whoever uses a setting reports it
    if settings.lake is None:
        return ()
    return tuple(
        dg.AssetSpec(
            AssetKeys.of(dataset).lake,
            deps=[AssetKeys.of(dataset).flat],
            partitions_def=months_of(dataset),
            group_name=dataset.schema,
            kinds={"iceberg"},
            owners=OWNERS,
            description="The month in the Iceberg table of the lake, replaced in the transaction that replaces it in "
            f"the table {dataset.table}.",
        )
        for dataset in DATASETS.values()
    )


# The assets of all data sets, and their jobs by the name of the data set.
ASSETS = tuple(make(dataset) for dataset in DATASETS.values() for make in (_raw, _flat, _weather))
LOAD_MONTH = {
    dataset.name: dg.define_asset_job(
        job_name("load_month", dataset),
        selection=dg.AssetSelection.assets(*AssetKeys.of(dataset)[:3]),
        description=f"Loads one month, from its source into the table {dataset.table}.",
    )
    for dataset in DATASETS.values()
}
load_month = LOAD_MONTH[ERA5.name]
