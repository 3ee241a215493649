"""A map in plate carree, whose axes are degrees: land, cells, coastlines, borders, and labels of degrees."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker
from matplotlib.collections import LineCollection, PolyCollection

from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES
from era5_pipeline.query.plots.borders import borders
from era5_pipeline.query.plots.coastlines import coastlines, land
from era5_pipeline.query.plots.figures import latitude_label, longitude_label
from era5_pipeline.query.plots.map_parts.stipples import draw_pale, draw_stipples, spacing_of, stipple_points
from era5_pipeline.query.plots.variable_styles import FAINT, INK, NO_DATA, NO_DATA_ON_LAND

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.image import AxesImage

    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots.outlines import Window

_TICK_SPACING = 0.7  # inches
# On a wider preview, borders are too dense.
_WIDEST_PREVIEW_WITH_BORDERS = 90.0  # degrees


def centred_field(field: FieldMap, centre: float) -> FieldMap:
    """A field of all longitudes that begins 180 degrees west of a meridian; others stay as they are."""
    if len(field.longitudes) != N_LONGITUDES:
        return field
    west = STEP_DEGREES * round((centre - 180.0) / STEP_DEGREES) + STEP_DEGREES
    first = round((west - float(field.longitudes[0])) / STEP_DEGREES) % N_LONGITUDES
    return dataclasses.replace(
        field,
        longitudes=(west + STEP_DEGREES * np.arange(N_LONGITUDES)).astype(np.float32),
        values=np.roll(field.values, -first, axis=1),
        stippled=None if field.stippled is None else np.roll(field.stippled, -first, axis=1),
    )


def draw_plate_carree(
    axes: Axes,
    field: FieldMap,
    window: Window,
    colours: tuple[Colormap, Normalize],
    *,
    line_width: float,
    is_small: bool = False,
) -> AxesImage:
    """Draw land, cells, coastlines and borders; `is_small` averages the cells within a pixel."""
    west, east, south, north = window
    half = STEP_DEGREES / 2
    values, marked = field.values, field.stippled
    first, last = float(field.longitudes[0]) - half, float(field.longitudes[-1]) + half
    if len(field.longitudes) == N_LONGITUDES:
        # The border of the window cuts one column of cells in half: one half is drawn on each side.
        values = np.concatenate([values[:, -1:], values], axis=1)
        marked = None if marked is None else np.concatenate([marked[:, -1:], marked], axis=1)
        first -= STEP_DEGREES
    _draw_land(axes, window)
    # All cells have the same size, so an image looks the same as a mesh of a million cells, and is drawn much faster.
    image = axes.imshow(
        np.ma.masked_invalid(values),
        extent=(first, last, float(field.latitudes[0]) - half, float(field.latitudes[-1]) + half),
        origin="lower",
        interpolation="auto" if is_small else "nearest",
        aspect="auto",
        cmap=colours[0],
        norm=colours[1],
        zorder=1.0,
    )
    if marked is not None:
        draw_pale(axes, image, marked)
    if not np.isfinite(field.values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    inches = axes.get_window_extent().width / axes.figure.dpi
    draw_stipples(axes, stipple_points(field, spacing_of(east - west, inches)))
    inland = [] if is_small and east - west > _WIDEST_PREVIEW_WITH_BORDERS else borders(west, east, south, north)
    coast = coastlines(west, east, south, north)
    # A pale line below keeps coast and borders visible on dark colours.
    for lines, colour, width, alpha in (
        (inland, "white", 2.5 * line_width, 0.3),
        (inland, INK, 0.6 * line_width, 0.75),
        (coast, "white", 3 * line_width, 0.3),
        (coast, INK, line_width, 1.0),
    ):
        drawn = LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, zorder=2.0)
        axes.add_collection(drawn, autolim=False)
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    return image


def label_degrees(axes: Axes, window: Window, width: float, height: float) -> None:
    """Label the axes of a map of this size (inches) with round degrees, and draw lines there."""
    west, east, south, north = window
    for axis, degrees, inches, label in (
        (axes.xaxis, east - west, width, longitude_label),
        (axes.yaxis, north - south, height, latitude_label),
    ):
        axis.set_major_locator(ticker.MultipleLocator(_degree_step(degrees, inches / _TICK_SPACING)))
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _, label=label: label(value)))
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=INK)
    axes.grid(color=INK, alpha=0.15, linewidth=0.4)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)


def _draw_land(axes: Axes, window: Window) -> None:
    """Land and sea below the cells: seen where there is no data."""
    axes.set_facecolor(NO_DATA)
    polygons = land(*window)
    colours = [NO_DATA_ON_LAND if is_land else NO_DATA for is_land, _ in polygons]
    shapes = [ring for _, ring in polygons]
    axes.add_collection(PolyCollection(shapes, facecolors=colours, linewidths=0.0, zorder=0.5), autolim=False)


def _degree_step(length: float, most: float) -> float:
    """Degrees between ticks, for at most `most` intervals."""
    steps = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0)
    return next((step for step in steps if length / step <= most), steps[-1])
