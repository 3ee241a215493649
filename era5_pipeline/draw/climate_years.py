"""Yearly figures: warming stripes, anomalies and trends, day counts, precipitation; and that of `era5 climate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Rectangle

from era5_pipeline.climate.answer import BY_QUANTITY, Trend
from era5_pipeline.climate.words import decimals_of
from era5_pipeline.draw import climate_axes as panels
from era5_pipeline.draw import figures
from era5_pipeline.draw.climate_days import draw_years_by_month
from era5_pipeline.maps.styles import FAINT, INK, unit_text
from era5_pipeline.model.errors import NoDataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.climate.answer import ClimateAnswer
    from era5_pipeline.draw.climate_axes import DrawnYears


def anomaly_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the anomalies of complete years from the baseline; if it has too few years, from their own mean.

    None if there are too few years for either.
    """
    means = panels.complete_years(answer, "mean_temperature")
    if means is None or not panels.has_anomalies(answer, means):
        return None
    lines = len(trends_drawn(answer))
    side_by_side = panels.is_wide(width)
    figure, axes = panels.new_panel(
        width, 3.0 if side_by_side else 2.7, legend_lines=min(lines, 1) if side_by_side else lines
    )
    draw_anomalies(axes, answer, means)
    if lines:
        panels.print_legend(axes, 2 if side_by_side else 1)
    return figure


def draw_anomalies(axes: Axes, answer: ClimateAnswer, means: DrawnYears) -> None:
    """Draw the bars and trends into axes; the gid of each bar is `year-1994`. The legend is drawn separately."""
    reference = panels.reference_of(answer, means).value
    pairs = [(year, value - reference) for year, value in means.pairs()]
    panels.draw_bars(axes, pairs, [panels.WARM if difference >= 0.0 else panels.COLD for _, difference in pairs])
    axes.axhline(0.0, color=FAINT, linewidth=0.8, zorder=2.5)
    for number, trend in enumerate(trends_drawn(answer)):
        drawn = panels.trend_line(means, trend)
        slope = panels.signed(trend.slope, decimals_of(trend))
        if number == 0:
            edges = (drawn.low - reference, drawn.high - reference)
            axes.fill_between(drawn.years, *edges, color=FAINT, alpha=0.2, linewidth=0.0, zorder=1)
            for edge in edges:
                axes.plot(drawn.years, edge, color=FAINT, linewidth=0.7, zorder=3)
        axes.plot(
            drawn.years,
            drawn.line - reference,
            color=INK,
            linewidth=1.6,
            linestyle="-" if number == 0 else "--",
            zorder=4,
            label=f"{trend.years.first}\u2013{trend.years.last}: {slope} °C per decade",
        )
    panels.year_axis(axes, int(means.years[0]), int(means.years[-1]))
    panels.name_axis(axes, "Anomaly", "°C")


def trends_drawn(answer: ClimateAnswer) -> tuple[Trend, ...]:
    """The trends of the mean temperature: over the whole record, and since 1979 if that differs."""
    both = (answer.trend_of("mean_temperature"), answer.trend_of("mean_temperature", "since_1979"))
    found = [trend for trend in both if isinstance(trend, Trend)]
    return tuple(found[:1] if len(found) == 2 and found[0].years == found[1].years else found)


# --- Warming stripes: a stripe for each year, from blue to red, after an idea of Ed Hawkins (University of Reading) ---


# ColorBrewer's Blues and Reds, eight of each, as in the original.
COLOURS = (
    *("#08306b", "#08519c", "#2171b5", "#4292c6", "#6baed6", "#9ecae1", "#c6dbef", "#deebf7"),
    *("#fee0d2", "#fcbba1", "#fc9272", "#fb6a4a", "#ef3b2c", "#cb181d", "#a50f15", "#67000d"),
)
# The ends of the scale, in standard deviations of the yearly means, as in the original.
_DEVIATIONS = 2.6
# The shortest scale (degC), so that a few similar years do not exaggerate small differences.
_SHORTEST = 0.5
# Wider than a year, so that no seams show between stripes.
_OVERLAP = 0.04
_HEIGHT = {True: 1.75, False: 1.35}  # inches, of a wide figure and of a narrow one
_LABELS = 0.26


def stripes_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw a stripe for each year from the first complete one to the last; an incomplete year is a gap.

    None if there are too few years.
    """
    means = panels.complete_years(answer, "mean_temperature")
    if means is None or not panels.has_stripes(means):
        return None
    height = _HEIGHT[panels.is_wide(width)]
    figure = figures.new_figure(width, height)
    axes = figures.add_axes(figure, panels.LEFT, _LABELS, width - panels.LEFT - panels.RIGHT, height - _LABELS)
    draw_stripes(axes, answer, means)
    return figure


def draw_stripes(axes: Axes, answer: ClimateAnswer, means: DrawnYears) -> None:
    """Draw the stripes into axes; the gid of each is `year-1994`."""
    limit = stripes_limit(means)
    colours, norm = ListedColormap(COLOURS), Normalize(-limit, limit)
    reference = panels.reference_of(answer, means).value
    for year, value in means.pairs():
        stripe = Rectangle(
            (year - 0.5, 0.0), 1.0 + _OVERLAP, 1.0, linewidth=0.0, color=colours(norm(value - reference))
        )
        stripe.set_gid(f"year-{year}")
        axes.add_patch(stripe)
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([])
    panels.year_axis(axes, int(means.years[0]), int(means.years[-1]))
    axes.tick_params(labelsize=panels.LETTERS, width=0.5, length=3, colors=INK)
    axes.spines[:].set_visible(False)


def stripes_limit(means: DrawnYears) -> float:
    """The difference from the reference (degC) with the darkest colour."""
    return max(_DEVIATIONS * float(np.nanstd(means.values)), _SHORTEST)


# From the hottest: the first that occurs in half of the years is drawn.
_HOT = ("very_hot_days", "hot_days", "summer_days")
_COLOURS = {"tropical_nights": "#8e3b6f", "frost_days": panels.COLD}
# Inches.
_COUNT_BOTTOM, _PANEL, _COUNT_GAP = 0.32, 1.15, 0.42


def day_count_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw a panel for each kind of day of `counted_days`, with the mean of several years as a line."""
    names = counted_days(answer)
    if not names:
        return None
    height = _COUNT_BOTTOM + len(names) * (_PANEL + _COUNT_GAP)
    figure = figures.new_figure(width, height)
    for number, name in enumerate(names):
        drawn = panels.complete_years(answer, name)
        if drawn is None:
            continue
        bottom = height - (number + 1) * (_PANEL + _COUNT_GAP)
        axes = figures.add_axes(figure, panels.LEFT, bottom, width - panels.LEFT - panels.RIGHT, _PANEL)
        panels.style_panel(axes)
        colour = _COLOURS.get(name, panels.WARM)
        panels.draw_bars(axes, drawn.pairs(), colour, name)
        if drawn.count > 1:
            axes.axhline(drawn.mean, color=FAINT, linewidth=0.9, linestyle="--", zorder=3)
        quantity = BY_QUANTITY[name]
        above = quantity.definition.removeprefix("days whose ").replace("degC", unit_text("degC"))
        axes.set_title(f"{quantity.label.capitalize()}: {above}", fontsize=panels.LETTERS, loc="left", color=INK, pad=4)
        axes.set_ylim(0.0, max(float(np.nanmax(drawn.values)) * 1.08, 1.0))
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
        panels.year_axis(axes, int(drawn.years[0]), int(drawn.years[-1]))
        axes.tick_params(labelbottom=number == len(names) - 1)
        panels.name_axis(axes, "Days")
    return figure


def counted_days(answer: ClimateAnswer) -> tuple[str, ...]:
    """The kinds of days to draw: the hottest that half of the years reach, tropical nights and frost days.

    Nights and frost are left out if no year has any. Empty without a complete year.
    """
    names = []
    for name in _HOT:
        drawn = panels.complete_years(answer, name)
        if drawn is None:
            return ()
        if name == _HOT[-1] or np.nanmedian(drawn.values) >= 1.0:
            names.append(name)
            break
    for name in ("tropical_nights", "frost_days"):
        drawn = panels.complete_years(answer, name)
        if drawn is not None and np.nanmax(drawn.values) > 0.0:
            names.append(name)
    return tuple(names)


def precipitation_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the totals of complete years, with the mean of several, and the trend if its interval excludes zero."""
    drawn = panels.complete_years(answer, "precipitation")
    if drawn is None:
        return None
    figure, axes = panels.new_panel(width, 2.5 if panels.is_wide(width) else 2.3)
    panels.draw_bars(axes, drawn.pairs(), panels.RAIN)
    if drawn.count > 1:
        label = f"mean {BY_QUANTITY['precipitation'].rounded(drawn.mean)} mm"
        axes.axhline(drawn.mean, color=FAINT, linewidth=1.0, linestyle="--", zorder=3, label=label)
    trend = answer.trend_of("precipitation")
    if isinstance(trend, Trend) and trend.is_significant:
        fitted = panels.trend_line(drawn, trend)
        axes.plot(fitted.years, fitted.line, color=INK, linewidth=1.6, zorder=4, label="trend")
    panels.year_axis(axes, int(drawn.years[0]), int(drawn.years[-1]))
    panels.name_axis(axes, "Precipitation", "mm")
    if drawn.count > 1:
        panels.print_legend(axes, 2)
    return figure


# --- The figure of `era5 climate`: stripes above anomalies and trend, with title, notes and credit ---
#
# Too few years to compare are drawn month by month.


# Inches.
_WIDTH, _LEFT, _RIGHT = 9.0, 0.75, 0.3
_TOP, _STRIPES, _GAP, _LEGEND, _BARS, _BOTTOM = 0.85, 1.3, 0.62, 0.24, 2.9, 0.75


def climate_picture(answer: ClimateAnswer, title: str | None = None) -> Figure:
    """Draw the stripes of an answer, and below them the anomalies with trend and interval.

    Of one to three complete years there are no stripes; without a baseline, the lines are their months instead of
    anomalies. `title` replaces the usual one of place and contents.
    """
    means = panels.complete_years(answer, "mean_temperature")
    if means is None:
        raise NoDataError(
            f"{answer.place.title}: no year has all of its hours of temperature: nothing to draw",
            remedy="Load all months of a year: era5 load --from YYYY-01 --to YYYY-12; era5 status shows what is there.",
        )
    width = _WIDTH - _LEFT - _RIGHT
    lines = figures.wrapped_notes(_notes(answer), width)
    bottom = _BOTTOM + figures.notes_height(lines)
    figure = figures.new_figure(
        _WIDTH, bottom + _BARS + (_GAP + _STRIPES if panels.has_stripes(means) else _LEGEND) + _TOP
    )
    if panels.has_stripes(means):
        stripes = figures.add_axes(figure, _LEFT, bottom + _BARS + _GAP, width, _STRIPES)
        draw_stripes(stripes, answer, means)
        stripes.tick_params(labelbottom=False, bottom=False)
    axes = figures.add_axes(figure, _LEFT, bottom, width, _BARS)
    panels.style_panel(axes)
    what = "Yearly"
    if panels.has_anomalies(answer, means):
        draw_anomalies(axes, answer, means)
        panels.name_axis(axes, f"Anomaly from {panels.reference_of(answer, means).words}", "°C")
    else:
        what = "Monthly"
        draw_years_by_month(axes, answer, [year for year, _ in means.pairs()])
    if axes.get_legend_handles_labels()[1]:
        panels.print_legend(axes, 3)
    years = panels.span_text(int(means.years[0]), int(means.years[-1]))
    name = f"{what} mean temperature, {answer.place.title}" if title is None else title
    if answer.provenance.notice:
        name = f"{answer.provenance.notice.partition(':')[0]}: {name}"
        panels.mark_generated(figure)
    figures.print_title(figure, _LEFT, name, f"{years}; {answer.place.description}")
    figures.print_notes(figure, _LEFT, lines)
    figures.print_credit(figure, _LEFT, answer.provenance.credit)
    return figure


def _notes(answer: ClimateAnswer) -> list[str]:
    """The notes of the figure: the interval of the trend, or why it has none; and missing data."""
    trend = answer.trend_of("mean_temperature")
    if isinstance(trend, Trend):
        slope, low, high = (
            panels.signed(value, decimals_of(trend, 3)) for value in (trend.slope, trend.low, trend.high)
        )
        said = (
            f"Trend {trend.years.first}\u2013{trend.years.last}: {slope} °C per decade, 95 % interval {low} to {high}; "
            f"grey: {panels.BAND_WORDS}"
        )
    else:
        said = f"No trend: {trend.reason}"
    notice = answer.provenance.notice
    return [*([notice] if notice else []), said, *answer.notes]
