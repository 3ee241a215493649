"""Precipitation of each year, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate_plots.climate_axes import (
    RAIN,
    draw_bars,
    is_wide,
    name_unit,
    new_panel,
    print_legend,
    year_axis,
)
from era5_pipeline.query.climate_plots.drawn_years import complete_years, trend_line
from era5_pipeline.query.plots.variable_styles import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer


def precipitation_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the totals of complete years, with their mean, and the trend if its interval leaves out zero."""
    drawn = complete_years(answer, "precipitation")
    if drawn is None:
        return None
    figure, axes = new_panel(width, 2.5 if is_wide(width) else 2.3)
    draw_bars(axes, drawn.pairs(), RAIN)
    axes.axhline(drawn.mean, color=FAINT, linewidth=1.0, linestyle="--", zorder=3, label=f"mean {drawn.mean:,.0f} mm")
    trend = answer.trend_of("precipitation")
    if isinstance(trend, Trend) and trend.is_significant:
        fitted = trend_line(drawn, trend)
        axes.plot(fitted.years, fitted.line, color=INK, linewidth=1.6, zorder=4, label="trend")
    year_axis(axes, int(drawn.years[0]), int(drawn.years[-1]))
    name_unit(axes, "mm")
    print_legend(axes, 2)
    return figure
