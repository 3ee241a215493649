"""Axes that the pictures of a climate share: sizes, grid, years, months, and the colours of what is drawn.

A figure is drawn for a width in inches: `WIDE` for a desk, `NARROW` for a phone. Letters have the same size on both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker

from era5_pipeline.query.plots.figures import add_axes, new_figure
from era5_pipeline.query.plots.variable_styles import FAINT, INK, number_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches.
WIDE, NARROW = 7.6, 3.7
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.58, 0.12, 0.34, 0.12
_LEGEND = 0.26
_INCHES_PER_YEAR_LABEL = 0.62
_INCHES_PER_MONTH_LABEL = 0.34

LETTERS = 8.5  # points
WARM, COLD, RAIN, MEAN = "#c0392b", "#2c6fad", "#1d6fa5", "#7a7a7a"
BAND, EXTREMES = "#9db7cc", "#d7e1ea"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def is_wide(width: float) -> bool:
    """Whether a figure of this width (inches) has space for words side by side."""
    return width > (WIDE + NARROW) / 2


def new_panel(width: float, height: float, *, legend_lines: int = 1) -> tuple[Figure, Axes]:
    """A figure of this size (inches) with one panel, below so many lines of a legend."""
    figure = new_figure(width, height)
    top = _TOP + _LEGEND * legend_lines
    axes = add_axes(figure, _LEFT, _BOTTOM, width - _LEFT - _RIGHT, height - _BOTTOM - top)
    style_panel(axes)
    return figure, axes


def style_panel(axes: Axes) -> None:
    """Draw a horizontal grid, thin axes and small letters."""
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=FAINT, alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=LETTERS, width=0.5, length=3, colors=INK)
    axes.spines[["right", "top"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)
        spine.set_color(FAINT)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number_text(value)))


def mark_generated(figure: Figure) -> None:
    """Write across a figure, over what it draws, that its data are generated."""
    figure.text(
        0.5, 0.5, "generated, not ERA5", fontsize=16, color=FAINT, alpha=0.6, ha="center", va="center", zorder=9
    )


def name_unit(axes: Axes, unit: str) -> None:
    """Print the unit of the vertical axis."""
    axes.set_ylabel(unit, fontsize=LETTERS, color=INK, labelpad=3)


def print_legend(axes: Axes, columns: int) -> None:
    """Print the legend above the axes, from the left."""
    legend = axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        fontsize=LETTERS,
        frameon=False,
        ncols=columns,
        borderaxespad=0.15,
        handlelength=1.4,
        columnspacing=1.2,
        labelcolor=INK,
        labelspacing=0.35,
    )
    legend.set_zorder(5)


def columns_of_legend(axes: Axes) -> int:
    """How many words of a legend stand side by side in axes of this width."""
    return 4 if is_wide(_inches(axes)) else 2


def draw_bars(axes: Axes, pairs: Sequence[tuple[int, float]], colours: str | Sequence[str], name: str = "year") -> None:
    """Draw a bar for each year and value; the gid of each is `name-1994`."""
    years = [year for year, _ in pairs]
    bars = axes.bar(years, [value for _, value in pairs], width=0.82, color=colours, zorder=2)
    for year, bar in zip(years, bars, strict=True):
        bar.set_gid(f"{name}-{year}")


def year_axis(axes: Axes, first: int, last: int) -> None:
    """Label years from first to last, each the middle of its bar."""
    most = max(int(_inches(axes) / _INCHES_PER_YEAR_LABEL), 2)
    steps = (1, 2, 5, 10, 20, 25, 50)
    step = next((step for step in steps if (last - first) / step <= most), steps[-1])
    axes.set_xticks(np.arange(-(-first // step) * step, last + 1, step))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlim(first - 0.6, last + 0.6)


def month_axis(axes: Axes, starts: list[float]) -> None:
    """Label months: `starts` are the places of the first day of each, and of what follows the last."""
    middles = [(begin + end) / 2 for begin, end in pairwise(starts)]
    short = _inches(axes) / 12 < _INCHES_PER_MONTH_LABEL
    axes.set_xticks(starts, labels=[""] * len(starts))
    axes.set_xticks(middles, labels=[name[:1] if short else name for name in _MONTHS], minor=True)
    axes.tick_params(axis="x", which="minor", length=0, labelsize=LETTERS, colors=INK, pad=3.5)
    axes.set_xlim(starts[0], starts[-1])


def month_name(number: int) -> str:
    """A month, 1 to 12, in three letters."""
    return _MONTHS[number - 1]


def _inches(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    return float(axes.get_position().width * (figure.get_size_inches()[0] if figure else WIDE))
