"""Indices of a year, counted from its days: hot days, tropical nights, frost days, wet days, spells.

Definitions and names are those of ETCCDI where it has them (SU, TR, FD, R1mm, Rx1day, CDD, CWD), with daily extremes of
hourly values.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

SUMMER_DAY, HOT_DAY, VERY_HOT_DAY = 25.0, 30.0, 35.0  # degC, exceeded by the highest hour
TROPICAL_NIGHT = 20.0  # degC, exceeded by the lowest hour
FROST = 0.0  # degC, the lowest hour is below
WET_DAY = 1.0  # mm, reached by the day's total


def yearly_indices(daily: pd.DataFrame) -> pd.DataFrame:
    """The indices of each year of a table of days (`daily_values`), index `year`; days without a value are left out.

    NaN for a year without any value. A spell does not continue over the end of the year, nor over a missing day.
    """
    years = pd.DatetimeIndex(daily.index).year
    table = pd.DataFrame(index=pd.Index(np.unique(years), name="year", dtype=np.int64))

    def count(column: str, is_such: pd.Series) -> pd.Series:
        counted: pd.Series = is_such.groupby(years).sum().astype(np.float64)
        return counted.where(daily[column].notna().groupby(years).any())

    if "max_temperature" in daily:
        highest, lowest = daily["max_temperature"], daily["min_temperature"]
        table["summer_days"] = count("max_temperature", highest > SUMMER_DAY)
        table["hot_days"] = count("max_temperature", highest > HOT_DAY)
        table["very_hot_days"] = count("max_temperature", highest > VERY_HOT_DAY)
        table["tropical_nights"] = count("min_temperature", lowest > TROPICAL_NIGHT)
        table["frost_days"] = count("min_temperature", lowest < FROST)
    if "precipitation" in daily:
        totals = daily["precipitation"]
        there = totals.notna().groupby(years).any()
        table["wet_days"] = count("precipitation", totals >= WET_DAY)
        table["heaviest_day"] = totals.groupby(years).max()
        table["longest_dry_spell"] = (totals < WET_DAY).groupby(years).agg(_longest_run).where(there)
        table["longest_wet_spell"] = (totals >= WET_DAY).groupby(years).agg(_longest_run).where(there)
    return table


def _longest_run(is_such: pd.Series) -> float:
    """The most values in a row, (n,), that are true."""
    padded = np.zeros(len(is_such) + 2, dtype=np.int8)
    padded[1:-1] = is_such.to_numpy(dtype=np.int8)
    edges = padded[1:] - padded[:-1]
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    return float(lengths.max(initial=0))
