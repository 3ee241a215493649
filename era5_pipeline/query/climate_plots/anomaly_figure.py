"""Yearly mean temperatures as bars above and below a reference, with trends and the band of the longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate.climate_words import decimals_of
from era5_pipeline.query.climate_plots.climate_axes import (
    COLD,
    WARM,
    draw_bars,
    is_wide,
    name_unit,
    new_panel,
    print_legend,
    year_axis,
)
from era5_pipeline.query.climate_plots.drawn_years import complete_years, reference_of, signed, trend_line
from era5_pipeline.query.plots.variable_styles import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer
    from era5_pipeline.query.climate_plots.drawn_years import DrawnYears


def anomaly_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the differences of complete years from the baseline; from their own mean, if the baseline has too few."""
    means = complete_years(answer, "mean_temperature")
    if means is None:
        return None
    lines = len(trends_drawn(answer))
    side_by_side = is_wide(width)
    figure, axes = new_panel(width, 3.0 if side_by_side else 2.7, legend_lines=min(lines, 1) if side_by_side else lines)
    draw_anomalies(axes, answer, means)
    if lines:
        print_legend(axes, 2 if side_by_side else 1)
    return figure


def draw_anomalies(axes: Axes, answer: ClimateAnswer, means: DrawnYears) -> None:
    """Draw the bars and trends into axes; the gid of each bar is `year-1994`. The legend is not drawn."""
    reference = reference_of(answer, means).value
    pairs = [(year, value - reference) for year, value in means.pairs()]
    draw_bars(axes, pairs, [WARM if difference >= 0.0 else COLD for _, difference in pairs])
    axes.axhline(0.0, color=FAINT, linewidth=0.8, zorder=2.5)
    for number, trend in enumerate(trends_drawn(answer)):
        drawn = trend_line(means, trend)
        slope = signed(trend.slope, decimals_of(trend))
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
    year_axis(axes, int(means.years[0]), int(means.years[-1]))
    name_unit(axes, "°C")


def trends_drawn(answer: ClimateAnswer) -> tuple[Trend, ...]:
    """The trends of the mean temperature: over the whole record, and since 1979 where that is another."""
    both = (answer.trend_of("mean_temperature"), answer.trend_of("mean_temperature", "since_1979"))
    found = [trend for trend in both if isinstance(trend, Trend)]
    return tuple(found[:1] if len(found) == 2 and found[0].years == found[1].years else found)
