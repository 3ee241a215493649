"""Common parts of the figures of a climate answer: sizes, grid, years, colours, and the labels to draw."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker

from era5_pipeline.climate.answer import BY_QUANTITY, complete_values
from era5_pipeline.draw.figures import add_axes, new_figure
from era5_pipeline.maps.styles import FAINT, INK, axis_label, number_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.climate.answer import ClimateAnswer, Trend

    FloatArray = npt.NDArray[np.float64]

# The name of the band between the edges of a `TrendLine`.
BAND_WORDS = "95 % confidence band of the fitted mean"
# With fewer complete years, a difference from their own mean says hardly more than what the mean is made of.
FEWEST_YEARS_OF_STRIPES = 4


@dataclass(frozen=True, eq=False)
class DrawnYears:
    """Every year from the first to the last of the record, (k,), with a value: NaN for an incomplete year.

    The incomplete years at either end are left out.
    """

    years: npt.NDArray[np.int64]
    values: FloatArray

    @property
    def count(self) -> int:
        """The number of complete years."""
        return int(np.isfinite(self.values).sum())

    @property
    def mean(self) -> float:
        """The mean of the complete years."""
        return float(np.nanmean(self.values))

    def within(self, first: int, last: int) -> DrawnYears:
        """The years from `first` to `last`."""
        keep = (self.years >= first) & (self.years <= last)
        return DrawnYears(self.years[keep], self.values[keep])

    def pairs(self) -> list[tuple[int, float]]:
        """The complete years with their values."""
        return [
            (int(year), float(value)) for year, value in zip(self.years, self.values, strict=True) if np.isfinite(value)
        ]


@dataclass(frozen=True)
class Reference:
    """The reference of yearly temperatures: a mean (degC) and its years."""

    value: float
    words: str


@dataclass(frozen=True, eq=False)
class TrendLine:
    """A trend to draw: every year from first to last, (k,), the line, and the edges of its band."""

    years: FloatArray
    line: FloatArray
    low: FloatArray
    high: FloatArray


def complete_years(answer: ClimateAnswer, quantity: str) -> DrawnYears | None:
    """The values of a yearly quantity in complete years; None if there is no complete year, or no such quantity."""
    if quantity not in answer.yearly.columns:
        return None
    values = complete_values(answer.yearly, BY_QUANTITY[quantity])
    there = values.dropna()
    if there.empty:
        return None
    years = np.arange(int(there.index[0]), int(there.index[-1]) + 1)
    return DrawnYears(years, values.reindex(years).to_numpy(dtype=np.float64))


def reference_of(answer: ClimateAnswer, means: DrawnYears) -> Reference:
    """The mean of the baseline; if too few of its years are complete, that of all complete years."""
    if answer.baseline.is_used:
        # The record may begin after the baseline; the anomalies still give its mean.
        normal = answer.yearly["mean_temperature"] - answer.yearly["temperature_anomaly"]
        span = answer.baseline.years
        return Reference(float(normal.mean()), span_text(span.first, span.last))
    return Reference(means.mean, f"the complete years {span_text(means.pairs()[0][0], means.pairs()[-1][0])}")


def has_stripes(means: DrawnYears) -> bool:
    """Return True if there are enough complete years to compare with each other."""
    return means.count >= FEWEST_YEARS_OF_STRIPES


def has_anomalies(answer: ClimateAnswer, means: DrawnYears) -> bool:
    """Return True if the years can be compared with the baseline, or are enough to compare with each other."""
    return answer.baseline.is_used or has_stripes(means)


def trend_line(means: DrawnYears, trend: Trend) -> TrendLine:
    """The line of a trend, and the 95 % confidence band of its mean in each year.

    The band uses the same residual variance, quantile and effective number of years as the interval of the slope. So
    x years from the middle of n effective years, its distance from the line is that of the slope's interval times
    sqrt(sum of squares / n + x^2).
    """
    within = means.within(trend.years.first, trend.years.last)
    complete = within.years[np.isfinite(within.values)].astype(np.float64)
    from_middle = (within.years - complete.mean()) / 10.0
    squares = float((((complete - complete.mean()) / 10.0) ** 2).sum())
    line = within.mean + trend.slope * from_middle
    half = (trend.high - trend.slope) * np.sqrt(squares / trend.effective_count + from_middle**2)
    return TrendLine(within.years.astype(np.float64), line, line - half, line + half)


def signed(value: float, decimals: int = 2) -> str:
    """A difference with its sign: `+0.20`, `\u22120.04`."""
    text = f"{value:+.{decimals}f}".replace("-", "\u2212")
    return text[1:] if float(f"{value:.{decimals}f}") == 0.0 else text


def span_text(first: int, last: int) -> str:
    """A span of years as a label: `1994\u20132023`, `2023`."""
    return f"{first}" if first == last else f"{first}\u2013{last}"


# --- Axes of the figures of a climate answer: sizes, grid, years, months, and colours ---
#
# A figure is drawn for a width in inches: `WIDE` for desktops, `NARROW` for phones. Text has the same size on both.


# Inches.
WIDE, NARROW = 7.6, 3.7
LEFT, RIGHT = 0.68, 0.12  # of the axes of every figure, so that years and months stand below each other
_BOTTOM, _TOP = 0.34, 0.12
_LEGEND = 0.26
_INCHES_PER_YEAR_LABEL = 0.62
_INCHES_PER_MONTH_LABEL = 0.34

LETTERS = 8.5  # points
WARM, COLD, RAIN, MEAN = "#c0392b", "#2c6fad", "#1d6fa5", "#7a7a7a"
BAND, EXTREMES = "#9db7cc", "#d7e1ea"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def is_wide(width: float) -> bool:
    """Return True if a figure of this width (inches) has space for words side by side."""
    return width > (WIDE + NARROW) / 2


def new_panel(width: float, height: float, *, legend_lines: int = 1) -> tuple[Figure, Axes]:
    """A figure of this size (inches) with one panel below a legend of `legend_lines` lines."""
    figure = new_figure(width, height)
    top = _TOP + _LEGEND * legend_lines
    axes = add_axes(figure, LEFT, _BOTTOM, width - LEFT - RIGHT, height - _BOTTOM - top)
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
    """Print across a figure, over its contents, that its data are generated."""
    figure.text(
        0.5, 0.5, "generated, not ERA5", fontsize=16, color=FAINT, alpha=0.6, ha="center", va="center", zorder=9
    )


def name_axis(axes: Axes, name: str, unit: str = "") -> None:
    """Print what the vertical axis shows, with its unit: `Temperature (°C)`."""
    axes.set_ylabel(axis_label(name, unit), fontsize=LETTERS, color=INK, labelpad=3)


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


def draw_bars(axes: Axes, pairs: Sequence[tuple[int, float]], colours: str | Sequence[str], name: str = "year") -> None:
    """Draw a bar for each year and value; the gid of each is `name-1994`."""
    years = [year for year, _ in pairs]
    bars = axes.bar(years, [value for _, value in pairs], width=0.82, color=colours, zorder=2)
    for year, bar in zip(years, bars, strict=True):
        bar.set_gid(f"{name}-{year}")


def year_axis(axes: Axes, first: int, last: int) -> None:
    """Label years from first to last, each at the middle of its bar."""
    most = max(int(_inches(axes) / _INCHES_PER_YEAR_LABEL), 2)
    steps = (1, 2, 5, 10, 20, 25, 50)
    step = next((step for step in steps if (last - first) / step <= most), steps[-1])
    axes.set_xticks(np.arange(-(-first // step) * step, last + 1, step))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.set_xlim(first - 0.5, last + 0.5)


def month_axis(axes: Axes, starts: list[float]) -> None:
    """Label months: `starts` are the positions of the first day of each, and the end of the last."""
    middles = [(begin + end) / 2 for begin, end in pairwise(starts)]
    short = _inches(axes) / 12 < _INCHES_PER_MONTH_LABEL
    axes.set_xticks(starts, labels=[""] * len(starts))
    axes.set_xticks(middles, labels=[name[:1] if short else name for name in _MONTHS], minor=True)
    axes.tick_params(axis="x", which="minor", length=0, labelsize=LETTERS, colors=INK, pad=3.5)
    axes.set_xlim(starts[0], starts[-1])


def _inches(axes: Axes) -> float:
    figure = axes.get_figure(root=True)
    return float(axes.get_position().width * (figure.get_size_inches()[0] if figure else WIDE))
