"""Marks of cells by a condition, such as a significant trend: dots where it holds, pale colours where it does not.

The dots are on some of the cells, evenly over the map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import STEP_DEGREES
from era5_pipeline.query.plots.variable_styles import INK

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from era5_pipeline.query.maps.field_map import FieldMap

_SPACING = 0.075  # inches
_DOT = 1.3  # points, squared
# How much of the colours of a cell is white where the condition does not hold.
_PALE = 0.65


def stipple_points(field: FieldMap, spacing: float) -> npt.NDArray[np.float64]:
    """Longitudes and latitudes, (n, 2), of cells to be marked, about `spacing` degrees of a great circle apart.

    Only cells are marked in which the condition itself holds: it is not averaged.
    """
    points = []
    marked = field.stippled
    if marked is None:
        return np.zeros((0, 2))
    step = max(round(spacing / STEP_DEGREES), 1)
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
    """Pale the cells of an image of a field in which the condition does not hold: `marked` is of the image's shape.

    Cells without a value stay as they are, so that no grey of missing data is taken for a colour.
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


def spacing_of(degrees: float, inches: float) -> float:
    """Degrees between marks on a map that shows so many degrees on so many inches."""
    return _SPACING * degrees / inches


def draw_stipples(axes: Axes, points: npt.NDArray[np.float64]) -> None:
    """Draw a dot at each of the points, (n, 2), in the coordinates of the axes."""
    if len(points):
        axes.scatter(points[:, 0], points[:, 1], s=_DOT, c=INK, linewidths=0.0, alpha=0.8, zorder=1.5)
