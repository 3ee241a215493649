"""Shores, land and borders of a window on a projected map, as lines and polygons in metres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.plots.borders import borders
from era5_pipeline.query.plots.coastlines import coastlines, land
from era5_pipeline.query.plots.projections.map_projection import densified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.query.plots.outlines import FloatArray
    from era5_pipeline.query.plots.projections.map_projection import MapProjection, Metres


def projected_coastlines(projection: MapProjection) -> list[Metres]:
    """Coastlines and larger lakes; a line may end a little outside of the window, to be clipped there."""
    return _projected(projection, coastlines(*projection.window))


def projected_borders(projection: MapProjection) -> list[Metres]:
    """Borders between countries, as `projected_coastlines`."""
    return _projected(projection, borders(*projection.window))


def projected_land(projection: MapProjection) -> list[tuple[bool, Metres]]:
    """Polygons to be filled in this order, each with whether it is land: or water; within the window."""
    polygons = land(*projection.window)
    # A polygon is closed by its last edge, which may be long, too: along the edge of the map.
    rings = _projected(projection, [np.vstack([ring, ring[:1]]) for _, ring in polygons])
    return [(is_land, ring) for (is_land, _), ring in zip(polygons, rings, strict=True)]


def _projected(projection: MapProjection, lines: Sequence[FloatArray]) -> list[Metres]:
    """The lines on the map, in one call of PROJ."""
    if not lines:
        return []
    curved = [densified(line) for line in lines]
    ends = np.cumsum([len(line) for line in curved])
    return np.split(projection.forward(np.concatenate(curved)), ends[:-1])
