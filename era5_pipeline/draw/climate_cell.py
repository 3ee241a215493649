"""The grid cell on a map: its rectangle with coast and borders around, and its position on Earth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import ticker
from matplotlib.patches import Rectangle

from era5_pipeline.draw.climate_axes import LETTERS, WARM
from era5_pipeline.draw.figures import add_axes, latitude_label, longitude_label, new_figure
from era5_pipeline.draw.locator import WORLD, draw_land
from era5_pipeline.draw.projections import stretch
from era5_pipeline.maps.styles import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.model.grid import Location

_DOT = "#101010"  # the map stays pale on a dark page
# Inches.
_LEFT, _BOTTOM, _RIGHT, _TOP, _GAP = 0.52, 0.28, 0.1, 0.1, 0.12
_TALLEST = 4.0  # degrees


def cell_figure(cells: tuple[float, float, float, float], asked: tuple[float, float] | None, width: float) -> Figure:
    """Draw the rectangle of cells (its west, east, south and north border, degrees) and the requested point.

    The map is 4 degrees high, or 1.6 times as high as the rectangle; below it is the Earth with the place marked.
    """
    figure = new_figure(width, 1.0)
    across = width - _LEFT - _RIGHT
    up, earth_up = across * 0.72, across / 2
    figure.set_size_inches(width, _BOTTOM + up + _TOP + _GAP + earth_up)
    window = _window(cells, across / up)
    axes = add_axes(figure, _LEFT, _BOTTOM + earth_up + _GAP, across, up)
    draw_land(axes, window, across, is_close=True)
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
    earth = add_axes(figure, _LEFT, 0.02, across, earth_up)
    draw_land(earth, WORLD, across, is_close=False)
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


def cell_bounds(location: Location) -> tuple[float, float, float, float]:
    """West, east, south and north of the cell around a grid point."""
    latitude, longitude, half = location.latitude, location.longitude, location.grid.step_degrees / 2
    return longitude - half, longitude + half, max(latitude - half, -90.0), min(latitude + half, 90.0)


def _window(cells: tuple[float, float, float, float], shape: float) -> Window:
    """The window around the cells: `shape` is its ratio of width to height, in kilometres."""
    west, east, south, north = cells
    middle = (south + north) / 2
    longer = stretch(south, north)
    tall = min(max(_TALLEST, 1.6 * (north - south), 1.6 * (east - west) / longer / shape), 180.0)
    low = min(max(middle - tall / 2, -90.0), 90.0 - tall)
    wide = min(tall * longer * shape, 360.0)
    return (west + east - wide) / 2, (west + east + wide) / 2, low, low + tall


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
