"""Time series of a location: a panel per variable, with hours and means as lines, or totals as bars; gaps are bands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import dates

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.plots.figures import (
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
from era5_pipeline.query.plots.series_values import (
    Period,
    Values,
    as_seconds,
    hours_of_periods,
    period_means,
    without_mean,
)
from era5_pipeline.query.plots.variable_styles import FAINT, INK, NO_DATA, style_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.series import Series

    FloatArray = npt.NDArray[np.float32]
    TimeArray = npt.NDArray[np.datetime64]

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
# Values at another step than an hour are marked as dots, unless there are too many to tell apart.
_MOST_DOTS = 500


def series_figure(
    series: Series,
    variables: tuple[Variable, ...],
    location: Location,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the series of a location: one panel per variable, stacked, on the same time axis.

    Up to ten days of hourly values are drawn by the hour, longer series with hours (thin) and daily means (bold), from
    3 years on with days and months, from 30 years on with months and years. Amounts (mm) are bars of totals over the
    coarser period. A mean or total needs three quarters of its hours, and is then scaled to all of them.

    Values at another step are drawn at their own times: instants as dots and a line, amounts of the hour before as thin
    bars, without totals, since the other hours are not known. A gap is a grey band that no line crosses. `notes` say
    what is missing, and are printed above `credit`, small at the bottom.

    Raises:
        NoDataError: if there is no value to draw.
    """
    if not any(np.isfinite(series.values[variable.column]).any() for variable in variables):
        raise NoDataError(
            f"{', '.join(variable.column for variable in variables)}: no value to draw in {len(series.times):,} hours",
            remedy="Choose another time, column or place, or load the months with the variables you need.",
        )
    is_single = len(variables) == 1
    panel, gap, top = (3.1, 0.0, 0.85) if is_single else (1.8, 0.34, 1.05)
    lines = wrapped_notes(notes, _SERIES_WIDTH - _SERIES_LEFT - _SERIES_RIGHT)
    bottom = _SERIES_BOTTOM + notes_height(lines)
    height = top + bottom + len(variables) * panel + (len(variables) - 1) * gap
    figure = new_figure(_SERIES_WIDTH, height)
    drawn: list[Values] = []
    for number, variable in enumerate(reversed(variables)):
        axes = add_axes(
            figure,
            _SERIES_LEFT,
            bottom + number * (panel + gap),
            _SERIES_WIDTH - _SERIES_LEFT - _SERIES_RIGHT,
            panel,
        )
        values = Values.of(series.times, series.values[variable.column])
        drawn.append(values)
        _draw_series(axes, series.times, values, variable)
        _time_axis(axes, series.times, is_lowest=number == 0)
        is_highest = number == len(variables) - 1
        if not is_single:
            step = f", {values.step_text}" if values.step_text else ""
            axes.set_title(f"{style_of(variable).title}{step}", fontsize=9, loc="left", color=INK, pad=4)
        if is_highest and axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, frameon=False, ncols=3)
    title = style_of(variables[0]).title if is_single else "Weather"
    place = f"{latitude_label(location.latitude)} {longitude_label(location.longitude)}"
    step = f", {drawn[0].step_text}" if is_single and drawn[0].step_text else ""
    print_title(figure, _SERIES_LEFT, f"{title} at {place}", f"{_time_span(series.times)}{step}")
    print_notes(figure, _SERIES_LEFT, lines)
    print_credit(figure, _SERIES_LEFT, credit)
    return figure


def plot_series(
    series: Series,
    variable: Variable | tuple[Variable, ...],
    location: Location,
    path: Path,
    *,
    credit: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Write `series_figure` of one or more variables to `path` as PNG, atomically.

    Raises:
        NoDataError: if there is no value to draw.
        LocalDiskError: if the disk is full or not writable.
    """
    variables = variable if isinstance(variable, tuple) else (variable,)
    save(series_figure(series, variables, location, credit=credit, notes=notes), path)


def _draw_series(axes: Axes, times: TimeArray, values: Values, variable: Variable) -> None:
    style = style_of(variable)
    tiers = ((fine, coarse) for longest, fine, coarse in _TIERS if times[-1] - times[0] <= longest)
    fine, coarse = next(tiers, _LONGEST_TIER)
    axes.set_axisbelow(True)
    axes.grid(color=INK, alpha=0.12, linewidth=0.5)
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=INK)
    axes.spines[["right", "top"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    unit = style.unit
    is_amount = variable.step_type == "accum"
    if not values.values.size:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    elif is_amount and values.is_hourly and _draw_totals(axes, values, style.line, coarse):
        unit = f"{style.unit} per {_LABELS[coarse][1]}"
    elif is_amount:
        unit = f"{style.unit} in the hour before"
        _draw_amounts(axes, values, style.line)
    elif fine == coarse:
        _draw_values(axes, values, style.line, width=1.4)
    else:
        label = "as stored" if not values.is_hourly else _LABELS["h"][0]
        if fine == "h":
            _draw_values(axes, values, style.line, width=0.5, alpha=0.45, label=label)
        else:
            _draw_means(axes, values, fine, style.line, width=0.5, alpha=0.45, label=_LABELS[fine][0])
            # Values of which there are too few for a mean are drawn as what they are.
            alone = without_mean(values, fine)
            axes.plot(values.times[alone], values.values[alone], ".", color=style.line, alpha=0.45, markersize=2.5)
        _draw_means(axes, values, coarse, style.line, width=1.5, label=_LABELS[coarse][0])
    if values.values.size:
        _draw_gaps(axes, times, values, timedelta(hours=1) if is_amount else timedelta())
    axes.set_ylabel(unit, fontsize=9, color=INK)
    if style.scale == "symmetric":
        axes.axhline(0.0, color=FAINT, linewidth=0.6, zorder=1)
    if style.scale == "fraction":
        axes.set_ylim(-0.02, 1.02)


def _draw_gaps(axes: Axes, times: TimeArray, values: Values, before: timedelta) -> None:
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


def _draw_values(axes: Axes, values: Values, colour: str, *, width: float, alpha: float = 1.0, label: str = "") -> None:
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


def _draw_means(
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


def _draw_totals(axes: Axes, values: Values, colour: str, period: Period) -> bool:
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
    axes.set_ylim(0.0, max(float(totals.max()) * 1.08, 0.1))
    return True


def _draw_amounts(axes: Axes, values: Values, colour: str) -> None:
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
    axes.set_ylim(0.0, max(float(values.values.max()) * 1.08, 0.1))


def _time_axis(axes: Axes, times: TimeArray, *, is_lowest: bool) -> None:
    locator = dates.AutoDateLocator(tz=UTC, minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
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
