"""The mean of each month of the year, in the baseline and in the last years: how the seasons have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from era5_pipeline.query.climate.climate_answer import SeasonalCycle, YearSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.query.climate.climate_answer import Baseline
    from era5_pipeline.query.climate.quantities import Element

RECENT_YEARS = 10
_COLUMNS: dict[Element, str] = {
    "temperature": "mean_temperature",
    "precipitation": "precipitation",
    "wind": "mean_wind_speed",
}


def seasonal_cycle(monthly: pd.DataFrame, baseline: Baseline, complete_years: Sequence[int]) -> SeasonalCycle:
    """The seasonal cycle of the baseline's years, and of the last ten of the complete years (fewer if there are fewer).

    `monthly` holds the months of both; only complete months count.
    """
    recent = list(complete_years)[-RECENT_YEARS:]
    then = baseline.years if baseline.is_used else None
    now = YearSpan(recent[0], recent[-1]) if recent else None
    table = pd.DataFrame(index=pd.RangeIndex(1, 13, name="month"))
    for element, column in _COLUMNS.items():
        if column not in monthly:
            continue
        complete = monthly[column][monthly[f"{element}_complete"]]
        table[f"{element}_then"] = _means(complete, then)
        table[f"{element}_now"] = _means(complete, now)
        table[f"{element}_change"] = table[f"{element}_now"] - table[f"{element}_then"]
    return SeasonalCycle(table, then, now)


def _means(months: pd.Series, years: YearSpan | None) -> pd.Series:
    """The mean of each month of the year over these years; NaN without any."""
    index = pd.DatetimeIndex(months.index)
    wanted = (index.year >= years.first) & (index.year <= years.last) if years else index.year < 0
    return months[wanted].groupby(index[wanted].month).mean().reindex(range(1, 13))
