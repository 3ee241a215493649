"""Settings as a Dagster resource: the environment's, with what a run's configuration overrides."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.source_kinds import names_of


class Era5Resource(dg.ConfigurableResource):  # type: ignore[type-arg]  # Dagster leaves its type parameter open
    """What a run may set for itself. A field that is not set is taken from ERA5_... in the environment or `.env`.

    Databases are not among them: their URLs may hold a password, and a run's configuration is shown to all.
    """

    source: str | None = Field(default=None, description=names_of())
    files_dir: str | None = Field(default=None, description="Folder of ERA5 files, for the source files")
    variables: str | None = Field(default=None, description="Variables a month must have, with commas")
    area: str | None = Field(default=None, description="NORTH/WEST/SOUTH/EAST in degrees, or global")
    format: str | None = Field(default=None, description="parquet or csv")
    allow_incomplete: bool | None = Field(default=None, description="Load a month that lacks hours")
    force: bool | None = Field(default=None, description="Do the month again even where nothing changed")
    refetch: bool | None = Field(default=None, description="Sources cds, arco: fetch the month anew, though it is here")
    workers: int | None = Field(default=None, description="Connections that share out one month")
    sample_hours: int | None = Field(default=None, description="Source sample: only the first hours of each month")

    def settings(self) -> Settings:
        """The settings of this run, read now.

        Raises:
            UsageError: if one cannot be meant.
        """
        return read_settings(**{name: getattr(self, name) for name in type(self).model_fields})
