"""What all charts of results share: colours, the frame, rates on an axis."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter
from PIL import Image

from era5_pipeline.bench.report.number_words import rows_per_second
from era5_pipeline.query.plots.figures import add_axes, new_figure, print_title
from era5_pipeline.query.plots.variable_styles import FAINT, INK
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ours is the one warm colour; tables are told apart by depth.
OURS = "#c8471b"
COLOURS = {"regular": "#2b6ca3", "hypertable": "#9cc3e0"}
OUR_COLOURS = {"regular": OURS, "hypertable": "#efb08f"}
METHOD_COLOURS = {"psycopg rows": "#2b6ca3", "pandas CSV + COPY": "#6a9a4b", "our loader": OURS}
OUR_METHODS = ("our loader", "era5-pipeline")
WIDTH = 8.0
_DPI = 110
_PALETTE = 128
_RIGHT, _TOP, _BOTTOM = 0.75, 0.95, 0.75


def chart(title: str, below: str, *, height: float, left: float, legend: float = 0.0) -> tuple[Figure, Axes]:
    """A figure with a title, and axes of `height` inches that begin `left` inches from the border.

    `legend`: inches to leave above the axes for a legend.
    """
    figure = new_figure(WIDTH, height + _TOP + legend + _BOTTOM, _DPI)
    axes = add_axes(figure, left, _BOTTOM, WIDTH - left - _RIGHT, height)
    print_title(figure, 0.2, title, below)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def save_chart(figure: Figure, path: Path) -> None:
    """Write the chart as a PNG of few colours, a third of the size; the same chart gives the same bytes."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": "era5-pipeline"})
    with Image.open(drawn) as image, replacing(path) as temporary:
        image.convert("RGB").quantize(_PALETTE, method=Image.Quantize.MAXCOVERAGE).save(
            temporary, format="PNG", optimize=True
        )


def rates_on(axis: object) -> None:
    """Write the numbers of an axis (`axes.xaxis`) as rates."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: rows_per_second(value) if value > 0 else "0"))  # type: ignore[attr-defined]


def is_ours(name: str) -> bool:
    """Whether a method is this project's own."""
    return name.startswith(OUR_METHODS)
