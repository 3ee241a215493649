"""Maps and small previews of a field: grid cells, land, coastlines, borders, colour bar, degrees."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib import ticker
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import BoundaryNorm
from PIL import Image

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES
from era5_pipeline.query.plots.borders import borders
from era5_pipeline.query.plots.coastlines import coastlines, land
from era5_pipeline.query.plots.colour_scales import NO_LIMITS, Limits, colour_scale
from era5_pipeline.query.plots.figures import (
    add_axes,
    latitude_label,
    longitude_label,
    new_figure,
    notes_height,
    print_credit,
    print_notes,
    print_title,
    save,
    wrapped_notes,
)
from era5_pipeline.query.plots.map_windows import map_size, map_window
from era5_pipeline.query.plots.variable_styles import (
    FAINT,
    INK,
    NO_DATA,
    NO_DATA_ON_LAND,
    number_text,
    power_of,
    style_of,
    with_power,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots.outlines import Window

Extend = Literal["neither", "min", "max", "both"]

# All lengths in inches.
_MAP_NARROWEST_FIGURE = 5.0
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 0.75, 0.45, 0.85, 0.4
_BAR_THICKNESS, _BAR_GAP, _BAR_LABELS = 0.16, 0.42, 0.45
_TICK_SPACING = 0.7
_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT = 360, 270, 30  # pixels
_PREVIEW_DPI = 100
_PREVIEW_BYTES = 40_000
# On a wider preview, borders are too dense.
_WIDEST_PREVIEW_WITH_BORDERS = 90.0  # degrees


def map_figure(
    field: FieldMap,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
) -> Figure:
    """Draw a field as a map: grid cells, coastlines and borders, colour bar, degrees, and its time (UTC).

    Where no cell has a value, land and sea are two greys. The figure is 5 to 11 inches wide, depending on the shape of
    the area; `notes` say what is missing, and are printed above `credit`, small at the bottom. `title` replaces the
    field's own, which then is below it. `limits` are those of the colours.

    Raises:
        NoDataError: if no cell has a value.
        UsageError: if one of the limits leaves no range.
    """
    if not np.isfinite(field.values).any():
        raise NoDataError(
            f"{field.variable.column} has no value anywhere on {field.title}, {field.when}: nothing to draw",
            remedy="Choose another time, column or area.",
        )
    window = map_window(field)
    width, height = map_size(window)
    is_wide = width >= 1.2 * height
    right = _MAP_RIGHT if is_wide else 1.1 + _BAR_THICKNESS
    # A narrow map still needs space for its title.
    across = max(_MAP_LEFT + width + right, _MAP_NARROWEST_FIGURE)
    lines = wrapped_notes(notes, across - _MAP_LEFT)
    bottom = notes_height(lines) + _MAP_BOTTOM + (_BAR_GAP + _BAR_THICKNESS + _BAR_LABELS if is_wide else 0.3)
    figure = new_figure(across, bottom + height + _MAP_TOP)
    axes = add_axes(figure, _MAP_LEFT, bottom, width, height)
    image = _draw_map(axes, field, window, line_width=0.6, limits=limits)
    _degree_axes(axes, window, width, height)
    if is_wide:
        bar_bottom = bottom - _BAR_GAP - _BAR_THICKNESS
        bar_axes = add_axes(figure, _MAP_LEFT + 0.2 * width, bar_bottom, 0.6 * width, _BAR_THICKNESS)
    else:
        bar_axes = add_axes(figure, _MAP_LEFT + width + 0.2, bottom + 0.1 * height, _BAR_THICKNESS, 0.8 * height)
    _colour_bar(figure, image, bar_axes, "horizontal" if is_wide else "vertical")
    axis = bar_axes.xaxis if is_wide else bar_axes.yaxis
    axis.set_label_text(with_power(field.unit, _power(image)), color=INK, fontsize=9)
    print_title(
        figure,
        _MAP_LEFT,
        field.title if title is None else title,
        field.when if title is None else f"{field.title}, {field.when}",
    )
    print_notes(figure, _MAP_LEFT, lines)
    print_credit(figure, _MAP_LEFT, credit)
    return figure


def plot_map(
    field: FieldMap,
    path: Path,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
) -> None:
    """Write `map_figure` to `path` as PNG, PDF or SVG, atomically.

    Raises:
        NoDataError: if no cell has a value.
        UsageError: if one of the limits leaves no range.
        LocalDiskError: if the disk is full or not writable.
    """
    save(map_figure(field, credit=credit, notes=notes, title=title, limits=limits), path)


def preview_map(field: FieldMap) -> bytes:
    """A small map with a colour bar and no title: PNG, 360 pixels wide, under 40 kB."""
    window = map_window(field)
    width, height = map_size(window)
    scale = min(_PREVIEW_WIDTH / width, _PREVIEW_MAP_HEIGHT / height)
    bar_height = _PREVIEW_BAR_HEIGHT / _PREVIEW_DPI
    width, height = round(width * scale) / _PREVIEW_DPI, round(height * scale) / _PREVIEW_DPI
    figure = new_figure(_PREVIEW_WIDTH / _PREVIEW_DPI, bar_height + height, dpi=_PREVIEW_DPI)
    axes = add_axes(figure, (_PREVIEW_WIDTH / _PREVIEW_DPI - width) / 2, bar_height, width, height)
    image = _draw_map(axes, field, window, line_width=0.4, is_small=True)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_linewidth(0.3)
    bar_axes = add_axes(figure, 0.25, 0.18, 2.85, 0.07)
    _colour_bar(figure, image, bar_axes, "horizontal", label_size=6)
    if not isinstance(image.norm, BoundaryNorm):
        bar_axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    unit = with_power(style_of(field.variable).unit, _power(image))
    # A long unit is small, so that it fits beside the bar.
    size = min(6.0, 48.0 / max(len(unit), 1))
    figure.text(0.885, 0.17 / (bar_height + height), unit, fontsize=size, color=INK)
    return _compressed_png(figure)


def _compressed_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    picture = Image.open(file).convert("RGB")
    # All colours if the file is small enough; otherwise as many as possible, for a noisy field down to 3 bits a pixel.
    for colours in (None, 256, 128, 64, 32, 16, 8):
        file = io.BytesIO()
        # MAXCOVERAGE chooses colours by their distance, not their frequency, and so keeps those of the colour bar.
        reduced = picture.quantize(colours, Image.Quantize.MAXCOVERAGE) if colours else picture
        reduced.save(file, "png", optimize=True)
        if file.tell() < _PREVIEW_BYTES:
            break
    return file.getvalue()


def _draw_map(
    axes: Axes,
    field: FieldMap,
    window: Window,
    *,
    line_width: float,
    is_small: bool = False,
    limits: Limits = NO_LIMITS,
) -> AxesImage:
    """Draw land, cells, coastlines and borders; `is_small` averages the cells within a pixel."""
    west, east, south, north = window
    half = STEP_DEGREES / 2
    values = field.values
    first, last = float(field.longitudes[0]) - half, float(field.longitudes[-1]) + half
    if len(field.longitudes) == N_LONGITUDES:
        # The border of the window cuts one column of cells in half: one half is drawn on each side.
        values = np.concatenate([values[:, -1:], values], axis=1)
        first -= STEP_DEGREES
    colours, norm = colour_scale(
        field.variable, field.values, limits, is_difference=field.is_difference, period=field.period
    )
    _draw_land(axes, window)
    # All cells have the same size, so an image looks the same as a mesh of a million cells, and is drawn much faster.
    image = axes.imshow(
        np.ma.masked_invalid(values),
        extent=(first, last, float(field.latitudes[0]) - half, float(field.latitudes[-1]) + half),
        origin="lower",
        interpolation="auto" if is_small else "nearest",
        aspect="auto",
        cmap=colours,
        norm=norm,
        zorder=1.0,
    )
    if not np.isfinite(field.values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=FAINT)
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


def _draw_land(axes: Axes, window: Window) -> None:
    """Land and sea below the cells: seen where there is no data."""
    axes.set_facecolor(NO_DATA)
    polygons = land(*window)
    colours = [NO_DATA_ON_LAND if is_land else NO_DATA for is_land, _ in polygons]
    shapes = [ring for _, ring in polygons]
    axes.add_collection(PolyCollection(shapes, facecolors=colours, linewidths=0.0, zorder=0.5), autolim=False)


def _colour_bar(
    figure: Figure,
    image: AxesImage,
    axes: Axes,
    orientation: Literal["horizontal", "vertical"],
    label_size: float = 8,
) -> None:
    bar = figure.colorbar(image, cax=axes, orientation=orientation, extend=_extend(image))
    bar.outline.set_linewidth(0.5)
    axes.tick_params(which="both", labelsize=label_size, width=0.5, length=label_size / 3, pad=2, colors=INK)
    if isinstance(image.norm, BoundaryNorm):
        bar.set_ticks(list(image.norm.boundaries), labels=[f"{edge:g}" for edge in image.norm.boundaries])
        return
    power = _power(image)
    bar.formatter = ticker.FuncFormatter(lambda value, _: number_text(value, power))
    bar.update_ticks()


def _power(image: AxesImage) -> int:
    """The power of ten that the labels of the colour bar leave out."""
    low, high = image.get_clim()
    return 0 if isinstance(image.norm, BoundaryNorm) else power_of(max(abs(low), abs(high)))


def _extend(image: AxesImage) -> Extend:
    """The ends of the colour bar to draw pointed: those with values outside the range."""
    values = image.get_array()
    if values is None or not np.ma.count(values):
        return "neither"
    low, high = image.get_clim()
    # The tolerance is for packed files, whose values may be half a packing step outside 0 to 1, or below 0 mm.
    tolerance = 0.002 * min(high - low, 1.0)
    above = float(values.max()) > high + tolerance
    below = float(values.min()) < low - tolerance and not isinstance(image.norm, BoundaryNorm)
    if below:
        return "both" if above else "min"
    return "max" if above else "neither"


def _degree_axes(axes: Axes, window: Window, width: float, height: float) -> None:
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


def _degree_step(length: float, most: float) -> float:
    """Degrees between ticks, for at most `most` intervals."""
    steps = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0)
    return next((step for step in steps if length / step <= most), steps[-1])
