"""A map in a projection: land, cells, coastlines, borders, graticule and outline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from era5_pipeline.draw.figures import DPI, latitude_label, longitude_label
from era5_pipeline.draw.map_parts import SPACING, draw_pale, draw_stipples, stipple_points
from era5_pipeline.draw.outlines import borders, coastlines, land
from era5_pipeline.draw.projections import NearestCells, densified, pixel_centres
from era5_pipeline.maps.styles import INK, NO_DATA, NO_DATA_ON_LAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.image import AxesImage

    from era5_pipeline.draw.outlines import FloatArray
    from era5_pipeline.draw.projections import MapProjection, Metres
    from era5_pipeline.maps.fields import FieldMap

# Possible distances of lines in degrees, and the most lines of a map.
_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 90.0)
_MOST_MERIDIANS, _MOST_PARALLELS = 12, 8


# Where in a polar map the labels are that find no place outside: the meridians' at this share of its height from the
# edge, the parallels' at this share of the distance from one meridian to the next.
_FROM_EDGE, _FROM_MERIDIAN = 0.06, 0.5

Side = Literal["left", "below", "above", "inside"]


@dataclass(frozen=True)
class GraticuleLabel:
    """The text of a meridian or parallel, and its position: on a side of a point of the border, or inside."""

    text: str
    side: Side
    x: float
    y: float


@dataclass(frozen=True)
class Graticule:
    """The lines inside a map, (n, 2) each, and their labels."""

    lines: list[Metres]
    labels: list[GraticuleLabel]

    @classmethod
    def of(cls, projection: MapProjection, label_width: float) -> Graticule:
        """Lines at round degrees; labels of meridians are at least `label_width` apart on the map.

        In a polar map wider than a half-disc they are inside, since the border is on all sides.
        """
        west, east, south, north = projection.window
        edge, pole = projection.edge, projection.pole
        is_inside = pole != 0 and east - west > 180.0
        first = west - _STEPS[0] if projection.is_disc else west  # the first meridian is a line like the others
        lines, labels = [], []
        for longitude in _inside(first, east, _step(east - west, _MOST_MERIDIANS)):
            lines.append(projection.forward(densified(np.array([(longitude, south), (longitude, north)]))))
        border = projection.forward(densified(np.array([(west, edge), (east, edge)])))
        most = int(min(np.hypot(*np.diff(border, axis=0).T).sum() / label_width, _MOST_MERIDIANS))
        step = _step(east - west, max(most, 1))
        side: Side = "inside" if is_inside else "above" if pole < 0 else "below"
        for longitude in _inside(first, east, step):
            latitude = edge + pole * _FROM_EDGE * (north - south) if is_inside else edge
            (at,) = projection.forward(np.array([(longitude, latitude)]))
            labels.append(GraticuleLabel(longitude_label(longitude), side, *map(float, at)))
        at_longitude = step * (np.floor(projection.centre / step) + _FROM_MERIDIAN) if is_inside else west
        for latitude in _inside(south, north, _step(north - south, _MOST_PARALLELS)):
            lines.append(projection.forward(densified(np.array([(west, latitude), (east, latitude)]))))
            if is_inside and abs(latitude - edge) < _FROM_EDGE * (north - south):
                continue  # where the meridians' are
            (at,) = projection.forward(np.array([(at_longitude, latitude)]))
            side = "inside" if is_inside else "left"
            labels.append(GraticuleLabel(latitude_label(latitude), side, *map(float, at)))
        return cls(lines, labels)


def _step(length: float, most: int) -> float:
    """Degrees between lines, for at most `most` intervals."""
    return next((step for step in _STEPS if length / step <= most), _STEPS[-1])


def _inside(low: float, high: float, step: float) -> list[float]:
    """The multiples of a step between two degrees, excluding both."""
    near = 1e-6
    first, last = int(np.ceil((low + near) / step)), int(np.floor((high - near) / step))
    return [step * number for number in range(first, last + 1)]


def projected_coastlines(projection: MapProjection) -> list[Metres]:
    """Coastlines and larger lakes; a line may end a little outside the window, to be clipped there."""
    return _projected(projection, coastlines(*projection.window))


def projected_borders(projection: MapProjection) -> list[Metres]:
    """Borders between countries, in the form of `projected_coastlines`."""
    return _projected(projection, borders(*projection.window))


def projected_land(projection: MapProjection) -> list[tuple[bool, Metres]]:
    """Polygons within the window, to be filled in this order, each with True for land, False for water."""
    polygons = land(*projection.window)
    # The last edge closes a polygon, and may be long too: along the edge of the map.
    rings = _projected(projection, [np.vstack([ring, ring[:1]]) for _, ring in polygons])
    return [(is_land, ring) for (is_land, _), ring in zip(polygons, rings, strict=True)]


def _projected(projection: MapProjection, lines: Sequence[FloatArray]) -> list[Metres]:
    """The lines on the map, in one call of PROJ."""
    if not lines or projection.has_degrees:
        return [line.astype(np.float64) for line in lines]
    curved = [densified(line) for line in lines]
    ends = np.cumsum([len(line) for line in curved])
    return np.split(projection.forward(np.concatenate(curved)), ends[:-1])


# --- A map in a projection: land, cells, coastlines, borders, graticule and outline ---
#
# The axes cover exactly the bounds of the outline, and a whole number of pixels, so that each pixel of the figure is
# one of `NearestCells`. Outside the outline the figure is white.


# All lengths in inches.
_WIDEST, _TALLEST = 9.0, 6.5
# Dots per inch: 1,980 pixels across the widest map. In Equal Earth, each cell from 62 S to 62 N then has a pixel. Plate
# carree needs no more than other figures.
_PROJECTED_DPI = 220
_LABEL_WIDTH = 0.6
_LABEL_GAP = 3.0  # points
# By the side of a label: gaps to the right and upwards, and how it is aligned there.
_PLACES: dict[Side, tuple[int, int, Literal["right", "center"], Literal["center", "top", "bottom"]]] = {
    "left": (-1, 0, "right", "center"),
    "below": (0, -1, "center", "top"),
    "above": (0, 1, "center", "bottom"),
    "inside": (0, 0, "center", "center"),
}
_LINE_WIDTH, _LINE_WIDTH_IN_DEGREES = 0.5, 0.6  # points; the pixels of plate carree are larger
# On a wider small map (degrees), borders are too dense.
_WIDEST_SMALL_WITH_BORDERS = 90.0


def projected_size(projection: MapProjection, dpi: float | None) -> tuple[float, float, float]:
    """Width and height of the map in inches, a whole number of pixels each, and dots per inch."""
    dpi = dpi or (DPI if projection.has_degrees else _PROJECTED_DPI)
    width = min(_WIDEST, _TALLEST * projection.shape)
    return max(round(width * dpi), 1) / dpi, max(round(width / projection.shape * dpi), 1) / dpi, dpi


def draw_projected(
    axes: Axes,
    projection: MapProjection,
    field: FieldMap,
    colours: tuple[Colormap, Normalize],
    *,
    is_small: bool = False,
) -> AxesImage:
    """Draw a field on axes that are empty, between land and lines.

    A small map shows the average of the cells within a pixel, and has no graticule; a wide one has no borders.
    """
    west, east, south, north = projection.bounds
    box = axes.get_window_extent()
    if projection.has_degrees:
        # Cells of one size, as an image of them: it is drawn faster than one of the map's pixels.
        step = field.window.grid.step_degrees
        x, y, half = _grid_points(west, east, step), _grid_points(south, north, step)[::-1], step / 2
        extent = x[0] - half, x[-1] + half, y[-1] - half, y[0] + half
        x, y = np.clip(x, west, east), np.clip(y, south, north)
    else:
        x, y = pixel_centres(west, east, round(box.width)), pixel_centres(north, south, round(box.height))
        extent = west, east, south, north
    cells = NearestCells.find(projection, field.latitudes, field.longitudes, x, y, field.window.grid)
    axes.set_axis_off()
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    outline = Path(projection.outline, closed=True)
    axes.add_patch(
        PathPatch(outline, facecolor=NO_DATA, edgecolor="none", zorder=0.0, clip_on=False, antialiased=False)
    )
    polygons = projected_land(projection)
    greys = [NO_DATA_ON_LAND if is_land else NO_DATA for is_land, _ in polygons]
    land_and_sea = PolyCollection([ring for _, ring in polygons], facecolors=greys, linewidths=0.0, zorder=0.5)
    _clip(axes, land_and_sea, outline)
    image = axes.imshow(
        np.ma.masked_invalid(cells.pixels_of(field.values)),
        extent=extent,
        origin="upper",
        interpolation="auto" if is_small else "nearest",
        aspect="auto",
        cmap=colours[0],
        norm=colours[1],
        zorder=1.0,
    )
    if field.stippled is not None:
        draw_pale(axes, image, cells.pixels_of(field.stippled.astype(np.float32)) == 1.0)
    degrees, inches = projection.degrees_across, box.width / axes.figure.dpi
    graticule = Graticule([], []) if is_small else Graticule.of(projection, _LABEL_WIDTH * (east - west) / inches)
    marks = stipple_points(field, SPACING * degrees / inches)
    first = projection.window[0]  # in its longitudes, which may be in any range
    marks[:, 0] = first + (marks[:, 0] - first) % 360.0
    draw_stipples(axes, projection.forward(marks))
    coast = projected_coastlines(projection)
    inland = [] if is_small and degrees > _WIDEST_SMALL_WITH_BORDERS else projected_borders(projection)
    line = _LINE_WIDTH_IN_DEGREES if projection.has_degrees and not is_small else _LINE_WIDTH
    # A pale line underneath keeps coast and borders visible on dark colours.
    for lines, colour, width, alpha in (
        (graticule.lines, INK, 0.4, 0.15),
        (inland, "white", 2.0 * line, 0.25),
        (inland, INK, 0.5 * line, 0.6),
        (coast, "white", 3 * line, 0.3),
        (coast, INK, line, 1.0),
    ):
        drawn = LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, zorder=2.0)
        _clip(axes, drawn, outline)
    axes.add_patch(PathPatch(outline, facecolor="none", edgecolor=INK, linewidth=0.6, zorder=3.0, clip_on=False))
    for label in graticule.labels:
        right, up, across, along = _PLACES[label.side]
        drawn_label = axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(right * _LABEL_GAP, up * _LABEL_GAP),
            textcoords="offset points",
            ha=across,
            va=along,
            fontsize=8,
            color=INK,
            annotation_clip=False,
        )
        if label.side == "inside":
            drawn_label.set_path_effects([withStroke(linewidth=2.0, foreground="white", alpha=0.7)])
    return image


def _grid_points(low: float, high: float, step: float) -> Metres:
    """The coordinates of a grid of this step whose cells cover an interval of degrees."""
    near = 1e-6
    first, last = np.floor(low / step + 0.5 + near), np.ceil(high / step - 0.5 - near)
    points: Metres = np.arange(first, last + 1) * step
    return points


def _clip(axes: Axes, collection: LineCollection | PolyCollection, outline: Path) -> None:
    """Add a collection to the axes, clipped to the map."""
    axes.add_collection(collection, autolim=False)
    collection.set_clip_path(outline, axes.transData)
