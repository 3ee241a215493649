"""The grid cell on a map: its rectangle with coast and borders around, and its position on Earth."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import ticker
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as MatplotlibPath

from era5_pipeline.draw.climate_axes import LETTERS, WARM
from era5_pipeline.draw.figures import add_axes, latitude_label, longitude_label, new_figure
from era5_pipeline.draw.outlines import borders, coastlines, land
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.model.grid import STEP_DEGREES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.draw.outlines import FloatArray, Window

SEA, LAND = "#dbe7ef", "#f0ead8"
_COAST = "#6b7f8c"
_DOT = "#101010"  # the map stays pale on a dark page
# Inches.
_LEFT, _BOTTOM, _RIGHT, _TOP, _GAP = 0.52, 0.28, 0.1, 0.1, 0.12
_POINTS_PER_INCH = 72
# Vertices closer than this (points) are merged, to keep the file small.
_FINEST = 0.6
_TALLEST = 4.0  # degrees
_HIGHEST_STRETCH = 4.0  # length of a degree of latitude to one of longitude
_WORLD: Window = (-180.0, 180.0, -90.0, 90.0)


def cell_figure(cells: tuple[float, float, float, float], asked: tuple[float, float] | None, width: float) -> Figure:
    """Draw the rectangle of cells (its west, east, south and north border, degrees) and the requested point.

    The map is 4 degrees high, or 1.6 times as high as the rectangle; below it is the Earth with the place marked.
    """
    figure = new_figure(width, 1.0)
    across = width - _LEFT - _RIGHT
    up, earth_up = across * 0.72, across / 2 * 0.62
    figure.set_size_inches(width, _BOTTOM + up + _TOP + _GAP + earth_up)
    window = _window(cells, across / up)
    axes = add_axes(figure, _LEFT, _BOTTOM + earth_up + _GAP, across, up)
    _draw_land(axes, window, across, is_close=True)
    west, east, south, north = cells
    axes.add_patch(
        Rectangle((west, south), east - west, north - south, facecolor=WARM, alpha=0.25, linewidth=0.0, zorder=3)
    )
    axes.add_patch(
        Rectangle((west, south), east - west, north - south, facecolor="none", edgecolor=WARM, linewidth=1.4, zorder=4)
    )
    if asked is not None:
        latitude, longitude = asked
        near = (west + east) / 2 + (longitude - (west + east) / 2 + 180.0) % 360.0 - 180.0
        axes.plot([near], [latitude], "o", color=_DOT, markersize=3.5, zorder=5)
    _label_degrees(axes, window)
    earth = add_axes(figure, _LEFT + across * 0.19, 0.02, across * 0.62, earth_up)
    _draw_land(earth, _WORLD, across * 0.62, is_close=False)
    middle = ((west + east) / 2 + 180.0) % 360.0 - 180.0, (south + north) / 2
    earth.plot(
        [middle[0]],
        [middle[1]],
        "o",
        markersize=9,
        markerfacecolor="none",
        color=WARM,
        markeredgewidth=1.4,
        clip_on=False,
    )
    earth.plot([middle[0]], [middle[1]], ".", markersize=3, color=WARM, clip_on=False)
    earth.set_xticks([])
    earth.set_yticks([])
    return figure


def cell_bounds(latitude: float, longitude: float) -> tuple[float, float, float, float]:
    """West, east, south and north of the cell around a grid point."""
    half = STEP_DEGREES / 2
    return longitude - half, longitude + half, max(latitude - half, -90.0), min(latitude + half, 90.0)


def _window(cells: tuple[float, float, float, float], shape: float) -> Window:
    """The window around the cells: `shape` is its ratio of width to height, in kilometres."""
    west, east, south, north = cells
    middle = (south + north) / 2
    stretch = min(1.0 / max(float(np.cos(np.deg2rad(middle))), 1e-6), _HIGHEST_STRETCH)
    tall = min(max(_TALLEST, 1.6 * (north - south), 1.6 * (east - west) / stretch / shape), 180.0)
    low = min(max(middle - tall / 2, -90.0), 90.0 - tall)
    wide = min(tall * stretch * shape, 360.0)
    return (west + east - wide) / 2, (west + east + wide) / 2, low, low + tall


def _draw_land(axes: Axes, window: Window, across: float, *, is_close: bool) -> None:
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
    """Draw lines or polygons, (n, 2) each, as one path, without those of fewer than `fewest` points."""
    thinned = [_thinned(line, finest) for line in lines]
    paths = [MatplotlibPath(line) for line in thinned if len(line) >= fewest]
    if paths:
        # Not `add_patch`, which looks for the bounds of all lines; the axes have limits of their own.
        axes.add_artist(PathPatch(MatplotlibPath.make_compound_path(*paths), zorder=1, **style))


def _thinned(points: FloatArray, finest: float) -> FloatArray:
    """A line (n, 2) without points closer than `finest` (degrees) to the one before."""
    places = np.rint(points / finest)
    is_other = np.concatenate(([True], (np.diff(places, axis=0) != 0).any(axis=1)))
    is_other[-1] = True
    return points[is_other]


def _label_degrees(axes: Axes, window: Window) -> None:
    west, east, south, north = window
    for axis, length, label in (
        (axes.xaxis, east - west, longitude_label),
        (axes.yaxis, north - south, latitude_label),
    ):
        steps = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0)
        axis.set_major_locator(ticker.MultipleLocator(next((step for step in steps if length / step <= 5), 90.0)))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _, label=label: label(value)))
    axes.tick_params(labelsize=LETTERS - 0.5, width=0.5, length=3, colors=INK)
