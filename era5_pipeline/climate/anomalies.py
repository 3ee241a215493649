"""Anomalies: temperatures minus their mean over baseline years, and how complete the baseline is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from era5_pipeline.climate.answer import Baseline, YearSpan
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.times import NORMAL_PERIOD

if TYPE_CHECKING:
    from collections.abc import Sequence

# With fewer, single years decide what is normal.
FEWEST_YEARS_OF_BASELINE = 10
# WMO (No. 1203) asks for 24 of the 30 years of a normal.
_SHARE_OF_YEARS = 0.8


def parse_baseline(text: str) -> YearSpan:
    """Parse the years of a baseline, `1961-1990`."""
    years = YearSpan.parse(text)
    remedy = "A baseline is FIRST-LAST, for example 1991-2020 or 1961-1990."
    if years is None:
        raise UsageError(f"{text!r} is not a baseline", remedy=remedy)
    if years.first > years.last:
        raise UsageError(f"the baseline {years} is empty", remedy="Give the earlier year first.")
    if len(years) < FEWEST_YEARS_OF_BASELINE:
        raise UsageError(
            f"the baseline {years} has {len(years)} year{'' if len(years) == 1 else 's'}, fewer than "
            f"{FEWEST_YEARS_OF_BASELINE}: single years would decide what is normal",
            remedy=remedy,
        )
    return years


DEFAULT_BASELINE = parse_baseline(NORMAL_PERIOD)


def baseline_of(years: YearSpan, complete_years: Sequence[int]) -> Baseline:
    """Assess a baseline by the complete years of the record."""
    within = [year for year in complete_years if year in years]
    count = len(within)
    are = "is" if count < 2 else "are"
    have = f"{count or 'none'} of the {len(years)} years of the baseline {years} {are} complete"
    if count < FEWEST_YEARS_OF_BASELINE:
        note = f"{have}, but anomalies need at least {FEWEST_YEARS_OF_BASELINE}, so there are none."
        return Baseline(years, count, is_used=False, note=note)
    if count < _SHARE_OF_YEARS * len(years):
        note = f"Only {have}: a normal should rest on at least {_SHARE_OF_YEARS * 100:.0f} % of its years."
        return Baseline(years, count, is_used=True, note=note)
    return Baseline(years, count, is_used=True, note=None)


def yearly_anomalies(yearly: pd.DataFrame, of_baseline: pd.DataFrame, baseline: Baseline) -> pd.Series:
    """The anomaly of each complete year of a yearly table; NaN for other years, and without a baseline.

    `of_baseline` is a yearly table that holds the baseline's years.
    """
    complete = yearly["mean_temperature"].where(yearly["temperature_complete"])
    if not baseline.is_used:
        return complete * float("nan")
    normal = _in_span(of_baseline, of_baseline.index, baseline.years)["mean_temperature"].mean()
    return complete - normal


def monthly_anomalies(monthly: pd.DataFrame, of_baseline: pd.DataFrame, baseline: Baseline) -> pd.Series:
    """The anomaly of each complete month from the mean of that month in the baseline, as `yearly_anomalies`."""
    complete = monthly["mean_temperature"].where(monthly["temperature_complete"])
    if not baseline.is_used:
        return complete * float("nan")
    months = _in_span(of_baseline, pd.DatetimeIndex(of_baseline.index).year, baseline.years)["mean_temperature"]
    normals = months.groupby(pd.DatetimeIndex(months.index).month).mean()
    own = pd.Series(pd.DatetimeIndex(monthly.index).month, index=monthly.index)
    return complete - own.map(normals)


def _in_span(table: pd.DataFrame, years: pd.Index, span: YearSpan) -> pd.DataFrame:
    """The rows within the span whose temperature is complete."""
    wanted = (years >= span.first) & (years <= span.last) & table["temperature_complete"].to_numpy()
    kept: pd.DataFrame = table.loc[wanted]
    return kept
