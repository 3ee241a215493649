"""The mean of each month of the year, then and now: temperature as lines, precipitation as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.climate_plots.climate_axes import (
    BAND,
    LETTERS,
    MEAN,
    RAIN,
    WARM,
    month_axis,
    name_unit,
    print_legend,
    style_panel,
)
from era5_pipeline.query.plots.figures import add_axes, new_figure
from era5_pipeline.query.plots.variable_styles import INK

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

    FloatArray = npt.NDArray[np.float64]

# Inches.
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.58, 0.12, 0.3, 0.4
_TEMPERATURE, _PRECIPITATION, _GAP = 1.9, 1.2, 0.42
_STARTS = [number + 0.5 for number in range(13)]


@dataclass(frozen=True, eq=False)
class DrawnCycle:
    """Means of the months 1 to 12, (12,), of the years that `label` names: temperature degC, precipitation mm."""

    label: str
    temperature: FloatArray
    precipitation: FloatArray | None


def seasonal_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the months of the baseline and of the last ten years; of all complete months, if there are too few years."""
    cycles = cycles_of(answer)
    if not cycles:
        return None
    has_rain = any(cycle.precipitation is not None for cycle in cycles)
    height = _TOP + _TEMPERATURE + (_GAP + _PRECIPITATION if has_rain else 0.0) + _BOTTOM
    figure = new_figure(width, height)
    across = width - _LEFT - _RIGHT
    axes = add_axes(figure, _LEFT, height - _TOP - _TEMPERATURE, across, _TEMPERATURE)
    _draw_temperature(axes, cycles)
    if has_rain:
        axes.tick_params(axis="x", which="both", labelbottom=False)
        axes = add_axes(figure, _LEFT, _BOTTOM, across, _PRECIPITATION)
        _draw_precipitation(axes, cycles)
    return figure


def cycles_of(answer: ClimateAnswer) -> list[DrawnCycle]:
    """Then and now, as far as there are years enough; otherwise one cycle of all complete months."""
    seasons = answer.seasons
    found = []
    for name, span in (("then", seasons.then), ("now", seasons.now)):
        column = f"temperature_{name}"
        if span is not None and column in seasons.table and seasons.table[column].notna().any():
            rain = f"precipitation_{name}"
            found.append(
                DrawnCycle(
                    f"{span.first}\u2013{span.last}",
                    seasons.table[column].reindex(range(1, 13)).to_numpy(dtype=np.float64),
                    seasons.table[rain].reindex(range(1, 13)).to_numpy(dtype=np.float64)
                    if rain in seasons.table
                    else None,
                )
            )
    if found or "mean_temperature" not in answer.monthly.columns:
        return found
    means = {}
    for element, column in (("temperature", "mean_temperature"), ("precipitation", "precipitation")):
        if column in answer.monthly.columns:
            values = answer.monthly[column].where(answer.monthly[f"{element}_complete"].astype(bool))
            by_month = values.groupby(answer.monthly.index.month).mean()  # type: ignore[attr-defined]
            means[element] = by_month.reindex(range(1, 13)).to_numpy(dtype=np.float64)
    if not np.isfinite(means["temperature"]).any():
        return []
    years = answer.monthly.index.year  # type: ignore[attr-defined]
    label = f"{years[0]}\u2013{years[-1]}" if years[0] != years[-1] else f"{years[0]}"
    return [DrawnCycle(f"{label}, all complete months", means["temperature"], means.get("precipitation"))]


def _draw_temperature(axes: Axes, cycles: list[DrawnCycle]) -> None:
    style_panel(axes)
    months = np.arange(1, 13)
    for number, cycle in enumerate(cycles):
        is_last = number == len(cycles) - 1
        axes.plot(
            months,
            cycle.temperature,
            color=WARM if is_last else MEAN,
            linewidth=1.6,
            marker="o",
            markersize=3.5 if is_last else 3.0,
            linestyle="-" if is_last else "--",
            label=cycle.label,
            zorder=3 + number,
        )
    month_axis(axes, _STARTS)
    name_unit(axes, "°C")
    print_legend(axes, 2)


def _draw_precipitation(axes: Axes, cycles: list[DrawnCycle]) -> None:
    style_panel(axes)
    months = np.arange(1, 13)
    width = 0.8 / len(cycles)
    for number, cycle in enumerate(cycles):
        if cycle.precipitation is None:
            continue
        middle = months + (number - (len(cycles) - 1) / 2) * width
        axes.bar(middle, cycle.precipitation, width=width, color=RAIN if number == len(cycles) - 1 else BAND, zorder=2)
    axes.set_title("Precipitation of a month", fontsize=LETTERS, loc="left", color=INK, pad=4)
    month_axis(axes, _STARTS)
    name_unit(axes, "mm")
