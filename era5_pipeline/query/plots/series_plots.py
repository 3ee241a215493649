"""Time series of a location: one panel per variable, with hours and means as lines, or totals as bars."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib import dates

from era5_pipeline.query.plots.figures import (
    add_axes,
    latitude_label,
    longitude_label,
    new_figure,
    print_credit,
    print_title,
    save,
)
from era5_pipeline.query.plots.variable_styles import FAINT, INK, style_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.series import Series

    FloatArray = npt.NDArray[np.float32]
    TimeArray = npt.NDArray[np.datetime64]

Period = Literal["h", "D", "M", "Y"]

# Inches.
_SERIES_WIDTH = 10.0
_SERIES_LEFT, _SERIES_RIGHT, _SERIES_BOTTOM = 0.85, 0.3, 0.85

_LABELS = {
    "h": ("hourly", "hour"),
    "D": ("daily mean", "day"),
    "M": ("monthly mean", "month"),
    "Y": ("yearly mean", "year"),
}
# The longest series for each pair of periods: the finer one is drawn thin, the coarser one bold.
_TIERS: tuple[tuple[np.timedelta64, Period, Period], ...] = (
    (np.timedelta64(10, "D"), "h", "h"),
    (np.timedelta64(3 * 366, "D"), "h", "D"),
    (np.timedelta64(30 * 366, "D"), "D", "M"),
)
_LONGEST_TIER: tuple[Period, Period] = ("M", "Y")
# The part of a period's hours that its mean or total needs; with fewer, it would not represent the period.
_ENOUGH = 0.75


def series_figure(series: Series, variables: tuple[Variable, ...], location: Location, *, credit: str = "") -> Figure:
    """Draw the series of a location: one panel per variable, stacked, on the same time axis.

    Up to ten days are drawn by the hour, longer series with hours (thin) and daily means (bold), from 3 years on with
    days and months, from 30 years on with months and years. Amounts (mm) are bars of totals over the coarser period. A
    mean or total needs three quarters of its hours, and is then scaled to all of them; lines have gaps where hours are
    missing. `credit` is printed small at the bottom.
    """
    is_single = len(variables) == 1
    panel, gap, top = (3.1, 0.0, 0.85) if is_single else (1.8, 0.34, 1.05)
    height = top + _SERIES_BOTTOM + len(variables) * panel + (len(variables) - 1) * gap
    figure = new_figure(_SERIES_WIDTH, height)
    for number, variable in enumerate(reversed(variables)):
        axes = add_axes(
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
            axes.set_title(style_of(variable).title, fontsize=9, loc="left", color=INK, pad=4)
        if is_highest and axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, frameon=False, ncols=2)
    title = style_of(variables[0]).title if is_single else "Weather"
    place = f"{latitude_label(location.latitude)} {longitude_label(location.longitude)}"
    print_title(figure, _SERIES_LEFT, f"{title} at {place}", _time_span(series.times))
    print_credit(figure, _SERIES_LEFT, credit)
    return figure


def plot_series(
    series: Series,
    variable: Variable | tuple[Variable, ...],
    location: Location,
    path: Path,
    *,
    credit: str = "",
) -> None:
    """Write `series_figure` of one or more variables to `path` as PNG, atomically.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    variables = variable if isinstance(variable, tuple) else (variable,)
    save(series_figure(series, variables, location, credit=credit), path)


def _draw_series(axes: Axes, times: TimeArray, values: FloatArray, variable: Variable) -> None:
    style = style_of(variable)
    tiers = ((fine, coarse) for longest, fine, coarse in _TIERS if times[-1] - times[0] <= longest)
    fine, coarse = next(tiers, _LONGEST_TIER)
    axes.set_axisbelow(True)
    axes.grid(color=INK, alpha=0.12, linewidth=0.5)
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=INK)
    axes.spines[["right", "top"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    unit = style.unit
    if variable.step_type == "accum":
        unit = f"{style.unit} per {_LABELS[coarse][1]}"
        _draw_totals(axes, times, values, style.line, coarse)
    elif fine == coarse:
        _draw_line(axes, times, values, fine, style.line, width=1.4)
    else:
        _draw_line(axes, times, values, fine, style.line, width=0.5, alpha=0.45, label=_LABELS[fine][0])
        _draw_line(axes, times, values, coarse, style.line, width=1.5, label=_LABELS[coarse][0])
    axes.set_ylabel(unit, fontsize=9, color=INK)
    if style.scale == "symmetric":
        axes.axhline(0.0, color=FAINT, linewidth=0.6, zorder=1)
    if style.scale == "fraction":
        axes.set_ylim(-0.02, 1.02)
    if not np.isfinite(values).any():
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=FAINT)


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
    """Draw means as a line through the middles of their periods; a mean without neighbours as a dot."""
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
    """Split a line of `count` points into adjoining pieces: Agg may fail on a longer noisy line."""
    for start in range(0, max(count - 1, 1), 20_000):
        yield slice(start, start + 20_001)


def _draw_totals(axes: Axes, times: TimeArray, values: FloatArray, colour: str, period: Period) -> None:
    """Draw the totals of periods as bars of the width of the periods."""
    # An amount with valid time 00:00 fell in the hour before, which belongs to the previous day, or month.
    starts, means = _means(times - np.timedelta64(1, "h"), values, period)
    totals = np.nan_to_num(means) * _hours(starts)
    begin, end = _seconds(starts), _seconds(starts + 1)
    # Bars are separated by a thin line, unless they are too many and too thin for it.
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
    """Every period from first to last (k,), and its mean (k,), NaN if too many hours are missing."""
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
    # No offset text: the subtitle already has the dates.
    formatter = dates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, show_offset=False, zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    # At least one hour, because the first amount fell in the hour before its valid time.
    margin = np.maximum((times[-1] - times[0]) // 100, np.timedelta64(3600, "s"))
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    axes.tick_params(labelbottom=is_lowest)
    if is_lowest:
        axes.set_xlabel("Time (UTC)", fontsize=9, color=INK)


def _time_span(times: TimeArray) -> str:
    first, last = (time.astype("datetime64[s]").item() for time in (times[0], times[-1]))
    if times[-1] - times[0] > _TIERS[0][0]:
        return f"{first:%d %b %Y} to {last:%d %b %Y}"
    texts = dict.fromkeys(f"{time:%d %b %Y, %H:%M}" for time in (first, last))
    return f"{' to '.join(texts)} UTC"
