"""Where on Earth a place is: land and sea in plate carree as a background, and a small map of the world with a box."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from era5_pipeline.draw.figures import add_axes
from era5_pipeline.draw.outlines import borders, coastlines, extent, land
from era5_pipeline.maps.styles import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.draw.outlines import FloatArray, Window

SEA, LAND = "#dbe7ef", "#f0ead8"
WORLD: Window = (-180.0, 180.0, -90.0, 90.0)
_COAST = "#6b7f8c"
_POINTS_PER_INCH = 72
# Vertices closer than this (points) are merged, to keep the file small.
_FINEST = 0.6


def draw_land(axes: Axes, window: Window, across: float, *, is_close: bool) -> None:
    """Draw land and sea of a window into axes that are `across` inches wide; a close one has coasts and borders."""
    west, east, south, north = window
    finest = (_FINEST if is_close else 2 * _FINEST) * (east - west) / (across * _POINTS_PER_INCH)
    axes.set_facecolor(SEA)
    # Lakes are drawn over land, and islands in them over lakes: successive polygons of one colour make one path.
    for is_land, polygons in groupby(land(*window), key=lambda polygon: polygon[0]):
        _draw(axes, [ring for _, ring in polygons], finest, 3, facecolor=LAND if is_land else SEA, linewidth=0.0)
    if is_close:
        _draw(axes, coastlines(*window), finest, 2, facecolor="none", edgecolor=_COAST, linewidth=0.5)
        _draw(axes, borders(*window), finest, 2, facecolor="none", edgecolor=FAINT, linewidth=0.6, linestyle="--")
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
        spine.set_color(FAINT)


def _draw(axes: Axes, lines: list[FloatArray], finest: float, fewest: int, **style: Any) -> None:  # noqa: ANN401
    """Draw lines or polygons, (n, 2) each, as one path, without those of fewer than `fewest` points.

    Points closer than `finest` (degrees) to the one before are left out.
    """
    paths = []
    for line in lines:
        is_other = (np.diff(np.rint(line / finest), axis=0) != 0).any(axis=1)
        kept = line[np.concatenate(([True], is_other[:-1], [True]))]
        if len(kept) >= fewest:
            paths.append(Path(kept))
    if paths:
        # Not `add_patch`, which looks for the bounds of all lines; the axes have limits of their own.
        axes.add_artist(PathPatch(Path.make_compound_path(*paths), zorder=1, **style))


LOCATOR_WIDTH, LOCATOR_HEIGHT = 1.0, 0.5  # inches
# The longer side (degrees of latitude) of the largest region that is shown on the world: of a larger one, the outlines
# tell.
_LARGEST_REGION = 60.0
# In degrees: a smaller box could not be seen.
_SMALLEST_BOX = 9.0
_BOX = "#c0392b"


def is_region(window: Window) -> bool:
    """Return True if a map of this window needs a small map of the world beside it."""
    return extent(window) <= _LARGEST_REGION


def draw_locator(figure: Figure, left: float, bottom: float, window: Window) -> Axes:
    """Draw the world with a box around the window, with its lower left corner there (inches)."""
    axes = add_axes(figure, left, bottom, LOCATOR_WIDTH, LOCATOR_HEIGHT)
    draw_land(axes, WORLD, LOCATOR_WIDTH, is_close=False)
    west, east, south, north = window
    wide, tall = max(east - west, _SMALLEST_BOX), max(north - south, _SMALLEST_BOX)
    middle = ((west + east) / 2 + 180.0) % 360.0 - 180.0
    low = min(max((south + north - tall) / 2, -90.0), 90.0 - tall)
    # A box across the date line has a part at each side.
    for turn in (-360.0, 0.0, 360.0):
        begin = middle - wide / 2 + turn
        if begin < 180.0 and begin + wide > -180.0:
            axes.add_patch(
                Rectangle((begin, low), wide, tall, facecolor="none", edgecolor=_BOX, linewidth=1.1, zorder=3)
            )
    axes.set_xticks([])
    axes.set_yticks([])
    return axes
