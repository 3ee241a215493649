"""A year's days against the usual range of each day of the year."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.climate_plots.climate_axes import (
    BAND,
    COLD,
    EXTREMES,
    MEAN,
    WARM,
    columns_of_legend,
    is_wide,
    month_axis,
    name_unit,
    new_panel,
    print_legend,
)
from era5_pipeline.query.climate_plots.normal_band import DAYS
from era5_pipeline.query.plots.variable_styles import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate_plots.normal_band import NormalBand

_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def band_figure(band: NormalBand, width: float) -> Figure:
    """Draw a year's daily means over the usual range of each day, and over the extremes of the years compared with."""
    figure, axes = new_panel(width, 3.3, legend_lines=1) if is_wide(width) else new_panel(width, 3.0, legend_lines=2)
    days = np.arange(DAYS) + 0.5
    axes.fill_between(
        days, band.lowest, band.highest, color=EXTREMES, linewidth=0.0, zorder=1, label="lowest to highest"
    )
    axes.fill_between(days, band.low, band.high, color=BAND, linewidth=0.0, zorder=2, label="middle 80 %")
    axes.plot(days, band.middle, color=MEAN, linewidth=1.0, zorder=3, label="median")
    for edge, is_beyond, colour in (
        (band.high, band.values > band.high, WARM),
        (band.low, band.values < band.low, COLD),
    ):
        axes.fill_between(
            days, band.values, edge, where=is_beyond.tolist(), color=colour, linewidth=0.0, zorder=3.5, interpolate=True
        )
    axes.plot(days, band.values, color=INK, linewidth=1.1, zorder=4, label=f"{band.year}")
    month_axis(axes, [float(start) for start in accumulate(_LENGTHS, initial=0)])
    name_unit(axes, "°C")
    print_legend(axes, columns_of_legend(axes))
    return figure
