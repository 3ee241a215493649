"""Time series of a location: panels of variables, with hours and means as lines, totals as bars, gaps as bands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import dates, ticker

from era5_pipeline.draw import figures
from era5_pipeline.draw.colour_scales import NO_LIMITS, Limits
from era5_pipeline.maps import styles
from era5_pipeline.maps.fields import as_shown
from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.times import from_datetime64
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.fields import Series

    FloatArray = npt.NDArray[np.float32]
    TimeArray = npt.NDArray[np.datetime64]

# --- The values of a series to draw: their step, their gaps, and means of days, months and years ---


Period = Literal["h", "D", "M", "Y"]

# The share of a period's hours that its mean or total needs to be representative.
_ENOUGH = 0.75


@dataclass(frozen=True, eq=False)
class Values:
    """The values (n,) of one column that are not NULL, their times, and their steps: the hours that each stands for.

    The step is the usual distance between values in that month, 1 for hourly values.
    """

    times: TimeArray
    values: FloatArray
    steps: npt.NDArray[np.int64]

    @classmethod
    def of(cls, times: TimeArray, values: FloatArray) -> Values:
        """The finite values, with their steps."""
        is_there = np.isfinite(values)
        there = times[is_there].astype("datetime64[s]")
        months = there.astype("datetime64[M]").astype(np.int64)
        steps = np.ones(there.size, dtype=np.int64)
        _, starts = np.unique(months, return_index=True)
        for of_month in np.split(np.arange(there.size), starts[1:]) if there.size else ():
            steps[of_month] = _usual_distance(from_datetime64(there[of_month]))
        return cls(there, values[is_there], steps)

    @property
    def is_hourly(self) -> bool:
        """True if every month is hourly."""
        return not (self.steps > 1).any()

    @property
    def step_text(self) -> str:
        """The step in words, empty for hourly values."""
        if self.is_hourly:
            return ""
        step = int(self.steps[0])
        is_regular = (self.steps == step).all() and not (np.diff(from_datetime64(self.times)) % step).any()
        return f"every {step} hours" if is_regular else "at irregular hours"

    @property
    def is_after_gap(self) -> npt.NDArray[np.bool_]:
        """For each value but the first (n - 1,): whether values are missing before it."""
        is_gap: npt.NDArray[np.bool_] = np.diff(from_datetime64(self.times)) > np.maximum(
            self.steps[1:], self.steps[:-1]
        )
        return is_gap


def shared_panels(drawn: Mapping[Variable, Values], most: int) -> list[tuple[Variable, ...]]:
    """The variables in order, grouped into panels of at most `most` with the same unit and a similar range.

    Lines that share axes must stay readable: together they need at most twice the range of the widest of them, and each
    has at least a fifth of it. Accumulations are bars, with a panel each.
    """
    panels: list[tuple[list[Variable], list[tuple[float, float]]]] = []
    for variable, values in drawn.items():
        own = (float(values.values.min()), float(values.values.max())) if values.values.size else (0.0, 0.0)
        for others, ranges in panels:
            is_alike = _kind(others[0]) == _kind(variable)
            if is_alike and len(others) < most and variable.step_type != "accum" and _fit([*ranges, own]):
                others.append(variable)
                ranges.append(own)
                break
        else:
            panels.append(([variable], [own]))
    return [tuple(variables) for variables, _ in panels]


def _kind(variable: Variable) -> tuple[str, str, bool]:
    """The key by which variables are grouped onto shared axes."""
    return variable.unit, variable.step_type, styles.is_signed(variable)


def _fit(ranges: list[tuple[float, float]]) -> bool:
    """Return True if values of these ranges can be read on the same axis."""
    lengths = [high - low for low, high in ranges]
    together = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return 0.0 < together <= 2 * max(lengths) and min(lengths) >= 0.2 * max(lengths)


def _usual_distance(hours: npt.NDArray[np.int64]) -> int:
    """The most frequent distance of ascending hours; 1 if all are more than a day apart."""
    distances = np.diff(hours)
    counts = np.bincount(distances[(distances > 0) & (distances <= 24)], minlength=2)
    return int(counts.argmax()) if counts.any() else 1


def period_means(values: Values, period: Period) -> tuple[TimeArray, npt.NDArray[np.float64]]:
    """Every period from first to last (k,), and its mean (k,), NaN if too many hours are missing."""
    periods = values.times.astype(f"datetime64[{period}]")
    number = (periods - periods[0]).astype(np.int64)
    starts = np.arange(periods[0], _next_periods(periods[-1:])[0])
    hours = np.bincount(number, weights=values.steps, minlength=len(starts))
    sums = np.bincount(number, weights=values.values.astype(np.float64) * values.steps, minlength=len(starts))
    means = np.full(len(starts), np.nan)
    np.divide(sums, hours, out=means, where=hours >= _ENOUGH * hours_per_period(starts))
    return starts, means


def hours_per_period(starts: TimeArray) -> npt.NDArray[np.int64]:
    """The number of hours, (k,), of the periods that begin at `starts` (k,), whose unit is the period."""
    return (as_seconds(_next_periods(starts)) - as_seconds(starts)).astype(np.int64) // 3600


def _next_periods(starts: TimeArray) -> TimeArray:
    """The periods after those that begin at `starts` (k,), whose unit is the period."""
    # Adding 1 would be that of no unit, which numpy will refuse.
    return (starts.astype(np.int64) + 1).astype(starts.dtype)


def as_seconds(times: TimeArray) -> TimeArray:
    """Times, of any shape, as datetime64[s]."""
    return times.astype("datetime64[s]")


# --- Lines, bars and gaps of a series, drawn into axes ---


# Values at a step of more than an hour are marked as dots, unless there are too many to tell apart.
_MOST_DOTS = 500
# The shortest axis of amounts, in the table's unit: dry days are a line at zero.
_LEAST_AMOUNT = 0.1


def draw_gaps(axes: Axes, times: TimeArray, values: Values, before: timedelta) -> None:
    """Draw a grey band wherever values are missing between the first and the last of `times`.

    `before` is the time that a value stands for, before it.
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
    # Wide enough to be visible.
    least = np.maximum((times[-1] - times[0]).astype("timedelta64[s]") // 400, np.timedelta64(1, "s"))
    more = np.maximum(least - (end - begin), np.timedelta64(0, "s")) // 2
    first, last = dates.date2num(begin - more), dates.date2num(end + more)  # type: ignore[no-untyped-call]
    axes.broken_barh(
        list(zip(first, last - first, strict=True)),
        (0.0, 1.0),
        transform=axes.get_xaxis_transform(),
        facecolor=styles.NO_DATA,
        linewidth=0.0,
        zorder=0.5,
        label="no data",
    )


def draw_values(axes: Axes, values: Values, colour: str, *, width: float, alpha: float = 1.0, label: str = "") -> None:
    """Draw values at their own times as a line, broken at gaps; those without neighbours as dots."""
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
    begin, end = as_seconds(starts), as_seconds(_next_periods(starts))
    at = begin + (end - begin) // 2
    is_there = np.concatenate(([False], np.isfinite(means), [False]))
    alone = is_there[1:-1] & ~is_there[:-2] & ~is_there[2:]
    axes.plot(at[alone], means[alone], ".", color=colour, alpha=alpha, markersize=4 * width)
    for piece in _pieces(len(at)):
        axes.plot(at[piece], means[piece], color=colour, linewidth=width, alpha=alpha, label=label)
        label = ""


def _pieces(count: int) -> Iterator[slice]:
    """Split a line of `count` points into adjoining pieces: Agg may fail on a long noisy line."""
    for start in range(0, max(count - 1, 1), 20_000):
        yield slice(start, start + 20_001)


def draw_totals(axes: Axes, values: Values, colour: str, period: Period, variable: Variable) -> bool:
    """Draw the totals of periods as bars as wide as the periods; False if no period has enough hours.

    A line at zero shows which periods have a total: dry ones would otherwise look like missing ones.
    """
    # The amount at 00:00 fell in the hour before, which belongs to the previous day or month.
    starts, means = period_means(replace(values, times=values.times - np.timedelta64(1, "h")), period)
    if not np.isfinite(means).any():
        return False
    totals = as_shown(variable, np.nan_to_num(means) * hours_per_period(starts))
    begin, end = as_seconds(starts), as_seconds(_next_periods(starts))
    # A thin line separates bars, unless they are too many and too thin.
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
    # The range may cut off the first and the last period: that is no gap.
    is_within = (begin >= values.times[0]) & (end <= values.times[-1])
    for edge in np.flatnonzero(~is_known & is_within):
        axes.axvspan(begin[edge], end[edge], facecolor=styles.NO_DATA, linewidth=0.0, zorder=0.4)
    _limit_amounts(axes, totals)
    return True


def draw_amounts(axes: Axes, values: Values, colour: str) -> None:
    """Draw amounts of single hours as thin bars at their own times, and a line at zero where there are values."""
    # One line up and down, broken after each bar: much faster than a line for each.
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
    """Show amounts from zero upwards, downwards, or both."""
    low, high = min(float(amounts.min()) * 1.08, 0.0), max(float(amounts.max()) * 1.08, 0.0)
    # Files are packed: an amount below zero by a packing step counts as zero.
    low = 0.0 if -low < 0.01 * high else low
    axes.set_ylim(low, high if high - low > _LEAST_AMOUNT else low + _LEAST_AMOUNT)


# --- The figure of a location's series: panels of variables, with lines, bars and bands for gaps ---


# Inches.
_SERIES_WIDTH = 10.0
_SERIES_LEFT, _SERIES_RIGHT, _SERIES_BOTTOM = 0.85, 0.3, 0.85
_PANEL_WIDTH = _SERIES_WIDTH - _SERIES_LEFT - _SERIES_RIGHT
# For one panel, several, and many: height, gap below, and space above the highest.
_ONE, _SEVERAL, _MANY = (3.1, 0.0, 0.85), (1.8, 0.34, 1.05), (1.25, 0.32, 1.05)
# With more variables than this, those with the same unit and range share a panel.
_MOST_ALONE = 6

# The names of vertical axes, by unit; others have the title of the variable.
_QUANTITIES = {"degC": "Temperature", "hPa": "Pressure"}
_LABELS = {
    "h": ("hourly", "hour"),
    "D": ("daily mean", "day"),
    "M": ("monthly mean", "month"),
    "Y": ("yearly mean", "year"),
}
# The longest series for each pair of periods: the finer drawn thin, the coarser bold.
_TIERS: tuple[tuple[np.timedelta64, Period, Period], ...] = (
    (np.timedelta64(10, "D"), "h", "h"),
    (np.timedelta64(3 * 366, "D"), "h", "D"),
    (np.timedelta64(30 * 366, "D"), "D", "M"),
)
_LONGEST_TIER: tuple[Period, Period] = ("M", "Y")


def series_figure(
    series: Series,
    variables: tuple[Variable, ...],
    location: Location,
    *,
    place_name: str | None = None,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
) -> Figure:
    """Draw the series of a location: one panel per variable, stacked, on the same time axis.

    Up to ten days of hourly values are drawn by the hour, longer series with hours (thin) and daily means (bold), from
    3 years on with days and months, from 30 years on with months and years. Accumulations are bars of totals over the
    coarser period. A mean or total needs three quarters of its hours, and is then scaled to all of them. With more than
    six variables, those with the same unit and a similar range share a panel.

    Values at another step are drawn at their own times: instants as dots and a line, amounts of the hour before as thin
    bars, without totals, since the other hours are unknown. A gap is a grey band that no line crosses. `notes` say what
    is missing, and are printed above `credit`, small at the bottom. `limits` are those of the vertical axis, if all
    variables have one unit. The title has `place_name`, or else the degrees.
    """
    if not any(np.isfinite(series.values[variable.column]).any() for variable in variables):
        raise NoDataError(
            f"{', '.join(variable.column for variable in variables)}: no value to draw in "
            f"{counted(len(series.times), 'hour')}",
            remedy="Choose another time, column or place, or load the months with the variables you need.",
        )
    units = dict.fromkeys(variable.unit for variable in variables)
    if limits != NO_LIMITS and len(units) > 1:
        raise UsageError(
            f"--vmin and --vmax limit a single axis, but these variables are in {', '.join(units)}",
            remedy="Choose variables of one unit with --column, or leave the limits out.",
        )
    drawn = {variable: Values.of(series.times, series.values[variable.column]) for variable in variables}
    is_single, is_many = len(variables) == 1, len(variables) > _MOST_ALONE
    panels = shared_panels(drawn, len(styles.LINES)) if is_many else [(variable,) for variable in variables]
    panel, gap, top = _ONE if is_single else _MANY if is_many else _SEVERAL
    lines = figures.wrapped_notes(notes, _PANEL_WIDTH)
    bottom = _SERIES_BOTTOM + figures.notes_height(lines)
    figure = figures.new_figure(_SERIES_WIDTH, top + bottom + len(panels) * panel + (len(panels) - 1) * gap)
    for number, shown in enumerate(reversed(panels)):
        axes = figures.add_axes(figure, _SERIES_LEFT, bottom + number * (panel + gap), _PANEL_WIDTH, panel)
        _draw_panel(axes, series.times, {variable: drawn[variable] for variable in shown})
        _limit(axes, limits)
        _time_axis(axes, series.times, is_lowest=number == 0)
        if not is_single:
            _name_panel(axes, {variable: drawn[variable] for variable in shown})
        if number == len(panels) - 1 and axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, frameon=False, ncols=3)
    degrees = f"{figures.latitude_label(location.latitude)} {figures.longitude_label(location.longitude)}"
    step = drawn[variables[0]].step_text if is_single else ""
    name = f"{styles.style_of(variables[0]).title if is_single else 'Weather'} at {place_name or degrees}"
    first, last = (time.astype("datetime64[s]").item() for time in (series.times[0], series.times[-1]))
    texts = dict.fromkeys(f"{time:%d %b %Y, %H:%M}" for time in (first, last))
    span = f"{' to '.join(texts)} UTC"
    if series.times[-1] - series.times[0] > _TIERS[0][0]:
        span = f"{first:%d %b %Y} to {last:%d %b %Y}"
    below = ["" if title is None else name, degrees if place_name else "", span, step]
    figures.print_title(figure, _SERIES_LEFT, name if title is None else title, ", ".join(filter(None, below)))
    figures.print_notes(figure, _SERIES_LEFT, lines)
    figures.print_credit(figure, _SERIES_LEFT, credit)
    return figure


def _draw_panel(axes: Axes, times: TimeArray, shown: dict[Variable, Values]) -> None:
    """Draw one variable, or several with the same unit; none of several is an accumulation."""
    tiers = ((fine, coarse) for longest, fine, coarse in _TIERS if times[-1] - times[0] <= longest)
    fine, coarse = next(tiers, _LONGEST_TIER)
    axes.set_axisbelow(True)
    axes.grid(color=styles.INK, alpha=0.12, linewidth=0.5)
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=styles.INK)
    axes.spines[["right", "top"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    per = ""
    for number, (variable, values) in enumerate(shown.items()):
        colour = styles.style_of(variable).line if len(shown) == 1 else styles.LINES[number]
        per = _draw_series(axes, values, variable, colour, fine, coarse, is_labelled=number == 0)
    variable, values = next(iter(shown.items()))
    if len(shown) == 1 and values.values.size:
        draw_gaps(axes, times, values, timedelta(hours=1) if variable.step_type == "accum" else timedelta())
    style = styles.style_of(variable)
    if style.scale == "symmetric":
        axes.axhline(0.0, color=styles.FAINT, linewidth=0.6, zorder=1)
    if style.scale == "fraction":
        axes.set_ylim(-0.02, 1.02)
    power = styles.power_of(max(map(abs, axes.get_ylim()))) if values.values.size else 0
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: styles.number_text(value, power)))
    unit = styles.with_power(style.unit, power)
    if variable.step_type == "accum":
        unit = f"{unit} per {per}" if per else styles.unit_of_hour(variable, power)
    _name_axis(axes, _QUANTITIES.get(variable.unit, style.title if len(shown) == 1 else ""), unit)


def _name_axis(axes: Axes, name: str, unit: str) -> None:
    """Print what the axis shows and its unit on one line, or on two; if they are too long for both, only the unit."""
    highest = axes.get_window_extent().height
    both = (styles.axis_label(name, unit), f"{name}\n({unit})") if name and unit else ()
    for text in (*both, unit or name):
        label = axes.set_ylabel(text, fontsize=9, color=styles.INK)
        if label.get_window_extent().height <= highest:
            return


def _draw_series(
    axes: Axes, values: Values, variable: Variable, colour: str, fine: Period, coarse: Period, *, is_labelled: bool
) -> str:
    """Draw the values of one variable; return the period of its bars, if they are totals."""
    is_amount = variable.step_type == "accum"
    single = replace(values, values=as_shown(variable, values.values))
    if not values.values.size:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=styles.FAINT)
    elif is_amount and values.is_hourly and draw_totals(axes, values, colour, coarse, variable):
        return _LABELS[coarse][1]
    elif is_amount:
        draw_amounts(axes, single, colour)
    elif fine == coarse:
        draw_values(axes, single, colour, width=1.4)
    else:
        label = "as stored" if not values.is_hourly else _LABELS["h"][0]
        finer, coarser = (label if fine == "h" else _LABELS[fine][0], _LABELS[coarse][0]) if is_labelled else ("", "")
        if fine == "h":
            draw_values(axes, single, colour, width=0.5, alpha=0.45, label=finer)
        else:
            draw_means(axes, values, fine, colour, width=0.5, alpha=0.45, label=finer)
            # Values too few for a mean are drawn individually.
            starts, means = period_means(values, fine)
            alone = np.isnan(means)[(values.times.astype(starts.dtype) - starts[0]).astype(np.int64)]
            axes.plot(values.times[alone], single.values[alone], ".", color=colour, alpha=0.45, markersize=2.5)
        draw_means(axes, values, coarse, colour, width=1.5, label=coarser)
    return ""


def _name_panel(axes: Axes, shown: dict[Variable, Values]) -> None:
    """Print the names of a panel's variables above it, each in the colour of its line if there are several."""
    names = []
    for variable, values in shown.items():
        step = f", {values.step_text}" if values.step_text else ""
        names.append(f"{styles.style_of(variable).title}{step}")
    if len(shown) == 1:
        axes.set_title(names[0], fontsize=9, loc="left", color=styles.INK, pad=4)
        return
    end = axes.annotate("", (0.0, 1.0), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points")
    for number, name in enumerate(names):
        place = (0.0, 1.0) if number == 0 else (1.0, 0.0)
        end = axes.annotate(
            name,
            place,
            xycoords="axes fraction" if number == 0 else end,
            xytext=(0, 4) if number == 0 else (12, 0),
            textcoords="offset points",
            va="bottom",
            fontsize=9,
            color=styles.LINES[number],
        )


def _limit(axes: Axes, limits: Limits) -> None:
    """Set the requested ends of the vertical axis, which must be on the right side of the other, from the values."""
    low, high = (end if asked is None else asked for asked, end in zip(limits, axes.get_ylim(), strict=True))
    if low >= high:
        raise UsageError(
            f"--vmin {low:g} and --vmax {high:g} leave no range: one of them follows from the values",
            remedy="Give both.",
        )
    axes.set_ylim(low, high)


def _time_axis(axes: Axes, times: TimeArray, *, is_lowest: bool) -> None:
    locator = dates.AutoDateLocator(tz=UTC, minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    # No offset text: the subtitle already has the dates.
    formatter = dates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator, tz=UTC, show_offset=False, zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"]
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    # At least one hour: the first amount fell in the hour before its time.
    margin = np.maximum((times[-1] - times[0]) // 100, np.timedelta64(3600, "s"))
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    axes.tick_params(labelbottom=is_lowest)
    if is_lowest:
        axes.set_xlabel("Time (UTC)", fontsize=9, color=styles.INK)
