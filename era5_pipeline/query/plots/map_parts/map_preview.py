"""The small map in Dagster's web UI: plate carree, a title, a colour bar, few bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker
from matplotlib.colors import BoundaryNorm
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from era5_pipeline.query.plots.colour_scales import colour_scale
from era5_pipeline.query.plots.figures import add_axes, new_figure, print_title
from era5_pipeline.query.plots.map_parts.colour_bar import draw_colour_bar, power_of_bar
from era5_pipeline.query.plots.map_parts.plate_carree import draw_plate_carree
from era5_pipeline.query.plots.map_windows import map_size, map_window
from era5_pipeline.query.plots.variable_styles import (
    INK,
    number_text,
    power_of,
    style_of,
    unit_of_hour,
    with_power,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.query.maps.field_map import FieldMap

# Keywords of texts in the preview's PNG file: what it shows in words, and the height of its title in pixels.
TEXT_OF_PREVIEW, TITLE_OF_PREVIEW = "Description", "Title height"
_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT, _PREVIEW_TITLE_HEIGHT = 360, 270, 30, 50  # pixels
_PREVIEW_DPI = 100
_TITLE_SCALE = 0.65
_PREVIEW_BYTES = 40_000


def preview_map(field: FieldMap) -> bytes:
    """A small map with its title and a colour bar: PNG, 360 pixels wide, under 40 kB.

    The file says in words what it shows, and how many pixels high its title is: `TEXT_OF_PREVIEW`, `TITLE_OF_PREVIEW`.
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
    unit = with_power(style_of(field.variable).unit, power_of_bar(image))
    # A long unit is small, so that it fits beside the bar.
    size = min(6.0, 48.0 / max(len(unit), 1))
    figure.text(0.885, 0.17 / whole, unit, fontsize=size, color=INK)
    return _compressed_png(figure, f"{field.title}, {below}")


def _range_text(field: FieldMap) -> str:
    """The least and the greatest value with the unit: "3.1 to 29.4 °C"."""
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
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    picture = Image.open(file).convert("RGB")
    # All colours if the file is small enough; otherwise as many as possible, for a noisy field down to 3 bits a pixel.
    for colours in (None, 256, 128, 64, 32, 16, 8):
        file = io.BytesIO()
        # MAXCOVERAGE chooses colours by their distance, not their frequency, and so keeps those of the colour bar.
        reduced = picture.quantize(colours, Image.Quantize.MAXCOVERAGE) if colours else picture
        reduced.save(file, "png", optimize=True, pnginfo=info)
        if file.tell() < _PREVIEW_BYTES:
            break
    return file.getvalue()
