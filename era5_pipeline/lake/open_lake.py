"""Open the lake that the settings name. Only then is pyiceberg imported, which takes a second and may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.lake.place import lake_errors
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings


def open_lake(settings: Settings) -> Lake:
    """Open the lake that the settings name.

    Raises:
        UsageError: if they name none, or an unusable one, or pyiceberg is not installed.
    """
    try:
        from era5_pipeline.lake.months import Lake  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"a lake (ERA5_LAKE) needs pyiceberg, which is not installed ({error})",
            remedy="Install it: pip install 'era5-pipeline[lake]'.",
        ) from error
    return Lake.of(settings)


def rows_in_lake(settings: Settings, connection: psycopg.Connection[Any]) -> Mapping[Month, int]:
    """The rows of each month in the lake; 0 for all others.

    Raises:
        UsageError: see `open_lake`.
        StoreError, TransientError: if the lake cannot be read.
    """
    lake = open_lake(settings)
    from era5_pipeline.lake.months import rows_by_month  # noqa: PLC0415  # as in `open_lake`

    table = lake.open(connection)
    with lake_errors(lake.place.address):
        return rows_by_month(table)
