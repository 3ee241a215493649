"""Maps of a field as figures and files; and the small preview in Dagster's UI."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import BoundaryNorm
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from era5_pipeline.draw import figures, map_parts
from era5_pipeline.draw.colour_scales import NO_LIMITS, Limits, colour_scale
from era5_pipeline.draw.locator import LOCATOR_HEIGHT, LOCATOR_WIDTH, draw_locator, is_region
from era5_pipeline.draw.projected_map import draw_projected, projected_size
from era5_pipeline.draw.projections import ProjectionChoice, choose_projection
from era5_pipeline.maps import styles
from era5_pipeline.model.errors import NoDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.draw.projections import MapProjection
    from era5_pipeline.maps.fields import FieldMap

# All lengths in inches.
_MAP_NARROWEST_FIGURE = 5.0
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 0.75, 0.45, 0.85, 0.4
_LABELS_ABOVE = 0.2  # of the meridians of a map about the south pole
_BAR_THICKNESS, _BAR_GAP, _BAR_LABELS = 0.16, 0.42, 0.45
_LOCATOR_GAP = 0.26  # from the map to the world below it, and from the bar to the world beside or below it
_SIDE_GAP, _POLAR_SIDE_GAP, _BAR_RIGHT = 0.2, 0.32, 1.15  # right of a map, of one with labels at its corners; the rest


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """A figure of a map, and the parts of it that change with another field of the same grid."""

    figure: Figure
    axes: Axes
    image: AxesImage
    when: Text
    field: FieldMap
    projection: MapProjection


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
    """Draw a field as a map: grid cells, coastlines and borders, colour bar, degrees, and its time (UTC).

    Without a value, land and sea are two greys, which a legend explains. A region has a small map of the world with its
    box. The figure is 5 to 11 inches wide, depending on the shape of the area; `notes` say what is missing, and are
    printed above `credit`, small at the bottom. `title` replaces the field's own, which then is below it. `limits` are
    those of the colours, and `colours_of` the values, of any shape, that determine them: by default those of the field.
    `projection` and `centre` (degrees east) are as for `choose_projection`.
    """
    shown = field.values if colours_of is None else colours_of
    if not np.isfinite(shown).any():
        raise NoDataError(
            f"{field.variable.column} has no value anywhere on {field.title}, {field.when}: nothing to draw",
            remedy="Choose another time, column or area.",
        )
    windows = map_parts.cells_window(field), map_parts.map_window(field)
    chosen = choose_projection(projection, *windows, centre, field.window.grid)
    window = chosen.window
    width, height, dots = projected_size(chosen, dpi)
    is_wide = width >= 1.2 * height
    side = _POLAR_SIDE_GAP if chosen.pole else _SIDE_GAP
    right = _MAP_RIGHT if is_wide else side + _BAR_RIGHT
    # Even a narrow map needs space for its title.
    across = max(_MAP_LEFT + width + right, _MAP_NARROWEST_FIGURE)
    lines = figures.wrapped_notes(notes, across - _MAP_LEFT)
    bottom = figures.notes_height(lines) + _MAP_BOTTOM + (_BAR_GAP + _BAR_THICKNESS + _BAR_LABELS if is_wide else 0.3)
    bottom = math.ceil(bottom * dots) / dots  # align the map with the figure's pixels
    top = _MAP_TOP + (_LABELS_ABOVE if chosen.pole < 0 else 0.0)
    figure = figures.new_figure(across, bottom + height + top, dots)
    axes = figures.add_axes(figure, _MAP_LEFT, bottom, width, height)
    colours = colour_scale(field.variable, shown, limits, is_difference=field.is_difference, period=field.period)
    image = draw_projected(axes, chosen, field, colours)
    box = _MAP_LEFT, bottom, width, height
    bar_axes = _add_bar_and_locator(figure, window, box, side=None if is_wide else side)
    if map_parts.shows_no_data(field, window):
        low = bottom - _BAR_GAP - _BAR_THICKNESS - 0.9 * _BAR_LABELS if is_wide else bottom - _MAP_BOTTOM
        map_parts.print_no_data(figure, _MAP_LEFT + width, low)
    map_parts.draw_colour_bar(figure, image, shown, bar_axes, "horizontal" if is_wide else "vertical")
    axis = bar_axes.xaxis if is_wide else bar_axes.yaxis
    axis.set_label_text(styles.with_power(field.unit, map_parts.colour_bar_power(image)), color=styles.INK, fontsize=9)
    when = figures.print_title(
        figure,
        _MAP_LEFT,
        field.title if title is None else title,
        field.when if title is None else f"{field.title}, {field.when}",
    )
    figures.print_notes(figure, _MAP_LEFT, lines)
    figures.print_credit(figure, _MAP_LEFT, credit)
    return DrawnMap(figure, axes, image, when, field, chosen)


def _add_bar_and_locator(
    figure: Figure, window: Window, box: tuple[float, float, float, float], *, side: float | None
) -> Axes:
    """Add axes for the colour bar of a map, and the locator of a region; `box` is the map's place and size, in inches.

    They are right of the map at a distance of `side` (inches), or below it (None), from one end of it to the other.
    """
    left, bottom, width, height = box
    has_locator = is_region(window)
    if side is None:
        shorter = LOCATOR_WIDTH + _LOCATOR_GAP if has_locator else 0.0
        bar = figures.add_axes(figure, left, bottom - _BAR_GAP - _BAR_THICKNESS, width - shorter, _BAR_THICKNESS)
        place = left + width - LOCATOR_WIDTH, bottom - _LOCATOR_GAP - LOCATOR_HEIGHT
    else:
        shorter = LOCATOR_HEIGHT + _LOCATOR_GAP if has_locator else 0.0
        bar = figures.add_axes(figure, left + width + side, bottom + shorter, _BAR_THICKNESS, height - shorter)
        place = left + width + side, bottom
    if has_locator:
        draw_locator(figure, *place, window)
    return bar


_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT, _PREVIEW_TITLE_HEIGHT = 360, 270, 30, 50  # pixels
_PREVIEW_DPI = 100
_TITLE_SCALE = 0.65
_PREVIEW_BYTES = 44_000


def preview_map(field: FieldMap) -> bytes:
    """A small map with its title and a colour bar: PNG, 360 pixels wide, under 44 kB.

    The file has a description in words, `TEXT_OF_PREVIEW`, and the height of its title in pixels, `TITLE_OF_PREVIEW`.
    """
    windows = map_parts.cells_window(field), map_parts.map_window(field)
    projection = choose_projection("plate-carree", *windows, grid=field.window.grid)
    width = round(min(_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT * projection.shape))
    height = round(width / projection.shape) / _PREVIEW_DPI
    bar_height, title_height = _PREVIEW_BAR_HEIGHT / _PREVIEW_DPI, _PREVIEW_TITLE_HEIGHT / _PREVIEW_DPI
    whole = bar_height + height + title_height
    figure = figures.new_figure(_PREVIEW_WIDTH / _PREVIEW_DPI, whole, dpi=_PREVIEW_DPI)
    below = f"{field.when}: {_range_text(field)}"
    figures.print_title(figure, 0.08, field.title, below, scale=_TITLE_SCALE)
    left = (_PREVIEW_WIDTH - width) // 2
    axes = figures.add_axes(figure, left / _PREVIEW_DPI, bar_height, width / _PREVIEW_DPI, height)
    colours = colour_scale(field.variable, field.values, is_difference=field.is_difference, period=field.period)
    image = draw_projected(axes, projection, field, colours, is_small=True)
    if not np.isfinite(field.values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=styles.FAINT)
    bar_axes = figures.add_axes(figure, 0.25, 0.18, 2.85, 0.07)
    map_parts.draw_colour_bar(figure, image, field.values, bar_axes, "horizontal", label_size=6)
    if not isinstance(image.norm, BoundaryNorm):
        bar_axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    unit = styles.with_power(styles.style_of(field.variable).unit, map_parts.colour_bar_power(image))
    # A long unit is printed small, to fit beside the bar.
    size = min(6.0, 48.0 / max(len(unit), 1))
    figure.text(0.885, 0.17 / whole, unit, fontsize=size, color=styles.INK)
    return _compressed_png(figure, f"{field.title}, {below}")


def _range_text(field: FieldMap) -> str:
    """The lowest and the highest value with the unit: "3.1 to 29.4 °C"."""
    found = field.values[np.isfinite(field.values)]
    if not found.size:
        return "no values"
    least, greatest = float(found.min()), float(found.max())
    power = styles.power_of(max(abs(least), abs(greatest)))
    return f"{_short(least, power)} to {_short(greatest, power)} {styles.unit_of_hour(field.variable, power)}".strip()


def _short(value: float, power: int) -> str:
    divided = value / 10.0**power
    return styles.number_text(float(f"{divided:.3g}") if abs(divided) < 1000 else round(divided))


def _compressed_png(figure: Figure, words: str) -> bytes:
    info = PngInfo()
    info.add_text(styles.TEXT_OF_PREVIEW, words)
    info.add_text(styles.TITLE_OF_PREVIEW, str(_PREVIEW_TITLE_HEIGHT))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")  # type: ignore[no-untyped-call]
    # All colours if the file is small enough; otherwise as many as fit, for a noisy field down to 3 bits per pixel.
    for colours in (None, 256, 128, 64, 32, 16, 8):
        file = io.BytesIO()
        # MAXCOVERAGE chooses colours by distance rather than frequency, and so keeps those of the colour bar.
        reduced = picture.quantize(colours, Image.Quantize.MAXCOVERAGE) if colours else picture
        # Level 9, or `optimize`, takes five times as long for files 2 % smaller.
        reduced.save(file, "png", compress_level=6, pnginfo=info)
        if file.tell() < _PREVIEW_BYTES:
            break
    return file.getvalue()
