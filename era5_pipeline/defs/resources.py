"""Settings as a Dagster resource, results passed to the caller of a run, and the pools that limit steps."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from era5_pipeline.defs.run_tags import HERE, HOST, missing_tags
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.source_kinds import SOURCE_KINDS, names_of
from era5_pipeline.stages import end_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.flat.checks import CheckResult
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.errors import Era5Error, NotYetAvailableError
    from era5_pipeline.stages import FlatResult, LoadResult, RawResult

# --- Settings as a Dagster resource: from the environment, with overrides from the run's configuration ---


TOGETHER = "together"  # the only field that is no setting


class Era5Resource(dg.ConfigurableResource):  # type: ignore[type-arg]  # Dagster leaves its type parameter open
    """Settings of one run. A field that is not set comes from ERA5_... in the environment or `.env`.

    Database URLs are not fields: they may contain a password, and the UI shows a run's configuration.
    """

    source: str | None = Field(default=None, description=f"Source of the months: {names_of()}")
    files_dir: str | None = Field(default=None, description="Source files: folders or s3://bucket/prefix, with colons")
    zarr_url: str | None = Field(default=None, description="Source zarr: address of the Zarr store, or a preset")
    variables: str | None = Field(default=None, description="Variables to load, separated by commas")
    strict_variables: bool | None = Field(
        default=None, description="Refuse a month that lacks any of the variables, also of default and all"
    )
    area: str | None = Field(default=None, description="Rectangle NORTH/WEST/SOUTH/EAST in degrees, or global")
    point: str | None = Field(default=None, description="Source point: LAT/LON; several separated by blanks")
    format: str | None = Field(default=None, description="Format of flat files: parquet or csv")
    allow_incomplete: bool | None = Field(
        default=None, description="Load a month that lacks hours, variables or values"
    )
    sparse_hours: bool | None = Field(
        default=None, description="Source files: one value a day or a month, always at the same hour, is an hour"
    )
    off_grid: str | None = Field(
        default=None, description="Source files, values between the grid points: refuse, or nearest (to these points)"
    )
    trust_files: bool | None = Field(
        default=None,
        description="Source files: take the user's word that the values are hourly ones of ERA5, not that of the files",
    )
    accumulation: str | None = Field(
        default=None,
        description="Source files, ERA5-Land: amounts are sums since 00 UTC (day) or of hours, where files do not tell",
    )
    force: bool | None = Field(default=None, description="Process the month again even if nothing changed")
    replace: bool | None = Field(
        default=None, description="Let the month replace more hours, more variables, or a better version"
    )
    refetch: bool | None = Field(
        default=None, description="Sources cds, arco, point and zarr: fetch the month again even if its files exist"
    )
    workers: int | None = Field(default=None, description="Connections that load one month in parallel")
    sample_hours: int | None = Field(
        default=None, description="Source sample: number of hours from the start of each month"
    )
    together: list[str] = Field(
        default=[],
        description="Sources cds and zarr: months that are wanted too, this one among them, whose files may be fetched "
        "by one request",
    )

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Tag the run with month, source and machine unless the queue has: `dg launch` bypasses it.

        The machine tells where the process id in the run's log belongs, in case the run's process is looked for later.
        """
        run = context.run
        if run is None or context.instance is None:  # in a schedule
            return
        tags = missing_tags(run) | (HERE if HOST not in run.tags else {})
        if tags:
            context.instance.add_run_tags(run.run_id, tags)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # Dagster's signature
        """Remove what a run leaves that ends between its stages `raw` and `flat`."""
        end_run()

    def settings(self, dataset: Dataset = ERA5) -> Settings:
        """The settings of this run for a data set, read now: that of the assets or the job, not of the environment.

        Raises:
            UsageError: if one of them is invalid.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields if name != TOGETHER}
        return read_settings(**given, dataset=dataset.name)

    def months_together(self) -> tuple[Month, ...]:
        """The months whose files may be fetched with this one's.

        Raises:
            UsageError: if one of them is no month.
        """
        return tuple(map(Month.parse, self.together))


# --- Pools: limits on how many steps of a kind run at once, over all runs ---
#
# They can be changed in the UI.


# Loads: each keeps one core of the server busy.
WAREHOUSE = "warehouse"
# Months being fetched: of one user's requests, the Climate Data Store rejects most beyond a few (successful users keep
# about two). Not limited by the service: `files`, `sample`, `arco`, `zarr`; they share the pool, as the asset is the
# same.
CDS = "cds"
_CDS_AT_ONCE = max(kind.requests_at_once for kind in SOURCE_KINDS.values())


def ensure_pools(instance: dg.DagsterInstance) -> None:
    """Create the pools with their limits before any run: if two runs created the same one, one would fail."""
    storage = instance.event_log_storage
    default = storage.get_pool_config().default_pool_limit
    existing = {pool.name for pool in storage.get_pool_limits()}
    for name, limit in ((WAREHOUSE, default), (CDS, _CDS_AT_ONCE)):
        if limit is not None and name not in existing:
            with suppress(IntegrityError):  # another process has just created it
                storage.set_concurrency_slots(name, limit)


# --- Results of a month's stages, passed to the caller of a run in the same process ---
#
# Dagster records the metadata of a stage, but not its result object. The command line runs months in its own process,
# and so can use the objects. Runs without a collector, such as the daemon's, discard them.


@dataclass
class StageResults:
    """The result of each stage of one month; None if a stage did not finish.

    `not_yet_available` says why the month was skipped, `error` is the error of the last failed attempt of a stage.
    """

    raw: RawResult | None = None
    flat: FlatResult | None = None
    load: LoadResult | None = None
    not_yet_available: NotYetAvailableError | None = None
    error: Era5Error | None = None

    @property
    def failed_checks(self) -> list[CheckResult]:
        """The checks that failed, in the order of the stages."""
        finished = [result for result in (self.raw, self.flat, self.load) if result is not None]
        return [outcome for result in finished for outcome in result.outcomes if not outcome.passed]


_collected: ContextVar[StageResults | None] = ContextVar("era5_stage_results", default=None)


@contextmanager
def collected_results() -> Iterator[StageResults]:
    """Collect the results of the stages that run in this context."""
    results = StageResults()
    token = _collected.set(results)
    try:
        yield results
    finally:
        _collected.reset(token)


def current_results() -> StageResults:
    """The active collection; without one, an object that is discarded."""
    results = _collected.get()
    return StageResults() if results is None else results
