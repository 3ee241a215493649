"""The assets `era5/raw`, `era5/flat`, `era5/weather`: a month's stages, with the checks that stand between them."""

import logging
from collections.abc import Callable, Iterator

import dagster as dg

from era5_pipeline.defs import metadata, pools
from era5_pipeline.defs.dagster_failures import as_failures
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.flat.checks import FLAT_CHECKS, RAW_CHECKS, TABLE_CHECKS
from era5_pipeline.model.errors import NotYetAvailableError
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.stages import run_flat, run_load, run_raw

RAW = dg.AssetKey(["era5", "raw"])
FLAT = dg.AssetKey(["era5", "flat"])
WEATHER = dg.AssetKey(["era5", "weather"])
_OWNERS = ["team:era5"]
# From the first month of ERA5 to the current one, which a source may hold in part.
MONTHS = dg.MonthlyPartitionsDefinition(start_date=f"{FIRST_YEAR}-01-01", end_offset=1)
_log = logging.getLogger(__name__)


def _saying(context: dg.AssetExecutionContext) -> Callable[[str], None]:
    """What tells of waits and the like, in the run's log and on the terminal."""

    def say(text: str) -> None:
        context.log.info(text)
        _log.warning(text)  # to the terminal, where Dagster's own log is silenced

    return say


# A multi_asset with `can_subset`, though it is one: of its results none is required then, so that a month which the
# source does not have yet ends as skipped, with what follows from it. An `asset` must give its checks' results.
@dg.multi_asset(
    name="era5__raw",
    specs=[
        dg.AssetSpec(
            RAW,
            group_name="acquire",
            kinds={"netcdf"},
            owners=_OWNERS,
            description="The month's files as they came: where they lie, their digests, their hours and versions.",
            skippable=True,
        )
    ],
    can_subset=True,
    partitions_def=MONTHS,
    pool=pools.CDS,
    check_specs=metadata.check_specs(RAW, RAW_CHECKS, blocking=True),
)
def raw(context: dg.AssetExecutionContext, era5: Era5Resource) -> Iterator[dg.MaterializeResult]:  # type: ignore[type-arg]
    """Get the month's files from the source, and see that they are whole."""
    with as_failures(context.retry_number):
        try:
            result = run_raw(era5.settings(), Month.parse(context.partition_key), _saying(context))
        except NotYetAvailableError as error:
            context.log.warning(f"skipped: {error}")
            context.log_event(metadata.skipped(RAW, context.partition_key, error))
            return
        for warning in result.raw.warnings:
            context.log.warning(warning)
        yield dg.MaterializeResult(
            asset_key=RAW,
            metadata=metadata.raw_metadata(result),
            check_results=metadata.check_results(RAW, result.outcomes),
        )


@dg.asset(
    key=FLAT,
    partitions_def=MONTHS,
    deps=[RAW],
    group_name="transform",
    kinds={"xarray", "dask", "parquet"},
    owners=_OWNERS,
    description="The month as rows in one file: location-major, in the units of the table, Parquet or CSV.",
    metadata={"dagster/column_schema": metadata.COLUMN_SCHEMA},
    check_specs=metadata.check_specs(FLAT, FLAT_CHECKS, blocking=True),
)
def flat(context: dg.AssetExecutionContext, era5: Era5Resource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Flatten the month's raw files."""
    with as_failures(context.retry_number):
        result = run_flat(era5.settings(), Month.parse(context.partition_key))
        return dg.MaterializeResult(
            metadata=metadata.flat_metadata(result), check_results=metadata.check_results(FLAT, result.outcomes)
        )


@dg.asset(
    key=WEATHER,
    partitions_def=MONTHS,
    deps=[FLAT],
    group_name="warehouse",
    pool=pools.WAREHOUSE,
    kinds={"postgres", "timescaledb"},
    owners=_OWNERS,
    description="The month in the table weather: replaced in one transaction, together with its row in the ledger.",
    metadata={"dagster/column_schema": metadata.COLUMN_SCHEMA, "dagster/table_name": "weather"},
    check_specs=metadata.check_specs(WEATHER, TABLE_CHECKS, blocking=False),
)
def weather(context: dg.AssetExecutionContext, era5: Era5Resource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Load the flat month, and compare the table with it."""
    say = _saying(context)
    with as_failures(context.retry_number):
        settings = era5.settings()
        with open_warehouse(settings, create=True) as warehouse:
            result = run_load(settings, warehouse, Month.parse(context.partition_key), say)
        for note in result.loaded.notes:
            say(note)
        return dg.MaterializeResult(
            metadata=metadata.weather_metadata(result), check_results=metadata.check_results(WEATHER, result.outcomes)
        )
