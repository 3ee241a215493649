"""The small map in Dagster's web UI: plate carree, a colour bar, no title, few bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib import ticker
from matplotlib.colors import BoundaryNorm
from PIL import Image

from era5_pipeline.query.plots.colour_scales import colour_scale
from era5_pipeline.query.plots.figures import add_axes, new_figure
from era5_pipeline.query.plots.map_parts.colour_bar import draw_colour_bar, power_of_bar
from era5_pipeline.query.plots.map_parts.plate_carree import draw_plate_carree
from era5_pipeline.query.plots.map_windows import map_size, map_window
from era5_pipeline.query.plots.variable_styles import INK, style_of, with_power

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.query.maps.field_map import FieldMap

_PREVIEW_WIDTH, _PREVIEW_MAP_HEIGHT, _PREVIEW_BAR_HEIGHT = 360, 270, 30  # pixels
_PREVIEW_DPI = 100
_PREVIEW_BYTES = 40_000


def preview_map(field: FieldMap) -> bytes:
    """A small map with a colour bar and no title: PNG, 360 pixels wide, under 40 kB."""
    window = map_window(field)
    width, height = map_size(window)
    scale = min(_PREVIEW_WIDTH / width, _PREVIEW_MAP_HEIGHT / height)
    bar_height = _PREVIEW_BAR_HEIGHT / _PREVIEW_DPI
    width, height = round(width * scale) / _PREVIEW_DPI, round(height * scale) / _PREVIEW_DPI
    figure = new_figure(_PREVIEW_WIDTH / _PREVIEW_DPI, bar_height + height, dpi=_PREVIEW_DPI)
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
