"""Hot days, tropical nights and frost days of each year, as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib import ticker

from era5_pipeline.query.climate.quantities import BY_QUANTITY
from era5_pipeline.query.climate_plots.climate_axes import (
    COLD,
    LETTERS,
    WARM,
    draw_bars,
    name_unit,
    style_panel,
    year_axis,
)
from era5_pipeline.query.climate_plots.drawn_years import complete_years
from era5_pipeline.query.plots.figures import add_axes, new_figure
from era5_pipeline.query.plots.variable_styles import FAINT, INK, unit_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

# From the hottest: the first that half of the years have is drawn.
_HOT = ("very_hot_days", "hot_days", "summer_days")
_COLOURS = {"tropical_nights": "#8e3b6f", "frost_days": COLD}
# Inches.
_LEFT, _RIGHT, _BOTTOM, _PANEL, _GAP = 0.58, 0.12, 0.32, 1.15, 0.42


def day_count_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw a panel for each kind of day of `counted_days`, with the mean of its years as a line."""
    names = counted_days(answer)
    if not names:
        return None
    height = _BOTTOM + len(names) * (_PANEL + _GAP)
    figure = new_figure(width, height)
    for number, name in enumerate(names):
        drawn = complete_years(answer, name)
        if drawn is None:
            continue
        bottom = height - (number + 1) * (_PANEL + _GAP)
        axes = add_axes(figure, _LEFT, bottom, width - _LEFT - _RIGHT, _PANEL)
        style_panel(axes)
        colour = _COLOURS.get(name, WARM)
        draw_bars(axes, drawn.pairs(), colour, name)
        axes.axhline(drawn.mean, color=FAINT, linewidth=0.9, linestyle="--", zorder=3)
        quantity = BY_QUANTITY[name]
        above = quantity.definition.removeprefix("days whose ").replace("degC", unit_text("degC"))
        axes.set_title(f"{quantity.label.capitalize()}: {above}", fontsize=LETTERS, loc="left", color=INK, pad=4)
        axes.set_ylim(0.0, max(float(np.nanmax(drawn.values)) * 1.08, 1.0))
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
        year_axis(axes, int(drawn.years[0]), int(drawn.years[-1]))
        axes.tick_params(labelbottom=number == len(names) - 1)
        name_unit(axes, "days")
    return figure


def counted_days(answer: ClimateAnswer) -> tuple[str, ...]:
    """The kinds of days to draw: hot ones by the highest limit that half of the years reach, then nights and frost.

    Nights and frost are left out where no year has any. Without a complete year: none.
    """
    names = []
    for name in _HOT:
        drawn = complete_years(answer, name)
        if drawn is None:
            return ()
        if name == _HOT[-1] or np.nanmedian(drawn.values) >= 1.0:
            names.append(name)
            break
    for name in ("tropical_nights", "frost_days"):
        drawn = complete_years(answer, name)
        if drawn is not None and np.nanmax(drawn.values) > 0.0:
            names.append(name)
    return tuple(names)
