"""Coastlines and land for maps: the GSHHG shorelines of basemap's data packages, clipped to a window.

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
    extent,
    lines_within,
    polygons_within,
    read_shores,
    resolution_for,
)

if TYPE_CHECKING:
    from era5_pipeline.query.plots.outlines import BoolArray, FloatArray

_KM_PER_DEGREE = 111.2
# The width (km) of the smallest island at each resolution: about one pixel of a map of 1,500.
_SMALLEST_ISLAND: dict[Resolution, float] = {"f": 0.2, "h": 0.5, "i": 1.0, "l": 5.0, "c": 25.0}
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
    width = extent(window)
    resolution = resolution_for(window)
    shores, island = read_shores(resolution), _SMALLEST_ISLAND[resolution]
    smallest_lake = max(width * _KM_PER_DEGREE * _SMALLEST_LAKE, island) ** 2
    wanted = np.abs(shores.area) >= np.where(shores.level % 2 == 1, island**2, smallest_lake)
    wanted &= (shores.area > 0.0) | (width <= _WIDEST_WITH_RIVERS)
    return shores, wanted
