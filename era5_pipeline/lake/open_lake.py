"""Open the lake that the settings name. Only then is pyiceberg imported, which takes a second and may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.words import pip_install

if TYPE_CHECKING:
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.settings import Settings


# By default, snapshots are kept for time travel, and files that belong to none for loads about to commit them.
KEEP_DAYS, ORPHAN_HOURS = 30.0, 24.0


def wants_lake(settings: Settings) -> bool:
    """Return True if the settings name a lake."""
    if settings.lake is not None and settings.format != "parquet":
        raise UsageError("a lake has Parquet files, and ERA5_FORMAT is csv", remedy="Unset ERA5_FORMAT, or ERA5_LAKE.")
    return settings.lake is not None


def open_lake(settings: Settings) -> Lake:
    """Open the lake that the settings name."""
    try:
        from era5_pipeline.lake.months import Lake  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"a lake (ERA5_LAKE) needs pyiceberg, which is not installed ({error})",
            remedy=f"Install it: {pip_install('era5-pipeline[lake]')}",
        ) from error
    wants_lake(settings)
    return Lake.of(settings)
