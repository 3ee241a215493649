"""Settings as a Dagster resource: from the environment, with overrides from the run's configuration."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from era5_pipeline.defs.run_tags import HERE, HOST, missing_tags
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.source_kinds import names_of


class Era5Resource(dg.ConfigurableResource):  # type: ignore[type-arg]  # Dagster leaves its type parameter open
    """Settings of one run. A field that is not set comes from ERA5_... in the environment or `.env`.

    Database URLs are left out: they may contain a password, and the UI shows a run's configuration.
    """

    source: str | None = Field(default=None, description=f"Source of the months: {names_of()}")
    files_dir: str | None = Field(default=None, description="Source files: folders or s3://bucket/prefix, with colons")
    variables: str | None = Field(default=None, description="Variables to load, separated by commas")
    strict_variables: bool | None = Field(
        default=None, description="Refuse a month that lacks any of the variables, also of default and all"
    )
    area: str | None = Field(default=None, description="Rectangle NORTH/WEST/SOUTH/EAST in degrees, or global")
    point: str | None = Field(default=None, description="Source point: LAT/LON; several with blanks between")
    format: str | None = Field(default=None, description="Format of flat files: parquet or csv")
    allow_incomplete: bool | None = Field(
        default=None, description="Load a month that lacks hours, variables or values"
    )
    sparse_hours: bool | None = Field(
        default=None, description="Source files: one value a day or a month, always at the same hour, is an hour"
    )
    force: bool | None = Field(default=None, description="Process the month again even if nothing changed")
    replace: bool | None = Field(
        default=None, description="Let the month take the place of more hours, more variables, or a better version"
    )
    refetch: bool | None = Field(
        default=None, description="Sources cds, arco and point: fetch the month again although its files exist"
    )
    workers: int | None = Field(default=None, description="Connections that load one month in parallel")
    sample_hours: int | None = Field(
        default=None, description="Source sample: number of hours from the start of each month"
    )

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Tag the run with month, source and machine, where the queue has not: `dg launch` goes past it.

        The machine tells whose process id is in the run's log, once somebody asks whether the run is still alive.
        """
        run = context.run
        if run is None or context.instance is None:  # in a schedule
            return
        tags = missing_tags(run) | (HERE if HOST not in run.tags else {})
        if tags:
            context.instance.add_run_tags(run.run_id, tags)

    def settings(self) -> Settings:
        """The settings of this run, read now.

        Raises:
            UsageError: if one is invalid.
        """
        return read_settings(**{name: getattr(self, name) for name in type(self).model_fields})
