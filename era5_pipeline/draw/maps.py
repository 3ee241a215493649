"""Maps of a field as figures and files, in plate carree or a projection; and the small preview in Dagster's UI."""

from __future__ import annotations

import dataclasses
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import BoundaryNorm
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from era5_pipeline.draw.colour_scales import NO_LIMITS, Limits, colour_scale
from era5_pipeline.draw.figures import (
    DPI,
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
from era5_pipeline.draw.locator import LOCATOR_HEIGHT, LOCATOR_WIDTH, draw_locator, is_region
from era5_pipeline.draw.map_parts import (
    cells_window,
    colour_bar_power,
    draw_colour_bar,
    draw_pale,
    draw_stipples,
    map_size,
    map_window,
    print_no_data,
    shows_no_data,
    spacing_of,
    stipple_points,
)
from era5_pipeline.draw.outlines import borders, coastlines, land
from era5_pipeline.draw.projected_map import PROJECTED_DPI, draw_projected, projected_size
from era5_pipeline.draw.projections import ProjectionChoice, choose_projection
from era5_pipeline.maps.styles import (
    FAINT,
    INK,
    NO_DATA,
    NO_DATA_ON_LAND,
    TEXT_OF_PREVIEW,
    TITLE_OF_PREVIEW,
    number_text,
    power_of,
    style_of,
    unit_of_hour,
    with_power,
)
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.draw.projections import MapProjection
    from era5_pipeline.maps.fields import FieldMap

# --- A map in plate carree, whose axes are degrees: land, cells, coastlines, borders, and labels of degrees ---


_TICK_SPACING = 0.7  # inches
# On a wider preview, borders are too dense.
_WIDEST_PREVIEW_WITH_BORDERS = 90.0  # degrees


def centred_field(field: FieldMap, centre: float) -> FieldMap:
    """A field of all longitudes, rotated to begin 180 degrees west of a meridian; other fields are unchanged."""
    if len(field.longitudes) != N_LONGITUDES:
        return field
    # Index 0 is 179.75 W.
    west_index = round((centre - 180.0) / STEP_DEGREES) + N_LONGITUDES // 2
    first = (west_index - field.window.west_index) % N_LONGITUDES
    return dataclasses.replace(
        field,
        window=dataclasses.replace(field.window, west_index=west_index),
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
        # The border of the window halves one column of cells: draw one half on each side.
        values = np.concatenate([values[:, -1:], values], axis=1)
        marked = None if marked is None else np.concatenate([marked[:, -1:], marked], axis=1)
        first -= STEP_DEGREES
    _draw_land(axes, window)
    # All cells have the same size, so an image looks like a mesh of a million cells, and is drawn much faster.
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
    # A pale line underneath keeps coast and borders visible on dark colours.
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
    """Draw land and sea below the cells, visible where there is no data."""
    axes.set_facecolor(NO_DATA)
    polygons = land(*window)
    colours = [NO_DATA_ON_LAND if is_land else NO_DATA for is_land, _ in polygons]
    shapes = [ring for _, ring in polygons]
    axes.add_collection(PolyCollection(shapes, facecolors=colours, linewidths=0.0, zorder=0.5), autolim=False)


def _degree_step(length: float, most: float) -> float:
    """Degrees between ticks, for at most `most` intervals."""
    steps = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0)
    return next((step for step in steps if length / step <= most), steps[-1])


# --- Maps of a field: the layout of the figure, and its file ---


# All lengths in inches.
_MAP_NARROWEST_FIGURE = 5.0
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 0.75, 0.45, 0.85, 0.4
_LABELS_ABOVE = 0.2  # of the meridians of a map about the south pole
_BAR_THICKNESS, _BAR_GAP, _BAR_LABELS = 0.16, 0.42, 0.45
_LOCATOR_GAP = 0.26  # from the map to the world below it, and from the bar to the world beside or below it
_SIDE_GAP, _POLAR_SIDE_GAP, _BAR_RIGHT = 0.2, 0.32, 1.15  # right of a map, of one with labels at its corners; the rest
_LINE_WIDTH = 0.6  # points


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """A figure of a map, and the parts of it that change with another field of the same grid.

    `projection` is None for plate carree, whose axes are the degrees of `window`.
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

    Without a value, land and sea are two greys, which a legend explains. A region has a small map of the world with its
    box. The figure is 5 to 11 inches wide, depending on the shape of the area; `notes` say what is missing, and are
    printed above `credit`, small at the bottom. `title` replaces the field's own, which then is below it. `limits` are
    those of the colours. `projection` and `centre` (degrees east) are as for `choose_projection`; in plate carree,
    `centre` rotates a map of all longitudes.
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
    """Draw a map as `map_figure` does, and keep its parts.

    `colours_of` are the values, of any shape, that determine the colours: by default those of the field.
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
    side = _POLAR_SIDE_GAP if chosen is not None and chosen.pole else _SIDE_GAP
    right = _MAP_RIGHT if is_wide else side + _BAR_RIGHT
    # Even a narrow map needs space for its title.
    across = max(_MAP_LEFT + width + right, _MAP_NARROWEST_FIGURE)
    lines = wrapped_notes(notes, across - _MAP_LEFT)
    bottom = notes_height(lines) + _MAP_BOTTOM + (_BAR_GAP + _BAR_THICKNESS + _BAR_LABELS if is_wide else 0.3)
    if chosen is not None:
        bottom = math.ceil(bottom * dots) / dots  # align the map with the figure's pixels
    top = _MAP_TOP + (_LABELS_ABOVE if chosen is not None and chosen.pole < 0 else 0.0)
    figure = new_figure(across, bottom + height + top, dots)
    axes = add_axes(figure, _MAP_LEFT, bottom, width, height)
    colours = colour_scale(field.variable, shown, limits, is_difference=field.is_difference, period=field.period)
    if chosen is None:
        image = draw_plate_carree(axes, field, window, colours, line_width=_LINE_WIDTH)
        label_degrees(axes, window, width, height)
    else:
        image = draw_projected(axes, chosen, field, colours)
    box = _MAP_LEFT, bottom, width, height
    bar_axes = _add_bar_and_locator(figure, window, box, side=None if is_wide else side)
    if shows_no_data(field, window):
        low = bottom - _BAR_GAP - _BAR_THICKNESS - 0.9 * _BAR_LABELS if is_wide else bottom - _MAP_BOTTOM
        print_no_data(figure, _MAP_LEFT + width, low)
    draw_colour_bar(figure, image, shown, bar_axes, "horizontal" if is_wide else "vertical")
    axis = bar_axes.xaxis if is_wide else bar_axes.yaxis
    axis.set_label_text(with_power(field.unit, colour_bar_power(image)), color=INK, fontsize=9)
    when = print_title(
        figure,
        _MAP_LEFT,
        field.title if title is None else title,
        field.when if title is None else f"{field.title}, {field.when}",
    )
    print_notes(figure, _MAP_LEFT, lines)
    print_credit(figure, _MAP_LEFT, credit)
    return DrawnMap(figure, axes, image, when, field, window, chosen)


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
        bar = add_axes(figure, left, bottom - _BAR_GAP - _BAR_THICKNESS, width - shorter, _BAR_THICKNESS)
        place = left + width - LOCATOR_WIDTH, bottom - _LOCATOR_GAP - LOCATOR_HEIGHT
    else:
        shorter = LOCATOR_HEIGHT + _LOCATOR_GAP if has_locator else 0.0
        bar = add_axes(figure, left + width + side, bottom + shorter, _BAR_THICKNESS, height - shorter)
        place = left + width + side, bottom
    if has_locator:
        draw_locator(figure, *place, window)
    return bar


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
    """Write `map_figure` to `path` as PNG, PDF or SVG, atomically."""
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


# --- The small map in Dagster's UI: plate carree, a title, a colour bar, few bytes ---


_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT, _PREVIEW_TITLE_HEIGHT = 360, 270, 30, 50  # pixels
_PREVIEW_DPI = 100
_TITLE_SCALE = 0.65
_PREVIEW_BYTES = 44_000


def preview_map(field: FieldMap) -> bytes:
    """A small map with its title and a colour bar: PNG, 360 pixels wide, under 44 kB.

    The file has a description in words, `TEXT_OF_PREVIEW`, and the height of its title in pixels, `TITLE_OF_PREVIEW`.
    """
    window = map_window(field)
    width, height = map_size(window)
    scale = min(_PREVIEW_WIDTH / width, _PREVIEW_MAP_HEIGHT / height)
    bar_height, title_height = _PREVIEW_BAR_HEIGHT / _PREVIEW_DPI, _PREVIEW_TITLE_HEIGHT / _PREVIEW_DPI
    width, height = round(width * scale) / _PREVIEW_DPI, round(height * scale) / _PREVIEW_DPI
    whole = bar_height + height + title_height
    figure = new_figure(_PREVIEW_WIDTH / _PREVIEW_DPI, whole, dpi=_PREVIEW_DPI)
    below = f"{field.when}: {_range_text(field)}"
    print_title(figure, 0.08, field.title, below, scale=_TITLE_SCALE)
    axes = add_axes(figure, (_PREVIEW_WIDTH / _PREVIEW_DPI - width) / 2, bar_height, width, height)
    colours = colour_scale(field.variable, field.values, is_difference=field.is_difference, period=field.period)
    image = draw_plate_carree(axes, field, window, colours, line_width=0.4, is_small=True)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_linewidth(0.3)
    bar_axes = add_axes(figure, 0.25, 0.18, 2.85, 0.07)
    draw_colour_bar(figure, image, field.values, bar_axes, "horizontal", label_size=6)
    if not isinstance(image.norm, BoundaryNorm):
        bar_axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    unit = with_power(style_of(field.variable).unit, colour_bar_power(image))
    # A long unit is printed small, to fit beside the bar.
    size = min(6.0, 48.0 / max(len(unit), 1))
    figure.text(0.885, 0.17 / whole, unit, fontsize=size, color=INK)
    return _compressed_png(figure, f"{field.title}, {below}")


def _range_text(field: FieldMap) -> str:
    """The lowest and the highest value with the unit: "3.1 to 29.4 °C"."""
    found = field.values[np.isfinite(field.values)]
    if not found.size:
        return "no values"
    least, greatest = float(found.min()), float(found.max())
    power = power_of(max(abs(least), abs(greatest)))
    return f"{_short(least, power)} to {_short(greatest, power)} {unit_of_hour(field.variable, power)}".strip()


def _short(value: float, power: int) -> str:
    divided = value / 10.0**power
    return number_text(float(f"{divided:.3g}") if abs(divided) < 1000 else round(divided))


def _compressed_png(figure: Figure, words: str) -> bytes:
    info = PngInfo()
    info.add_text(TEXT_OF_PREVIEW, words)
    info.add_text(TITLE_OF_PREVIEW, str(_PREVIEW_TITLE_HEIGHT))
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
