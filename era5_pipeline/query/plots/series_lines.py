"""Lines, bars and gaps of a series, drawn into axes.

Here: drawing values of one variable. Not here: their means and totals (`series_values`), panels and labels
(`series_plots`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import dates

from era5_pipeline.query.plots.series_values import Period, Values, as_seconds, hours_of_periods, period_means
from era5_pipeline.query.plots.variable_styles import NO_DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    import numpy.typing as npt
    from matplotlib.axes import Axes

    from era5_pipeline.query.plots.series_values import TimeArray

# Values at another step than an hour are marked as dots, unless there are too many to tell apart.
_MOST_DOTS = 500
# The shortest axis of amounts, in the table's unit: dry days are a line at zero.
_LEAST_AMOUNT = 0.1


def draw_gaps(axes: Axes, times: TimeArray, values: Values, before: timedelta) -> None:
    """Draw a grey band wherever values are missing between the first and the last of `times`.

    `before` is the time before a value that it stands for.
    """
    after_gap = np.flatnonzero(values.is_after_gap)
    begin, end = values.times[after_gap], values.times[after_gap + 1] - np.timedelta64(before)
    for is_outer, first, last in (
        (values.times[0] > times[0], times[0], values.times[0] - np.timedelta64(before)),
        (values.times[-1] < times[-1], values.times[-1], times[-1]),
    ):
        if is_outer:
            begin, end = np.append(begin, as_seconds(first)), np.append(end, as_seconds(last))
    if not begin.size:
        return
    # Wide enough to be seen.
    least = np.maximum((times[-1] - times[0]).astype("timedelta64[s]") // 400, np.timedelta64(1, "s"))
    more = np.maximum(least - (end - begin), np.timedelta64(0, "s")) // 2
    first, last = dates.date2num(begin - more), dates.date2num(end + more)  # type: ignore[no-untyped-call]
    axes.broken_barh(
        list(zip(first, last - first, strict=True)),
        (0.0, 1.0),
        transform=axes.get_xaxis_transform(),
        facecolor=NO_DATA,
        linewidth=0.0,
        zorder=0.5,
        label="no data",
    )


def draw_values(axes: Axes, values: Values, colour: str, *, width: float, alpha: float = 1.0, label: str = "") -> None:
    """Draw values at their own times as a line, broken where some are missing; those without neighbours as dots."""
    breaks = np.flatnonzero(values.is_after_gap) + 1
    is_broken = np.concatenate(([True], values.is_after_gap, [True]))
    is_dot = is_broken[:-1] & is_broken[1:]
    if not values.is_hourly and values.times.size <= _MOST_DOTS:
        is_dot[:] = True
    axes.plot(
        values.times[is_dot], values.values[is_dot], ".", color=colour, alpha=alpha, markersize=max(4 * width, 3.0)
    )
    at = np.insert(values.times, breaks, values.times[breaks])
    drawn = np.insert(values.values.astype(np.float64), breaks, np.nan)
    for piece in _pieces(len(at)):
        axes.plot(at[piece], drawn[piece], color=colour, linewidth=width, alpha=alpha, label=label)
        label = ""


def draw_means(
    axes: Axes, values: Values, period: Period, colour: str, *, width: float, alpha: float = 1.0, label: str = ""
) -> None:
    """Draw means as a line through the middles of their periods; a mean without neighbours as a dot."""
    starts, means = period_means(values, period)
    begin, end = as_seconds(starts), as_seconds(starts + 1)
    at = begin + (end - begin) // 2
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


def draw_totals(axes: Axes, values: Values, colour: str, period: Period) -> bool:
    """Draw the totals of periods as bars of the width of the periods; False if no period has enough hours for one.

    A line at zero shows which periods have a total: those that are dry look otherwise like missing ones.
    """
    # An amount with valid time 00:00 fell in the hour before, which belongs to the previous day, or month.
    starts, means = period_means(replace(values, times=values.times - np.timedelta64(1, "h")), period)
    if not np.isfinite(means).any():
        return False
    totals = np.nan_to_num(means) * hours_of_periods(starts)
    begin, end = as_seconds(starts), as_seconds(starts + 1)
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
    is_known = np.isfinite(means)
    at = np.stack((begin, end), axis=1).reshape(-1)
    axes.plot(at, np.where(np.repeat(is_known, 2), 0.0, np.nan), color=colour, linewidth=1.5, clip_on=False, zorder=3)
    # The first and the last period may be cut off by the range: that is no gap.
    is_within = (begin >= values.times[0]) & (end <= values.times[-1])
    for edge in np.flatnonzero(~is_known & is_within):
        axes.axvspan(begin[edge], end[edge], facecolor=NO_DATA, linewidth=0.0, zorder=0.4)
    _limit_amounts(axes, totals)
    return True


def draw_amounts(axes: Axes, values: Values, colour: str) -> None:
    """Draw amounts of single hours as thin bars at their own times, and a line at zero where there are values."""
    # One line up and down again, broken after each bar: much faster than a line for each.
    at = np.repeat(values.times, 3)
    heights = np.stack((np.zeros(values.times.size), values.values, np.full(values.times.size, np.nan)), axis=1)
    is_dense = values.times.size > _MOST_DOTS
    for piece in _pieces(len(at)):
        axes.plot(at[piece], heights.reshape(-1)[piece], color=colour, linewidth=0.6 if is_dense else 1.2)
    if not is_dense:
        axes.plot(values.times, np.zeros(values.times.size), ".", color=colour, markersize=2.0, clip_on=False, zorder=3)
    breaks = np.flatnonzero(values.is_after_gap) + 1
    known = np.insert(np.zeros(values.times.size), breaks, np.nan)
    axes.plot(np.insert(values.times, breaks, values.times[breaks]), known, color=colour, linewidth=1.0)
    _limit_amounts(axes, values.values)


def _limit_amounts(axes: Axes, amounts: npt.NDArray[np.floating[Any]]) -> None:
    """Show amounts from zero on, upwards, downwards or both."""
    low, high = min(float(amounts.min()) * 1.08, 0.0), max(float(amounts.max()) * 1.08, 0.0)
    # Files are packed: an amount below zero by a packing step is none.
    low = 0.0 if -low < 0.01 * high else low
    axes.set_ylim(low, high if high - low > _LEAST_AMOUNT else low + _LEAST_AMOUNT)
