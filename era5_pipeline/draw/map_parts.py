"""Parts of a map in any projection: its window, its colour bar, what grey means, and marks of significance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib import ticker
from matplotlib.colors import BoundaryNorm
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from era5_pipeline.draw.colour_scales import widened
from era5_pipeline.draw.projections import stretch
from era5_pipeline.maps.styles import FAINT, INK, NO_DATA, NO_DATA_ON_LAND, number_text, power_of

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.maps.fields import FieldMap

    FloatArray = npt.NDArray[np.floating]

# In degrees: a smaller area, such as a point, is shown with its surroundings.
_SMALLEST_WINDOW = 2.0
# The limit of the map's shape: width to height.
_WIDEST_RATIO = 2.6


def cells_window(field: FieldMap) -> Window:
    """The area that the cells of a field cover."""
    half = field.window.grid.step_degrees / 2
    west, east = float(field.longitudes[0]) - half, float(field.longitudes[-1]) + half
    south, north = (
        max(float(field.latitudes[0]) - half, -90.0),
        min(float(field.latitudes[-1]) + half, 90.0),
    )
    if len(field.longitudes) == field.window.grid.columns:
        # From one antimeridian to the other, instead of half a cell further east.
        west, east = west - half, east - half
    return west, east, south, north


def map_window(field: FieldMap) -> Window:
    """The area to draw: the cells, widened for a very small or very long area."""
    west, east, south, north = cells_window(field)
    longer = stretch(south, north)
    tall = max(north - south, _SMALLEST_WINDOW, (east - west) / longer / _WIDEST_RATIO)
    south, north = widened(south, north, tall)
    # The window ends at the poles.
    south, north = max(south - max(north - 90.0, 0.0), -90.0), min(north + max(-90.0 - south, 0.0), 90.0)
    wide = min(max(east - west, _SMALLEST_WINDOW * longer, tall * longer / _WIDEST_RATIO), 360.0)
    west, east = widened(west, east, wide)
    return west, east, south, north


# --- The colour bar of a map: its labels, their common power of ten, and pointed ends ---


Extend = Literal["neither", "min", "max", "both"]


def draw_colour_bar(
    figure: Figure,
    image: AxesImage,
    values: FloatArray,
    axes: Axes,
    orientation: Literal["horizontal", "vertical"],
    label_size: float = 8,
) -> None:
    """Draw the colours of an image on axes of their own; the ends are pointed if `values` lie beyond them."""
    bar = figure.colorbar(image, cax=axes, orientation=orientation, extend=_extend(image, values))
    bar.outline.set_linewidth(0.5)
    axes.tick_params(which="both", labelsize=label_size, width=0.5, length=label_size / 3, pad=2, colors=INK)
    if isinstance(image.norm, BoundaryNorm):
        bar.set_ticks(list(image.norm.boundaries), labels=[f"{edge:g}" for edge in image.norm.boundaries])
        return
    power = colour_bar_power(image)
    bar.formatter = ticker.FuncFormatter(lambda value, _: number_text(value, power))
    bar.update_ticks()


def colour_bar_power(image: AxesImage) -> int:
    """The power of ten that the labels of the colour bar omit."""
    low, high = image.get_clim()
    return 0 if isinstance(image.norm, BoundaryNorm) else power_of(max(abs(low), abs(high)))


def _extend(image: AxesImage, values: FloatArray) -> Extend:
    """The ends of the colour bar to draw pointed: those with values outside the range."""
    found = values[np.isfinite(values)]
    if not found.size:
        return "neither"
    low, high = image.get_clim()
    # Tolerance for packed files, whose values may be half a packing step outside 0 to 1, or below 0 mm.
    tolerance = 0.002 * min(high - low, 1.0)
    above = float(found.max()) > high + tolerance
    below = float(found.min()) < low - tolerance and not isinstance(image.norm, BoundaryNorm)
    if below:
        return "both" if above else "min"
    return "max" if above else "neither"


def shows_no_data(field: FieldMap, window: Window) -> bool:
    """Return True if a map of this window has places without a value: in the field, or around it."""
    near = 1e-6
    west, east, south, north = cells_window(field)
    is_around = east - west < min(window[1] - window[0], 360.0) - near
    is_around |= south > window[2] + near or north < window[3] - near
    return is_around or not bool(np.isfinite(field.values).all())


def print_no_data(figure: Figure, right: float, bottom: float) -> None:
    """Print which greys mean that there is no data, left of `right` and above `bottom` (inches)."""
    width, height = figure.get_size_inches()
    greys = tuple(Patch(facecolor=grey, edgecolor=FAINT, linewidth=0.4) for grey in (NO_DATA, NO_DATA_ON_LAND))
    figure.legend(
        handles=[greys],
        labels=["no data"],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.0)},
        loc="lower right",
        bbox_to_anchor=(right / width, bottom / height),
        bbox_transform=figure.transFigure,
        borderaxespad=0.0,
        borderpad=0.0,
        fontsize=8,
        labelcolor=INK,
        frameon=False,
        handlelength=2.4,
    )


# --- Marking cells that meet a condition, such as a significant trend: dots where it holds, pale colours elsewhere ---
#
# The dots are on some of the cells, evenly over the map.


SPACING = 0.075  # inches
_DOT = 1.3  # points, squared
# The share of white in the colours of a cell where the condition does not hold.
_PALE = 0.65


def stipple_points(field: FieldMap, spacing: float) -> npt.NDArray[np.float64]:
    """Longitudes and latitudes, (n, 2), of cells to mark, about `spacing` degrees of a great circle apart.

    Only cells that meet the condition themselves are marked: it is not averaged.
    """
    points = []
    marked = field.stippled
    if marked is None:
        return np.zeros((0, 2))
    step = max(round(spacing / field.window.grid.step_degrees), 1)
    for number, row in enumerate(range(step // 2, len(field.latitudes), step)):
        # Meridians converge, so that fewer cells of a parallel are marked near the poles.
        narrow = max(float(np.cos(np.deg2rad(field.latitudes[row]))), 1e-3)
        across = min(max(round(step / narrow), 1), len(field.longitudes))
        columns = np.arange((number % 2) * (across // 2), len(field.longitudes), across)
        columns = columns[marked[row, columns]]
        latitudes = np.full(columns.size, field.latitudes[row], dtype=np.float64)
        points.append(np.stack([field.longitudes[columns].astype(np.float64), latitudes], axis=1))
    return np.concatenate(points) if points else np.zeros((0, 2))


def draw_pale(axes: Axes, image: AxesImage, marked: npt.NDArray[np.bool_]) -> None:
    """Pale the cells of a field's image in which the condition does not hold; `marked` has the shape of the image.

    Cells without a value stay as they are, so that the grey of missing data is not taken for a colour.
    """
    values: npt.NDArray[np.floating] = np.ma.asarray(image.get_array())
    veil = np.ones((*marked.shape, 4), dtype=np.float32)
    veil[..., 3] = np.where(~marked & ~np.ma.getmaskarray(values), _PALE, 0.0)
    west, east, south, north = image.get_extent()
    axes.imshow(
        veil,
        extent=(west, east, south, north),
        origin=image.origin,
        interpolation="nearest",
        aspect="auto",
        zorder=image.get_zorder() + 0.1,
    )


def draw_stipples(axes: Axes, points: npt.NDArray[np.float64]) -> None:
    """Draw a dot at each of the points, (n, 2), in the coordinates of the axes."""
    if len(points):
        axes.scatter(points[:, 0], points[:, 1], s=_DOT, c=INK, linewidths=0.0, alpha=0.8, zorder=1.5)
