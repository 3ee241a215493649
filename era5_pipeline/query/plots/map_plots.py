"""Maps of a field: the layout of the figure, and its file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.plots.colour_scales import NO_LIMITS, Limits, colour_scale
from era5_pipeline.query.plots.figures import (
    DPI,
    add_axes,
    new_figure,
    notes_height,
    print_credit,
    print_notes,
    print_title,
    save,
    wrapped_notes,
)
from era5_pipeline.query.plots.map_parts.colour_bar import draw_colour_bar, power_of_bar
from era5_pipeline.query.plots.map_parts.plate_carree import centred_field, draw_plate_carree, label_degrees
from era5_pipeline.query.plots.map_windows import cells_window, map_size, map_window
from era5_pipeline.query.plots.projections.projected_map import PROJECTED_DPI, draw_projected, projected_size
from era5_pipeline.query.plots.projections.projection_choice import ProjectionChoice, choose_projection
from era5_pipeline.query.plots.variable_styles import INK, with_power

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots.outlines import Window
    from era5_pipeline.query.plots.projections.map_projection import MapProjection

# All lengths in inches.
_MAP_NARROWEST_FIGURE = 5.0
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 0.75, 0.45, 0.85, 0.4
_BAR_THICKNESS, _BAR_GAP, _BAR_LABELS = 0.16, 0.42, 0.45
_LINE_WIDTH = 0.6  # points


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """A figure of a map, and the parts of it that another field of the same grid would change.

    `projection` is None for plate carree, whose degrees are those of `window`.
    """

    figure: Figure
    axes: Axes
    image: AxesImage
    when: Text
    field: FieldMap
    window: Window
    projection: MapProjection | None


def map_figure(
    field: FieldMap,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
    projection: ProjectionChoice = "auto",
    centre: float | None = None,
) -> Figure:
    """Draw a field as a map: grid cells, coastlines and borders, colour bar, degrees, and its time (UTC).

    Where no cell has a value, land and sea are two greys. The figure is 5 to 11 inches wide, depending on the shape of
    the area; `notes` say what is missing, and are printed above `credit`, small at the bottom. `title` replaces the
    field's own, which then is below it. `limits` are those of the colours. `projection` and `centre` (degrees east) are
    as `choose_projection` has them; in plate carree, `centre` turns a map of all longitudes.

    Raises:
        NoDataError: if no cell has a value.
        UsageError: if one of the limits leaves no range.
    """
    return draw_map(
        field, credit=credit, notes=notes, title=title, limits=limits, projection=projection, centre=centre
    ).figure


def draw_map(
    field: FieldMap,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
    projection: ProjectionChoice = "auto",
    centre: float | None = None,
    colours_of: npt.NDArray[np.floating] | None = None,
    dpi: float | None = None,
) -> DrawnMap:
    """Draw a map as `map_figure`, and keep its parts.

    `colours_of` are the values, of any shape, from which the colours follow: by default those of the field.
    """
    shown = field.values if colours_of is None else colours_of
    if not np.isfinite(shown).any():
        raise NoDataError(
            f"{field.variable.column} has no value anywhere on {field.title}, {field.when}: nothing to draw",
            remedy="Choose another time, column or area.",
        )
    chosen = choose_projection(projection, cells_window(field), map_window(field), centre)
    if chosen is None:
        field = field if centre is None else centred_field(field, centre)
    window = map_window(field) if chosen is None else chosen.window
    width, height, dots = _size(window, chosen, dpi)
    is_wide = width >= 1.2 * height
    right = _MAP_RIGHT if is_wide else 1.1 + _BAR_THICKNESS
    # A narrow map still needs space for its title.
    across = max(_MAP_LEFT + width + right, _MAP_NARROWEST_FIGURE)
    lines = wrapped_notes(notes, across - _MAP_LEFT)
    bottom = notes_height(lines) + _MAP_BOTTOM + (_BAR_GAP + _BAR_THICKNESS + _BAR_LABELS if is_wide else 0.3)
    if chosen is not None:
        bottom = math.ceil(bottom * dots) / dots  # pixels of the map are pixels of the figure
    figure = new_figure(across, bottom + height + _MAP_TOP, dots)
    axes = add_axes(figure, _MAP_LEFT, bottom, width, height)
    colours = colour_scale(field.variable, shown, limits, is_difference=field.is_difference, period=field.period)
    if chosen is None:
        image = draw_plate_carree(axes, field, window, colours, line_width=_LINE_WIDTH)
        label_degrees(axes, window, width, height)
    else:
        image = draw_projected(axes, chosen, field, colours)
    if is_wide:
        bar_bottom = bottom - _BAR_GAP - _BAR_THICKNESS
        bar_axes = add_axes(figure, _MAP_LEFT + 0.2 * width, bar_bottom, 0.6 * width, _BAR_THICKNESS)
    else:
        bar_axes = add_axes(figure, _MAP_LEFT + width + 0.2, bottom + 0.1 * height, _BAR_THICKNESS, 0.8 * height)
    draw_colour_bar(figure, image, shown, bar_axes, "horizontal" if is_wide else "vertical")
    axis = bar_axes.xaxis if is_wide else bar_axes.yaxis
    axis.set_label_text(with_power(field.unit, power_of_bar(image)), color=INK, fontsize=9)
    when = print_title(
        figure,
        _MAP_LEFT,
        field.title if title is None else title,
        field.when if title is None else f"{field.title}, {field.when}",
    )
    print_notes(figure, _MAP_LEFT, lines)
    print_credit(figure, _MAP_LEFT, credit)
    return DrawnMap(figure, axes, image, when, field, window, chosen)


def plot_map(
    field: FieldMap,
    path: Path,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
    projection: ProjectionChoice = "auto",
    centre: float | None = None,
) -> None:
    """Write `map_figure` to `path` as PNG, PDF or SVG, atomically.

    Raises:
        NoDataError: if no cell has a value.
        UsageError: if one of the limits leaves no range.
        LocalDiskError: if the disk is full or not writable.
    """
    figure = map_figure(
        field, credit=credit, notes=notes, title=title, limits=limits, projection=projection, centre=centre
    )
    save(figure, path)


def _size(window: Window, projection: MapProjection | None, dpi: float | None) -> tuple[float, float, float]:
    """Width and height of the map in inches, and dots per inch."""
    if projection is None:
        return *map_size(window), dpi or DPI
    finer = dpi or PROJECTED_DPI
    return *projected_size(projection, finer), finer
