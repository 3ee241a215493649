"""Pictures of what `query` reads: maps, series and small previews, as PNG.

Here: how each variable looks, and the layout of a figure. Not here: reading data, or deciding what to draw.

Figures are matplotlib's `Figure` on the Agg canvas, without pyplot: no display and no global state, so
several threads may draw at once. The functions that end in `_figure` build one; the others save it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
import numpy as np
from matplotlib import dates, ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from PIL import Image

from era5_pipeline.atomic import replacing
from era5_pipeline.coastlines import coastlines
from era5_pipeline.grid import N_LONGITUDES, STEP_DEGREES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from era5_pipeline.grid import Location
    from era5_pipeline.query import Series, Snapshot
    from era5_pipeline.variables import Variable

    FloatArray = npt.NDArray[np.float32]
    TimeArray = npt.NDArray[np.datetime64]

Scale = Literal["thermal", "symmetric", "fraction", "amount"]
Period = Literal["h", "D", "M", "Y"]
Extend = Literal["neither", "min", "max", "both"]
Window = tuple[float, float, float, float]  # west, east, south, north in degrees


@dataclass(frozen=True)
class _Look:
    """How a variable is drawn: title, unit, kind of colour scale and its colours, colour of lines."""

    title: str
    unit: str
    scale: Scale
    colours: str | tuple[str, ...]
    line: str


_LOOKS = {
    "temperature_2m": _Look("2 m temperature", "°C", "thermal", "RdBu_r", "#b2182b"),
    "zonal_wind_10m": _Look("10 m wind, eastward", "m s⁻¹", "symmetric", "PuOr_r", "#b35806"),
    "meridional_wind_10m": _Look("10 m wind, northward", "m s⁻¹", "symmetric", "PuOr_r", "#542788"),
    "total_cloud_cover": _Look(
        title="Total cloud cover",
        unit="fraction",
        scale="fraction",
        colours=("#3f6490", "#7391b1", "#adc2d4", "#e0e7ee", "#ffffff"),
        line="#46698e",
    ),
    "total_precipitation": _Look(
        title="Precipitation",
        unit="mm",
        scale="amount",
        colours=("#d9f0c8", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#5e3c99", "#b02a8f"),
        line="#1d6fa5",
    ),
    "snowfall": _Look(
        title="Snowfall, water equivalent",
        unit="mm",
        scale="amount",
        colours=("#dfe5f2", "#b3cde3", "#8c96c6", "#8856a7", "#9e1f86", "#e7298a", "#f7a1c4"),
        line="#6f4a9b",
    ),
}
# Where all values lie on one side of freezing, a scale about 0 would use half of its colours.
_ABOVE_FREEZING, _BELOW_FREEZING = "YlOrRd", "YlGnBu_r"
# A colormap's ends are too dark for coastlines to show on them.
_BRIGHTER = (0.07, 0.93)
# Steps of an hourly amount in mm, each with its own colour on every map. The first, white, counts as dry.
_AMOUNTS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FEWEST_AMOUNTS = 5

_NO_DATA = "#e4e4e4"
_INK, _FAINT = "#1a1a1a", "#707070"
_DPI = 160

# All lengths in inches.
_MAP_WIDEST, _MAP_TALLEST = 9.0, 6.5
_MAP_NARROWEST_FIGURE = 5.0
_MAP_LEFT, _MAP_RIGHT, _MAP_TOP, _MAP_BOTTOM = 0.75, 0.45, 0.85, 0.4
_BAR_THICKNESS, _BAR_GAP, _BAR_LABELS = 0.16, 0.42, 0.45
_TICK_SPACING = 0.7
_SERIES_WIDTH = 10.0
_SERIES_LEFT, _SERIES_RIGHT, _SERIES_BOTTOM = 0.85, 0.3, 0.85
# Degrees: a single point is shown with some coast around it. And no map is a mere strip, or many times as
# tall as wide.
_SMALLEST_WINDOW = 2.0
_WIDEST_RATIO = 2.6
_HIGHEST_STRETCH = 4.0

_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT = 360, 270, 30  # pixels
_PREVIEW_DPI = 100
_PREVIEW_BYTES = 40_000

_LABELS = {
    "h": ("hourly", "hour"),
    "D": ("daily mean", "day"),
    "M": ("monthly mean", "month"),
    "Y": ("yearly mean", "year"),
}
# The longest series for which each pair of periods is drawn: the finer one thin, the coarser one bold.
_TIERS: tuple[tuple[np.timedelta64, Period, Period], ...] = (
    (np.timedelta64(10, "D"), "h", "h"),
    (np.timedelta64(3 * 366, "D"), "h", "D"),
    (np.timedelta64(30 * 366, "D"), "D", "M"),
)
_LONGEST_TIER: tuple[Period, Period] = ("M", "Y")
# A mean or a total of fewer hours than this part would tell of the hours that happen to be there.
_ENOUGH = 0.75


def map_figure(snapshot: Snapshot, *, credit: str = "") -> Figure:
    """Draw a snapshot as a map: cells, coastlines, colour bar, degrees, and the valid time in UTC above.

    Cells without a value are grey. The figure is 5 to 11 inches wide, as the area's shape asks for; `credit`
    is printed small at its foot.
    """
    look = _LOOKS[snapshot.variable.column]
    window = _window(snapshot)
    width, height = _map_size(window)
    is_wide = width >= 1.2 * height
    bottom = _MAP_BOTTOM + (_BAR_GAP + _BAR_THICKNESS + _BAR_LABELS if is_wide else 0.3)
    right = _MAP_RIGHT if is_wide else 1.1 + _BAR_THICKNESS
    # A narrow map still needs room for its title.
    size = (max(_MAP_LEFT + width + right, _MAP_NARROWEST_FIGURE), bottom + height + _MAP_TOP)
    figure = _figure(*size)
    axes = _axes(figure, _MAP_LEFT, bottom, width, height)
    image = _draw_map(axes, snapshot, window, line_width=0.6)
    _degree_axes(axes, window, width, height)
    if is_wide:
        bar_bottom = bottom - _BAR_GAP - _BAR_THICKNESS
        bar_axes = _axes(figure, _MAP_LEFT + 0.2 * width, bar_bottom, 0.6 * width, _BAR_THICKNESS)
    else:
        bar_axes = _axes(figure, _MAP_LEFT + width + 0.2, bottom + 0.1 * height, _BAR_THICKNESS, 0.8 * height)
    _colour_bar(figure, image, bar_axes, "horizontal" if is_wide else "vertical")
    axis = bar_axes.xaxis if is_wide else bar_axes.yaxis
    is_amount = snapshot.variable.step_type == "accum"
    axis.set_label_text(f"{look.unit} in the hour before" if is_amount else look.unit, color=_INK, fontsize=9)
    _title(figure, _MAP_LEFT, look.title, f"{snapshot.time.astimezone(UTC):%a %d %b %Y, %H:%M} UTC")
    _credit(figure, _MAP_LEFT, credit)
    return figure


def plot_map(snapshot: Snapshot, path: Path, *, credit: str = "") -> None:
    """Write `map_figure` to `path` as PNG, whole or not at all.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    _save(map_figure(snapshot, credit=credit), path)


def preview_map(snapshot: Snapshot) -> bytes:
    """Draw a snapshot small, with a colour bar but no title: PNG, 360 pixels wide, under 40 kB."""
    window = _window(snapshot)
    width, height = _map_size(window)
    scale = min(_PREVIEW_WIDTH / width, _PREVIEW_MAP_HEIGHT / height)
    bar_height = _PREVIEW_BAR_HEIGHT / _PREVIEW_DPI
    width, height = round(width * scale) / _PREVIEW_DPI, round(height * scale) / _PREVIEW_DPI
    figure = _figure(_PREVIEW_WIDTH / _PREVIEW_DPI, bar_height + height, dpi=_PREVIEW_DPI)
    axes = _axes(figure, (_PREVIEW_WIDTH / _PREVIEW_DPI - width) / 2, bar_height, width, height)
    image = _draw_map(axes, snapshot, window, line_width=0.4, is_small=True)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_linewidth(0.3)
    bar_axes = _axes(figure, 0.25, 0.18, 2.85, 0.07)
    _colour_bar(figure, image, bar_axes, "horizontal", label_size=6)
    if not isinstance(image.norm, BoundaryNorm):
        bar_axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    figure.text(0.885, 0.17 / (bar_height + height), _LOOKS[snapshot.variable.column].unit, fontsize=6, color=_INK)
    return _small_png(figure)


def series_figure(series: Series, variables: tuple[Variable, ...], location: Location, *, credit: str = "") -> Figure:
    """Draw a location's series, one panel per variable, below one another on the same time axis.

    Up to ten days are drawn hour by hour; longer ones have the hours thin and their daily means bold, and
    beyond 3 years days and months, beyond 30 years months and years. Of amounts (mm), the totals of the
    coarser period are drawn as bars. A mean or total needs three quarters of its hours (which then speak for
    the rest); lines break where hours are missing. `credit` is printed small at the foot.
    """
    is_single = len(variables) == 1
    panel, gap, top = (3.1, 0.0, 0.85) if is_single else (1.8, 0.34, 1.05)
    height = top + _SERIES_BOTTOM + len(variables) * panel + (len(variables) - 1) * gap
    figure = _figure(_SERIES_WIDTH, height)
    for number, variable in enumerate(reversed(variables)):
        axes = _axes(
            figure,
            _SERIES_LEFT,
            _SERIES_BOTTOM + number * (panel + gap),
            _SERIES_WIDTH - _SERIES_LEFT - _SERIES_RIGHT,
            panel,
        )
        _draw_series(axes, series.times, series.values[variable.column], variable)
        _time_axis(axes, series.times, is_lowest=number == 0)
        is_highest = number == len(variables) - 1
        if not is_single:
            axes.set_title(_LOOKS[variable.column].title, fontsize=9, loc="left", color=_INK, pad=4)
        if is_highest and axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, frameon=False, ncols=2)
    title = _LOOKS[variables[0].column].title if is_single else "Weather"
    place = f"{latitude_label(location.latitude)} {longitude_label(location.longitude)}"
    _title(figure, _SERIES_LEFT, f"{title} at {place}", _time_span(series.times))
    _credit(figure, _SERIES_LEFT, credit)
    return figure


def plot_series(
    series: Series,
    variable: Variable | tuple[Variable, ...],
    location: Location,
    path: Path,
    *,
    credit: str = "",
) -> None:
    """Write `series_figure` of one variable, or several, to `path` as PNG, whole or not at all.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    variables = variable if isinstance(variable, tuple) else (variable,)
    _save(series_figure(series, variables, location, credit=credit), path)


def longitude_label(degrees: float) -> str:
    """Name a longitude of any turn: `106.5°E`, `170°W` (of 190), `180°`."""
    degrees = (round(degrees, 4) + 180.0) % 360.0 - 180.0
    if degrees in {0.0, -180.0}:
        return f"{abs(degrees):g}°"
    return f"{abs(degrees):g}°{'E' if degrees > 0 else 'W'}"


def latitude_label(degrees: float) -> str:
    """Name a latitude: `6.25°S`, `0°`, `25.5°N`."""
    degrees = round(degrees, 4)
    if degrees == 0.0:
        return "0°"
    return f"{abs(degrees):g}°{'N' if degrees > 0 else 'S'}"


def _figure(width: float, height: float, dpi: float = _DPI) -> Figure:
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a place given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _title(figure: Figure, left: float, title: str, below: str) -> None:
    """Print two lines at the top, both beginning where the axes begin (`left`, inches)."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - 0.42 / height, title, fontsize=13, fontweight="bold", color=_INK)
    figure.text(left / width, 1 - 0.66 / height, below, fontsize=9.5, color=_FAINT)


def _credit(figure: Figure, left: float, credit: str) -> None:
    width, height = figure.get_size_inches()
    figure.text(left / width, 0.12 / height, credit, fontsize=6.5, color=_FAINT)


def _save(figure: Figure, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": "era5-pipeline"})


def _small_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    picture = Image.open(file).convert("RGB")
    # All colours where they fit. Else as many as fit: a noisy field needs fewer to stay small, down to 3 bits
    # a pixel.
    for colours in (None, 256, 128, 64, 32, 16, 8):
        file = io.BytesIO()
        # Colours are chosen by how far they are apart, not by how often they occur, or the colour bar would
        # lose its.
        reduced = picture.quantize(colours, Image.Quantize.MAXCOVERAGE) if colours else picture
        reduced.save(file, "png", optimize=True)
        if file.tell() < _PREVIEW_BYTES:
            break
    return file.getvalue()


def _window(snapshot: Snapshot) -> Window:
    """Find what the map shows: the cells, and more around a very small or very long area."""
    half = STEP_DEGREES / 2
    west, east = float(snapshot.longitudes[0]) - half, float(snapshot.longitudes[-1]) + half
    south, north = (
        max(float(snapshot.latitudes[0]) - half, -90.0),
        min(float(snapshot.latitudes[-1]) + half, 90.0),
    )
    if len(snapshot.longitudes) == N_LONGITUDES:
        # From one antimeridian to the other, not from half a cell east of it.
        west, east = west - half, east - half
    stretch = _stretch(south, north)
    tall = max(north - south, _SMALLEST_WINDOW, (east - west) / stretch / _WIDEST_RATIO)
    south, north = _widened(south, north, tall)
    # Beyond a pole there is nothing to show; the widening stops there.
    south, north = max(south - max(north - 90.0, 0.0), -90.0), min(north + max(-90.0 - south, 0.0), 90.0)
    wide = min(max(east - west, _SMALLEST_WINDOW * stretch, tall * stretch / _WIDEST_RATIO), 360.0)
    west, east = _widened(west, east, wide)
    return west, east, south, north


def _widened(low: float, high: float, length: float) -> tuple[float, float]:
    """Widen a range on both sides to at least `length`."""
    extra = max(length - (high - low), 0.0) / 2
    return low - extra, high + extra


def _stretch(south: float, north: float) -> float:
    """Give how many times longer a degree of latitude is drawn than one of longitude."""
    return min(1.0 / max(float(np.cos(np.deg2rad((south + north) / 2))), 1e-6), _HIGHEST_STRETCH)


def _map_size(window: Window) -> tuple[float, float]:
    """Give the width and height of the map, in inches."""
    west, east, south, north = window
    ratio = (east - west) / ((north - south) * _stretch(south, north))
    if ratio * _MAP_TALLEST >= _MAP_WIDEST:
        return _MAP_WIDEST, _MAP_WIDEST / ratio
    return _MAP_TALLEST * ratio, _MAP_TALLEST


def _draw_map(
    axes: Axes, snapshot: Snapshot, window: Window, *, line_width: float, is_small: bool = False
) -> AxesImage:
    """Draw cells and coastlines; `is_small` averages cells that share a pixel."""
    west, east, south, north = window
    half = STEP_DEGREES / 2
    values = snapshot.values
    first, last = float(snapshot.longitudes[0]) - half, float(snapshot.longitudes[-1]) + half
    if len(snapshot.longitudes) == N_LONGITUDES:
        # The window's borders halve one column of cells: one half is drawn at each side.
        values = np.concatenate([values[:, -1:], values], axis=1)
        first -= STEP_DEGREES
    colours, norm = _colours(snapshot.variable, snapshot.values)
    axes.set_facecolor(_NO_DATA)
    # All cells are equal, so an image shows the same as a mesh of a million quadrilaterals, and is drawn much
    # faster.
    image = axes.imshow(
        np.ma.masked_invalid(values),
        extent=(first, last, float(snapshot.latitudes[0]) - half, float(snapshot.latitudes[-1]) + half),
        origin="lower",
        interpolation="auto" if is_small else "nearest",
        aspect="auto",
        cmap=colours,
        norm=norm,
    )
    if not np.isfinite(snapshot.values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=_FAINT)
    lines = coastlines(west, east, south, north)
    # A pale seam below the line keeps it visible on dark colours.
    for colour, width, alpha in (("white", 3 * line_width, 0.3), (_INK, line_width, 1.0)):
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, alpha=alpha), autolim=False)
    axes.set_xlim(west, east)
    axes.set_ylim(south, north)
    return image


def _colours(variable: Variable, values: FloatArray) -> tuple[Colormap, Normalize]:
    """Choose colours, and a range of values (of any shape) beyond which a few outliers may lie."""
    look = _LOOKS[variable.column]
    found = values[np.isfinite(values)]
    if not found.size:
        found = np.zeros(1, dtype=np.float32)
    match look.scale:
        case "fraction":
            return _colormap(look.colours), Normalize(0.0, 1.0)
        case "amount":
            return _amount_colours(look, float(found.max()))
        case "symmetric":
            limit = _round_limit(float(np.percentile(np.abs(found), 99.8)))
            return _colormap(look.colours), Normalize(-limit, limit)
        case "thermal":
            low, high = (float(value) for value in np.percentile(found, (0.2, 99.8)))
            if min(-low, high) > 0.1 * (high - low):
                limit = _round_limit(max(-low, high))
                return _colormap(look.colours), Normalize(-limit, limit)
            low, high = _round_range(low, high)
            return _colormap(_ABOVE_FREEZING if low + high > 0.0 else _BELOW_FREEZING), Normalize(low, high)


def _colormap(colours: str | tuple[str, ...]) -> Colormap:
    if isinstance(colours, str):
        return ListedColormap(mpl.colormaps[colours](np.linspace(*_BRIGHTER, 256)))
    return LinearSegmentedColormap.from_list("look", colours)


def _amount_colours(look: _Look, top: float) -> tuple[Colormap, Normalize]:
    """Choose white for dry and then one colour per step, as many steps as `top` (mm) needs."""
    all_colours = _colormap(look.colours)(np.linspace(0.0, 1.0, len(_AMOUNTS) - 1))
    count = next((n for n in range(_FEWEST_AMOUNTS, len(_AMOUNTS)) if _AMOUNTS[n - 1] >= top), len(_AMOUNTS))
    drawn = ListedColormap([(1.0, 1.0, 1.0, 1.0), *all_colours[: count - 2]])
    # Packed files dip below zero by half a step.
    extremes = drawn.with_extremes(under="white", over=tuple(all_colours[-1]))
    return extremes, BoundaryNorm(_AMOUNTS[:count], count - 1)


def _round_limit(limit: float) -> float:
    return _round_range(0.0, max(limit, 1.0))[1]


def _round_range(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round numbers, and to 1 at least."""
    edges = ticker.MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(*_widened(low, high, 1.0))
    return float(edges[0]), float(edges[-1])


def _colour_bar(
    figure: Figure,
    image: AxesImage,
    axes: Axes,
    orientation: Literal["horizontal", "vertical"],
    label_size: float = 8,
) -> None:
    bar = figure.colorbar(image, cax=axes, orientation=orientation, extend=_extend(image))
    bar.outline.set_linewidth(0.5)
    axes.tick_params(which="both", labelsize=label_size, width=0.5, length=label_size / 3, pad=2, colors=_INK)
    if isinstance(image.norm, BoundaryNorm):
        bar.set_ticks(list(image.norm.boundaries), labels=[f"{edge:g}" for edge in image.norm.boundaries])


def _extend(image: AxesImage) -> Extend:
    """Tell which ends of the colour bar are pointed: those beyond which there are values."""
    values = image.get_array()
    if values is None or not np.ma.count(values):
        return "neither"
    low, high = image.get_clim()
    # Not for the half step by which packed files leave 0 to 1, and dip below an amount of 0.
    above = float(values.max()) > high + 0.002
    below = float(values.min()) < low - 0.002 and not isinstance(image.norm, BoundaryNorm)
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
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=_INK)
    axes.grid(color=_INK, alpha=0.15, linewidth=0.4)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)


def _degree_step(length: float, most: float) -> float:
    """Choose the degrees between ticks, so that there are at most `most` intervals."""
    steps = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0)
    return next((step for step in steps if length / step <= most), steps[-1])


def _draw_series(axes: Axes, times: TimeArray, values: FloatArray, variable: Variable) -> None:
    look = _LOOKS[variable.column]
    tiers = ((fine, coarse) for longest, fine, coarse in _TIERS if times[-1] - times[0] <= longest)
    fine, coarse = next(tiers, _LONGEST_TIER)
    axes.set_axisbelow(True)
    axes.grid(color=_INK, alpha=0.12, linewidth=0.5)
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=_INK)
    axes.spines[["right", "top"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    unit = look.unit
    if variable.step_type == "accum":
        unit = f"{look.unit} per {_LABELS[coarse][1]}"
        _draw_totals(axes, times, values, look.line, coarse)
    elif fine == coarse:
        _draw_line(axes, times, values, fine, look.line, width=1.4)
    else:
        _draw_line(axes, times, values, fine, look.line, width=0.5, alpha=0.45, label=_LABELS[fine][0])
        _draw_line(axes, times, values, coarse, look.line, width=1.5, label=_LABELS[coarse][0])
    axes.set_ylabel(unit, fontsize=9, color=_INK)
    if look.scale == "symmetric":
        axes.axhline(0.0, color=_FAINT, linewidth=0.6, zorder=1)
    if look.scale == "fraction":
        axes.set_ylim(-0.02, 1.02)
    if not np.isfinite(values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=_FAINT)


def _draw_line(
    axes: Axes,
    times: TimeArray,
    values: FloatArray,
    period: Period,
    colour: str,
    *,
    width: float,
    alpha: float = 1.0,
    label: str = "",
) -> None:
    """Draw the means of periods as a line, at their middles; one without neighbours as a dot."""
    starts, means = _means(times, values, period)
    begin, end = _seconds(starts), _seconds(starts + 1)
    at = begin if period == "h" else begin + (end - begin) // 2
    is_there = np.concatenate(([False], np.isfinite(means), [False]))
    alone = is_there[1:-1] & ~is_there[:-2] & ~is_there[2:]
    axes.plot(at[alone], means[alone], ".", color=colour, alpha=alpha, markersize=4 * width)
    for piece in _pieces(len(at)):
        axes.plot(at[piece], means[piece], color=colour, linewidth=width, alpha=alpha, label=label)
        label = ""


def _pieces(count: int) -> Iterator[slice]:
    """Cut a line of `count` points into pieces that join: Agg may refuse a noisy one that is longer."""
    for start in range(0, max(count - 1, 1), 20_000):
        yield slice(start, start + 20_001)


def _draw_totals(axes: Axes, times: TimeArray, values: FloatArray, colour: str, period: Period) -> None:
    """Draw the totals of periods as bars as wide as the periods."""
    # An amount stamped 00:00 fell in the hour before, so it belongs to the day, or month, before.
    starts, means = _means(times - np.timedelta64(1, "h"), values, period)
    totals = np.nan_to_num(means) * _hours(starts)
    begin, end = _seconds(starts), _seconds(starts + 1)
    # Bars of years and months are apart by a seam; those of a year's days are too thin for one.
    seam = 0.3 if len(starts) < 200 else 0.0
    axes.bar(
        begin,
        totals,
        width=end - begin,
        align="edge",
        color=colour,
        edgecolor="white",
        linewidth=seam,
        zorder=2,
    )
    axes.set_ylim(0.0, max(float(totals.max()) * 1.08, 0.1))


def _means(times: TimeArray, values: FloatArray, period: Period) -> tuple[TimeArray, npt.NDArray[np.float64]]:
    """Give every period from first to last (k,), and its mean (k,), NaN where too many hours are missing."""
    periods = times.astype(f"datetime64[{period}]")
    number = (periods - periods[0]).astype(np.int64)
    starts = periods[0] + np.arange(int(number[-1]) + 1)
    is_there = np.isfinite(values)
    counts = np.bincount(number[is_there], minlength=len(starts))
    sums = np.bincount(number[is_there], weights=values[is_there].astype(np.float64), minlength=len(starts))
    means = np.full(len(starts), np.nan)
    np.divide(sums, counts, out=means, where=counts >= _ENOUGH * _hours(starts))
    return starts, means


def _hours(starts: TimeArray) -> npt.NDArray[np.int64]:
    return (_seconds(starts + 1) - _seconds(starts)).astype(np.int64) // 3600


def _seconds(times: TimeArray) -> TimeArray:
    return times.astype("datetime64[s]")


def _time_axis(axes: Axes, times: TimeArray, *, is_lowest: bool) -> None:
    locator = dates.AutoDateLocator(tz=UTC, minticks=5, maxticks=10)  # type: ignore[no-untyped-call]
    # The subtitle gives the dates, so there is no need for the offset that repeats the last of them.
    formatter = dates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, show_offset=False, zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    # An hour at least, in which the first hour's amount fell.
    margin = np.maximum((times[-1] - times[0]) // 100, np.timedelta64(3600, "s"))
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    axes.tick_params(labelbottom=is_lowest)
    if is_lowest:
        axes.set_xlabel("Time (UTC)", fontsize=9, color=_INK)


def _time_span(times: TimeArray) -> str:
    first, last = (time.astype("datetime64[s]").item() for time in (times[0], times[-1]))
    if times[-1] - times[0] > _TIERS[0][0]:
        return f"{first:%d %b %Y} to {last:%d %b %Y}"
    texts = dict.fromkeys(f"{time:%d %b %Y, %H:%M}" for time in (first, last))
    return f"{' to '.join(texts)} UTC"
