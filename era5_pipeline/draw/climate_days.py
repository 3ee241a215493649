"""A year's days against those of other years, and the mean of each month of the year, then and now."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.climate.anomalies import FEWEST_YEARS_OF_BASELINE
from era5_pipeline.draw import climate_axes as panels
from era5_pipeline.draw.figures import add_axes, new_figure
from era5_pipeline.maps.styles import INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.climate.answer import ClimateAnswer

    FloatArray = npt.NDArray[np.float64]

DAYS = 365
# The days before and after whose values count for a day: 15 values a year.
_AROUND = 7
_FEWEST_YEARS = 3
_USUAL = (10.0, 90.0)  # percentiles
# Of fewer years, a tenth is a few days of a single one: their range is from the lowest to the highest.
_FEWEST_YEARS_OF_PERCENTILES = 10


@dataclass(frozen=True, eq=False)
class NormalBand:
    """Daily mean temperatures (degC) by day of the year, (365,), without 29 February; NaN without a value.

    `values` are those of `year`. The others cover all days within a week of that day in `years`: `low` to `high` the
    10th to 90th percentile (of fewer than ten years the extremes), `middle` the median, `lowest` and `highest` the
    extremes.
    """

    year: int
    values: FloatArray
    years: tuple[int, ...]
    is_baseline: bool
    low: FloatArray
    middle: FloatArray
    high: FloatArray
    lowest: FloatArray
    highest: FloatArray

    @property
    def is_of_extremes(self) -> bool:
        """True if the years are too few for percentiles, so that `low` to `high` is from the lowest to the highest."""
        return len(self.years) < _FEWEST_YEARS_OF_PERCENTILES

    @property
    def above(self) -> int:
        """The number of days of the year above the usual range."""
        return int((self.values > self.high).sum())

    @property
    def below(self) -> int:
        """The number of days of the year below the usual range."""
        return int((self.values < self.low).sum())

    @property
    def count(self) -> int:
        """The number of days of the year."""
        return int(np.isfinite(self.values).sum())


def normal_band(answer: ClimateAnswer) -> NormalBand | None:
    """The last year of the record against the baseline; if that has too few years, against all years before.

    None without daily temperatures, or with fewer than three years to compare.
    """
    if "mean_temperature" not in answer.daily.columns or answer.daily["mean_temperature"].dropna().empty:
        return None
    table = by_day_of_year(answer.daily["mean_temperature"])
    year = max(table)
    before = tuple(one for one in table if one < year)
    baseline = tuple(one for one in before if one in answer.baseline.years)
    is_baseline = answer.baseline.is_used and len(baseline) >= FEWEST_YEARS_OF_BASELINE
    others = baseline if is_baseline else before
    if len(others) < _FEWEST_YEARS:
        return None
    held = np.stack([table[one] for one in others])
    around = np.concatenate([held[:, -_AROUND:], held, held[:, :_AROUND]], axis=1)
    near = np.stack([around[:, shift : shift + DAYS] for shift in range(2 * _AROUND + 1)]).reshape(-1, DAYS)
    usual = _USUAL if len(others) >= _FEWEST_YEARS_OF_PERCENTILES else (0.0, 100.0)
    there = np.isfinite(near).any(axis=0)
    found = np.full((5, DAYS), np.nan)
    found[:, there] = np.nanpercentile(near[:, there], (0.0, usual[0], 50.0, usual[1], 100.0), axis=0)
    lowest, low, middle, high, highest = found
    return NormalBand(year, table[year], others, is_baseline, low, middle, high, lowest, highest)


def by_day_of_year(daily: pd.Series[float]) -> dict[int, FloatArray]:
    """The days of each year with values, (365,), without 29 February."""
    days = pd.DatetimeIndex(daily.index)
    is_kept = (days.month != 2) | (days.day != 29)
    days = days[is_kept]
    numbers = days.day_of_year - (days.is_leap_year & (days.month > 2))
    table = pd.Series(daily.to_numpy(dtype=np.float64)[is_kept], index=[days.year, numbers]).unstack()
    rows = table.reindex(columns=range(1, DAYS + 1)).to_numpy()
    return {int(year): row for year, row in zip(table.index, rows, strict=True) if np.isfinite(row).any()}


_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def band_figure(band: NormalBand, width: float) -> Figure:
    """Draw a year's daily means over the usual range of each day, and over the extremes of the reference years.

    Of fewer than ten years, both are one: from the lowest to the highest.
    """
    figure, axes = (
        panels.new_panel(width, 3.3, legend_lines=1)
        if panels.is_wide(width)
        else panels.new_panel(width, 3.0, legend_lines=2)
    )
    days = np.arange(DAYS) + 0.5
    name = "middle 80 %"
    if band.is_of_extremes:
        name = f"lowest to highest of {len(band.years)} years"
    else:
        axes.fill_between(
            days, band.lowest, band.highest, color=panels.EXTREMES, linewidth=0.0, zorder=1, label="lowest to highest"
        )
    axes.fill_between(days, band.low, band.high, color=panels.BAND, linewidth=0.0, zorder=2, label=name)
    axes.plot(days, band.middle, color=panels.MEAN, linewidth=1.0, zorder=3, label="median")
    for edge, is_beyond, colour in (
        (band.high, band.values > band.high, panels.WARM),
        (band.low, band.values < band.low, panels.COLD),
    ):
        axes.fill_between(
            days, band.values, edge, where=is_beyond.tolist(), color=colour, linewidth=0.0, zorder=3.5, interpolate=True
        )
    axes.plot(days, band.values, color=INK, linewidth=1.1, zorder=4, label=f"{band.year}")
    panels.month_axis(axes, [float(start) for start in accumulate(_LENGTHS, initial=0)])
    panels.name_axis(axes, "Temperature", "°C")
    panels.print_legend(axes, 4 if panels.is_wide(width) else 2)
    return figure


# Inches.
_BOTTOM, _TOP = 0.3, 0.4
_TEMPERATURE, _PRECIPITATION, _GAP = 1.9, 1.2, 0.42
_STARTS = [number + 0.5 for number in range(13)]


@dataclass(frozen=True, eq=False)
class DrawnCycle:
    """Means of the months 1 to 12, (12,), over the years in `label`: temperature degC, precipitation mm."""

    label: str
    temperature: FloatArray
    precipitation: FloatArray | None


def seasonal_figure(answer: ClimateAnswer, width: float) -> Figure | None:
    """Draw the months of the baseline and of the last ten years; if too few years are complete, of all months."""
    cycles = cycles_of(answer)
    if not cycles:
        return None
    has_rain = any(cycle.precipitation is not None for cycle in cycles)
    height = _TOP + _TEMPERATURE + (_GAP + _PRECIPITATION if has_rain else 0.0) + _BOTTOM
    figure = new_figure(width, height)
    across = width - panels.LEFT - panels.RIGHT
    axes = add_axes(figure, panels.LEFT, height - _TOP - _TEMPERATURE, across, _TEMPERATURE)
    _draw_temperature(axes, cycles)
    if has_rain:
        axes.tick_params(axis="x", which="both", labelbottom=False)
        axes = add_axes(figure, panels.LEFT, _BOTTOM, across, _PRECIPITATION)
        _draw_precipitation(axes, cycles)
    return figure


def cycles_of(answer: ClimateAnswer) -> list[DrawnCycle]:
    """Then and now, if there are enough years; otherwise one cycle of all complete months."""
    seasons = answer.seasons
    found = []
    for name, span in (("then", seasons.then), ("now", seasons.now)):
        column = f"temperature_{name}"
        if span is not None and column in seasons.table and seasons.table[column].notna().any():
            rain = f"precipitation_{name}"
            of_rain = seasons.table[rain].to_numpy(dtype=np.float64) if rain in seasons.table else None
            of_months = seasons.table[column].to_numpy(dtype=np.float64)
            found.append(DrawnCycle(panels.span_text(span.first, span.last), of_months, of_rain))
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
    label = panels.span_text(years[0], years[-1])
    return [DrawnCycle(f"{label}, all complete months", means["temperature"], means.get("precipitation"))]


def draw_years_by_month(axes: Axes, answer: ClimateAnswer, years: Sequence[int]) -> None:
    """Draw the mean temperature of each month of a few years, as a line for each year."""
    months = answer.monthly["mean_temperature"].where(answer.monthly["temperature_complete"].astype(bool))
    for year, colour in zip(years, (panels.WARM, panels.COLD, panels.MEAN), strict=False):
        of_year = months[answer.monthly.index.year == year]  # type: ignore[attr-defined]
        numbers = of_year.index.month
        axes.plot(numbers, of_year, color=colour, linewidth=1.6, marker="o", markersize=3.5, label=f"{year}", zorder=3)
    panels.month_axis(axes, _STARTS)
    panels.name_axis(axes, "Temperature", "°C")


def _draw_temperature(axes: Axes, cycles: list[DrawnCycle]) -> None:
    panels.style_panel(axes)
    months = np.arange(1, 13)
    for number, cycle in enumerate(cycles):
        is_last = number == len(cycles) - 1
        axes.plot(
            months,
            cycle.temperature,
            color=panels.WARM if is_last else panels.MEAN,
            linewidth=1.6,
            marker="o",
            markersize=3.5 if is_last else 3.0,
            linestyle="-" if is_last else "--",
            label=cycle.label,
            zorder=3 + number,
        )
    panels.month_axis(axes, _STARTS)
    panels.name_axis(axes, "Temperature", "°C")
    panels.print_legend(axes, 2)


def _draw_precipitation(axes: Axes, cycles: list[DrawnCycle]) -> None:
    panels.style_panel(axes)
    months = np.arange(1, 13)
    width = 0.8 / len(cycles)
    for number, cycle in enumerate(cycles):
        if cycle.precipitation is None:
            continue
        middle = months + (number - (len(cycles) - 1) / 2) * width
        axes.bar(
            middle,
            cycle.precipitation,
            width=width,
            color=panels.RAIN if number == len(cycles) - 1 else panels.BAND,
            zorder=2,
        )
    axes.set_title("Precipitation of a month", fontsize=panels.LETTERS, loc="left", color=INK, pad=4)
    panels.month_axis(axes, _STARTS)
    panels.name_axis(axes, "Precipitation", "mm")
