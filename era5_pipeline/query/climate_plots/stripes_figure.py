"""Warming stripes: a stripe for each year, from blue to red, after an idea of Ed Hawkins (University of Reading)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Rectangle

from era5_pipeline.query.climate_plots.climate_axes import LETTERS, is_wide, year_axis
from era5_pipeline.query.climate_plots.drawn_years import complete_years, reference_of
from era5_pipeline.query.plots.figures import add_axes, new_figure
from era5_pipeline.query.plots.variable_styles import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer
    from era5_pipeline.query.climate_plots.drawn_years import DrawnYears

# ColorBrewer's Blues and Reds, eight of each, as in the original.
COLOURS = (
    *("#08306b", "#08519c", "#2171b5", "#4292c6", "#6baed6", "#9ecae1", "#c6dbef", "#deebf7"),
    *("#fee0d2", "#fcbba1", "#fc9272", "#fb6a4a", "#ef3b2c", "#cb181d", "#a50f15", "#67000d"),
)
# The ends of the scale, in standard deviations of the yearly means, as in the original.
_DEVIATIONS = 2.6
# The shortest scale (degC): with a few years that are alike, small differences are not drawn as large ones.
_SHORTEST = 0.5
# Wider than a year, so that no seam is seen between stripes.
_OVERLAP = 0.04
_HEIGHT = {True: 1.75, False: 1.35}  # inches, of a wide figure and of a narrow one
_LABELS = 0.26


def stripes_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw a stripe for each year from the first complete one to the last; an incomplete year is a gap."""
    means = complete_years(answer, "mean_temperature")
    if means is None:
        return None
    height = _HEIGHT[is_wide(width)]
    figure = new_figure(width, height)
    axes = add_axes(figure, 0.08, _LABELS, width - 0.16, height - _LABELS)
    draw_stripes(axes, answer, means)
    return figure


def draw_stripes(axes: Axes, answer: ClimateAnswer, means: DrawnYears) -> None:
    """Draw the stripes into axes; the gid of each is `year-1994`."""
    limit = stripes_limit(means)
    colours, norm = ListedColormap(COLOURS), Normalize(-limit, limit)
    reference = reference_of(answer, means).value
    for year, value in means.pairs():
        stripe = Rectangle(
            (year - 0.5, 0.0), 1.0 + _OVERLAP, 1.0, linewidth=0.0, color=colours(norm(value - reference))
        )
        stripe.set_gid(f"year-{year}")
        axes.add_patch(stripe)
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([])
    year_axis(axes, int(means.years[0]), int(means.years[-1]))
    axes.set_xlim(means.years[0] - 0.5, means.years[-1] + 0.5)
    axes.tick_params(labelsize=LETTERS, width=0.5, length=3, colors=INK)
    axes.spines[:].set_visible(False)


def stripes_limit(means: DrawnYears) -> float:
    """The difference from the reference (degC) that has the darkest colour."""
    return max(_DEVIATIONS * float(np.nanstd(means.values)), _SHORTEST)
