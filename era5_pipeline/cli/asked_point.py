"""The settings that a place makes, in the commands that load or plan: the source of points, and the point."""

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.source_kinds import SOURCE_OF_POINTS, source_kind

if TYPE_CHECKING:
    from era5_pipeline.model.places.place import AskedPlace


def point_overrides(source: str | None, asked: "AskedPlace | None") -> dict[str, str | None]:
    """The settings `source` and `point`: a place selects the source of points, unless another one is named.

    Raises:
        UsageError: if the source that is named is not asked for points.
    """
    if asked is None:
        return {"source": source}
    if source is not None and not source_kind(source).is_series:
        raise UsageError(
            f"the source {source} is not asked for a place",
            remedy=f"Use --source {SOURCE_OF_POINTS}, or give an area: --area NORTH/WEST/SOUTH/EAST.",
        )
    return {"source": source or SOURCE_OF_POINTS, "point": str(asked.cell.location)}
