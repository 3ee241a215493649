"""A year's days against those of other years: the usual range of each day of the year, and its extremes.

Here: these numbers. Not here: their picture (`band_figure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.climate.anomalies import FEWEST_YEARS_OF_BASELINE

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

    FloatArray = npt.NDArray[np.float64]

DAYS = 365
# Days before and after, whose values count as those of a day: the range is then of 15 values a year.
_AROUND = 7
_FEWEST_YEARS = 3
_USUAL = (10.0, 90.0)  # percentiles


@dataclass(frozen=True, eq=False)
class NormalBand:
    """Daily mean temperatures (degC) by day of the year, (365,), without 29 February; NaN where there is none.

    `values` are those of `year`. The others are of all days within a week of that day in `years`: `low` to `high` the
    10th to 90th percentile, `middle` the median, `lowest` and `highest` the extremes.
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
    def above(self) -> int:
        """How many days of the year are above the usual range."""
        return int((self.values > self.high).sum())

    @property
    def below(self) -> int:
        """How many days of the year are below the usual range."""
        return int((self.values < self.low).sum())

    @property
    def count(self) -> int:
        """How many days of the year there are."""
        return int(np.isfinite(self.values).sum())


def normal_band(answer: ClimateAnswer) -> NormalBand | None:
    """The last year of the record against the baseline; against all years before it, if the baseline has too few.

    None if there is no daily temperature, or fewer than three years to compare with.
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
    lowest, low, middle, high, highest = _percentiles(near, (0.0, _USUAL[0], 50.0, _USUAL[1], 100.0))
    return NormalBand(year, table[year], others, is_baseline, low, middle, high, lowest, highest)


def by_day_of_year(daily: pd.Series[float]) -> dict[int, FloatArray]:
    """The days of each year that has values, (365,), without 29 February."""
    days = daily.index
    dates = daily.to_frame("value").assign(year=days.year, month=days.month, day=days.day, number=days.day_of_year)  # type: ignore[attr-defined]
    dates = dates[~((dates["month"] == 2) & (dates["day"] == 29))]
    is_leap = (dates["year"] % 4 == 0) & ((dates["year"] % 100 != 0) | (dates["year"] % 400 == 0))
    numbers = dates["number"] - 1 - (is_leap & (dates["month"] > 2))
    table = {}
    for year, values in dates.assign(number=numbers).groupby("year"):
        if values["value"].notna().any():
            row = np.full(DAYS, np.nan)
            row[values["number"].to_numpy()] = values["value"].to_numpy(dtype=np.float64)
            table[int(str(year))] = row
    return table


def _percentiles(values: FloatArray, wanted: tuple[float, ...]) -> list[FloatArray]:
    """Percentiles of each day, (365,), of values (n, 365); NaN for a day without any."""
    there = np.isfinite(values).any(axis=0)
    found = []
    for percentile in wanted:
        row = np.full(DAYS, np.nan)
        row[there] = np.nanpercentile(values[:, there], percentile, axis=0)
        found.append(row)
    return found
