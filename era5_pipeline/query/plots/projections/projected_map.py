"""A map in a projection on axes in metres: land, cells, coastlines, borders, graticule and outline.

The axes cover the bounds of the outline exactly, and a whole number of pixels, so that each pixel of the picture is one
of `NearestCells`. What is outside of the outline is white.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from era5_pipeline.model.grid import EARTH_RADIUS_KM
from era5_pipeline.query.plots.map_parts.stipples import draw_pale, draw_stipples, spacing_of, stipple_points
from era5_pipeline.query.plots.projections.graticule import Graticule
from era5_pipeline.query.plots.projections.nearest_cells import NearestCells, pixel_centres
from era5_pipeline.query.plots.projections.projected_shapes import (
    projected_borders,
    projected_coastlines,
    projected_land,
)
from era5_pipeline.query.plots.variable_styles import INK, NO_DATA, NO_DATA_ON_LAND

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.image import AxesImage

    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots.projections.map_projection import MapProjection, Metres

# All lengths in inches.
_WIDEST, _TALLEST = 9.0, 6.5
# Dots per inch: 1,980 pixels across the widest map. In Equal Earth, each cell from 62 S to 62 N then has a pixel.
PROJECTED_DPI = 220
_LABEL_WIDTH = 0.6
_LABEL_GAP = 3.0  # points
_LINE_WIDTH = 0.5  # points


def projected_size(projection: MapProjection, dpi: float) -> tuple[float, float]:
    """Width and height of the map in inches: a whole number of pixels each."""
    west, east, south, north = projection.bounds
    width = min(_WIDEST, _TALLEST * (east - west) / (north - south))
    height = width * (north - south) / (east - west)
    return max(round(width * dpi), 1) / dpi, max(round(height * dpi), 1) / dpi


def draw_projected(
    axes: Axes, projection: MapProjection, field: FieldMap, colours: tuple[Colormap, Normalize]
) -> AxesImage:
    """Draw a field on axes that are empty, between land and lines."""
    west, east, south, north = projection.bounds
    box = axes.get_window_extent()
    x, y = pixel_centres(west, east, round(box.width)), pixel_centres(north, south, round(box.height))
    cells = NearestCells.find(projection, field.latitudes, field.longitudes, x, y)
    axes.set_axis_off()
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    outline = Path(projection.outline, closed=True)
    axes.add_patch(
        PathPatch(outline, facecolor=NO_DATA, edgecolor="none", zorder=0.0, clip_on=False, antialiased=False)
    )
    _clip(axes, _land(projection), outline)
    image = axes.imshow(
        np.ma.masked_invalid(cells.pixels_of(field.values)),
        extent=(west, east, south, north),
        origin="upper",
        interpolation="nearest",
        aspect="auto",
        cmap=colours[0],
        norm=colours[1],
        zorder=1.0,
    )
    if field.stippled is not None:
        draw_pale(axes, image, cells.pixels_of(field.stippled.astype(np.float32)) == 1.0)
    inches = box.width / axes.figure.dpi
    graticule = Graticule.of(projection, _LABEL_WIDTH * (east - west) / inches)
    marks = stipple_points(field, spacing_of(np.rad2deg((east - west) / (1000.0 * EARTH_RADIUS_KM)), inches))
    draw_stipples(axes, projection.forward(_within(marks, projection)))
    coast, inland = projected_coastlines(projection), projected_borders(projection)
    # A pale line below keeps coast and borders visible on dark colours.
    for lines, colour, width, alpha in (
        (graticule.lines, INK, 0.4, 0.15),
        (inland, "white", 2.0 * _LINE_WIDTH, 0.25),
        (inland, INK, 0.5 * _LINE_WIDTH, 0.6),
        (coast, "white", 3 * _LINE_WIDTH, 0.3),
        (coast, INK, _LINE_WIDTH, 1.0),
    ):
        drawn = LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, zorder=2.0)
        _clip(axes, drawn, outline)
    axes.add_patch(PathPatch(outline, facecolor="none", edgecolor=INK, linewidth=0.6, zorder=3.0, clip_on=False))
    for label in graticule.labels:
        is_left = label.side == "left"
        axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(-_LABEL_GAP, 0.0) if is_left else (0.0, -_LABEL_GAP),
            textcoords="offset points",
            ha="right" if is_left else "center",
            va="center" if is_left else "top",
            fontsize=8,
            color=INK,
            annotation_clip=False,
        )
    return image


def _land(projection: MapProjection) -> PolyCollection:
    polygons = projected_land(projection)
    colours = [NO_DATA_ON_LAND if is_land else NO_DATA for is_land, _ in polygons]
    return PolyCollection([ring for _, ring in polygons], facecolors=colours, linewidths=0.0, zorder=0.5)


def _clip(axes: Axes, collection: LineCollection | PolyCollection, outline: Path) -> None:
    """Add a collection to the axes, without what is outside of the map."""
    axes.add_collection(collection, autolim=False)
    collection.set_clip_path(outline, axes.transData)


def _within(points: Metres, projection: MapProjection) -> Metres:
    """The points (n, 2) in degrees, shifted by whole turns to the window's longitudes."""
    west = projection.window[0]
    return np.stack([west + (points[:, 0] - west) % 360.0, points[:, 1]], axis=1)
