"""Time series of a location: panels of variables, with hours and means as lines, or totals as bars; gaps are bands."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import dates, ticker

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.query.plots.colour_scales import NO_LIMITS, Limits
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
from era5_pipeline.query.plots.series_lines import draw_amounts, draw_gaps, draw_means, draw_totals, draw_values
from era5_pipeline.query.plots.series_values import Period, Values, shared_panels, without_mean
from era5_pipeline.query.plots.variable_styles import (
    FAINT,
    INK,
    LINES,
    number_text,
    power_of,
    style_of,
    unit_of_hour,
    with_power,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.plots.series_values import TimeArray
    from era5_pipeline.query.series import Series

# Inches.
_SERIES_WIDTH = 10.0
_SERIES_LEFT, _SERIES_RIGHT, _SERIES_BOTTOM = 0.85, 0.3, 0.85
_PANEL_WIDTH = _SERIES_WIDTH - _SERIES_LEFT - _SERIES_RIGHT
# Of one panel, of several, and of many: its height, the gap below it, and the space above the highest.
_ONE, _SEVERAL, _MANY = (3.1, 0.0, 0.85), (1.8, 0.34, 1.05), (1.25, 0.32, 1.05)
# With more variables than this, those of one unit and range share a panel.
_MOST_ALONE = 6

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
    coarser period. A mean or total needs three quarters of its hours, and is then scaled to all of them. Of more than
    six variables, those of the same unit and a similar range share a panel.

    Values at another step are drawn at their own times: instants as dots and a line, amounts of the hour before as thin
    bars, without totals, since the other hours are not known. A gap is a grey band that no line crosses. `notes` say
    what is missing, and are printed above `credit`, small at the bottom. `limits` are those of the vertical axis, if
    all variables have one unit. The title has `place_name`, or else the degrees.

    Raises:
        NoDataError: if there is no value to draw.
        UsageError: if limits are given for variables of several units, or leave no range.
    """
    if not any(np.isfinite(series.values[variable.column]).any() for variable in variables):
        raise NoDataError(
            f"{', '.join(variable.column for variable in variables)}: no value to draw in {len(series.times):,} hours",
            remedy="Choose another time, column or place, or load the months with the variables you need.",
        )
    units = dict.fromkeys(variable.unit for variable in variables)
    if limits != NO_LIMITS and len(units) > 1:
        raise UsageError(
            f"--vmin and --vmax are of one axis, and these variables are in {', '.join(units)}",
            remedy="Choose variables of one unit with --column, or leave the limits out.",
        )
    drawn = {variable: Values.of(series.times, series.values[variable.column]) for variable in variables}
    is_single, is_many = len(variables) == 1, len(variables) > _MOST_ALONE
    panels = shared_panels(drawn, len(LINES)) if is_many else [(variable,) for variable in variables]
    panel, gap, top = _ONE if is_single else _MANY if is_many else _SEVERAL
    lines = wrapped_notes(notes, _PANEL_WIDTH)
    bottom = _SERIES_BOTTOM + notes_height(lines)
    figure = new_figure(_SERIES_WIDTH, top + bottom + len(panels) * panel + (len(panels) - 1) * gap)
    for number, shown in enumerate(reversed(panels)):
        axes = add_axes(figure, _SERIES_LEFT, bottom + number * (panel + gap), _PANEL_WIDTH, panel)
        _draw_panel(axes, series.times, {variable: drawn[variable] for variable in shown})
        _limit(axes, limits)
        _time_axis(axes, series.times, is_lowest=number == 0)
        if not is_single:
            _name_panel(axes, {variable: drawn[variable] for variable in shown})
        if number == len(panels) - 1 and axes.get_legend_handles_labels()[1]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), fontsize=8, frameon=False, ncols=3)
    degrees = f"{latitude_label(location.latitude)} {longitude_label(location.longitude)}"
    step = drawn[variables[0]].step_text if is_single else ""
    name = f"{style_of(variables[0]).title if is_single else 'Weather'} at {place_name or degrees}"
    below = ["" if title is None else name, degrees if place_name else "", _time_span(series.times), step]
    print_title(figure, _SERIES_LEFT, name if title is None else title, ", ".join(filter(None, below)))
    print_notes(figure, _SERIES_LEFT, lines)
    print_credit(figure, _SERIES_LEFT, credit)
    return figure


def plot_series(
    series: Series,
    variable: Variable | tuple[Variable, ...],
    location: Location,
    path: Path,
    *,
    place_name: str | None = None,
    credit: str = "",
    notes: Sequence[str] = (),
    title: str | None = None,
    limits: Limits = NO_LIMITS,
) -> None:
    """Write `series_figure` of one or more variables to `path` as PNG, PDF or SVG, atomically.

    Raises:
        NoDataError: if there is no value to draw.
        UsageError: if limits are given for variables of several units, or leave no range.
        LocalDiskError: if the disk is full or not writable.
    """
    variables = variable if isinstance(variable, tuple) else (variable,)
    figure = series_figure(
        series,
        variables,
        location,
        place_name=place_name,
        credit=credit,
        notes=notes,
        title=title,
        limits=limits,
    )
    save(figure, path)


def _draw_panel(axes: Axes, times: TimeArray, shown: dict[Variable, Values]) -> None:
    """Draw one variable, or several of one unit, none of which is an accumulation."""
    tiers = ((fine, coarse) for longest, fine, coarse in _TIERS if times[-1] - times[0] <= longest)
    fine, coarse = next(tiers, _LONGEST_TIER)
    axes.set_axisbelow(True)
    axes.grid(color=INK, alpha=0.12, linewidth=0.5)
    axes.tick_params(labelsize=8, width=0.5, length=3, colors=INK)
    axes.spines[["right", "top"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.6)
    per = ""
    for number, (variable, values) in enumerate(shown.items()):
        colour = style_of(variable).line if len(shown) == 1 else LINES[number]
        per = _draw_series(axes, values, variable, colour, fine, coarse, is_labelled=number == 0)
    variable, values = next(iter(shown.items()))
    if len(shown) == 1 and values.values.size:
        draw_gaps(axes, times, values, timedelta(hours=1) if variable.step_type == "accum" else timedelta())
    style = style_of(variable)
    if style.scale == "symmetric":
        axes.axhline(0.0, color=FAINT, linewidth=0.6, zorder=1)
    if style.scale == "fraction":
        axes.set_ylim(-0.02, 1.02)
    power = power_of(max(map(abs, axes.get_ylim()))) if values.values.size else 0
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number_text(value, power)))
    unit = with_power(style.unit, power)
    axes.set_ylabel(
        f"{unit} per {per}" if per else unit_of_hour(variable, power) if variable.step_type == "accum" else unit,
        fontsize=9,
        color=INK,
    )


def _draw_series(
    axes: Axes, values: Values, variable: Variable, colour: str, fine: Period, coarse: Period, *, is_labelled: bool
) -> str:
    """Draw the values of one variable; return the period that its bars are totals of, if they are."""
    is_amount = variable.step_type == "accum"
    if not values.values.size:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    elif is_amount and values.is_hourly and draw_totals(axes, values, colour, coarse):
        return _LABELS[coarse][1]
    elif is_amount:
        draw_amounts(axes, values, colour)
    elif fine == coarse:
        draw_values(axes, values, colour, width=1.4)
    else:
        label = "as stored" if not values.is_hourly else _LABELS["h"][0]
        finer, coarser = (label if fine == "h" else _LABELS[fine][0], _LABELS[coarse][0]) if is_labelled else ("", "")
        if fine == "h":
            draw_values(axes, values, colour, width=0.5, alpha=0.45, label=finer)
        else:
            draw_means(axes, values, fine, colour, width=0.5, alpha=0.45, label=finer)
            # Values of which there are too few for a mean are drawn as what they are.
            alone = without_mean(values, fine)
            axes.plot(values.times[alone], values.values[alone], ".", color=colour, alpha=0.45, markersize=2.5)
        draw_means(axes, values, coarse, colour, width=1.5, label=coarser)
    return ""


def _name_panel(axes: Axes, shown: dict[Variable, Values]) -> None:
    """Print the names of a panel's variables above it, each in the colour of its line if there are several."""
    names = []
    for variable, values in shown.items():
        step = f", {values.step_text}" if values.step_text else ""
        names.append(f"{style_of(variable).title}{step}")
    if len(shown) == 1:
        axes.set_title(names[0], fontsize=9, loc="left", color=INK, pad=4)
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
            color=LINES[number],
        )


def _limit(axes: Axes, limits: Limits) -> None:
    """Set the ends of the vertical axis that are asked for.

    Raises:
        UsageError: if the other end, from the values, is on the wrong side.
    """
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
