"""Means and totals of years and months, from all of their hours, and whether each is complete.

A year or month is complete for an element if at most 24 of its hours lack: ERA5 itself lacks the first six hours of
precipitation of 1940, and in an offset from UTC the first hours of a record belong to the day before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.query.climate.daily_values import HOURS_PER_DAY
from era5_pipeline.query.climate.indices import yearly_indices
from era5_pipeline.query.climate.quantities import quantities_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.climate.daily_values import DayHours

MOST_MISSING_HOURS = 24


def yearly_values(days: DayHours, daily: pd.DataFrame) -> pd.DataFrame:
    """The table of years, as `ClimateAnswer.yearly` describes it, its anomalies NaN; `daily` is that of the same days.

    Years at the ends of the record that have no more than a day's hours are left out.
    """
    years = days.dates.year
    table = _sums(days, years, "year")
    expected = pd.Series(np.where(table.index.map(_is_leap), 366, 365) * HOURS_PER_DAY, index=table.index)
    for element in days.elements:
        table[f"{element}_complete"] = expected - table[f"{element}_hours"] <= MOST_MISSING_HOURS
    if "temperature" in days.values:
        of_hours = days.values["temperature"]
        table["max_temperature"] = pd.Series(np.fmax.reduce(of_hours, axis=1)).groupby(years).max()
        table["min_temperature"] = pd.Series(np.fmin.reduce(of_hours, axis=1)).groupby(years).min()
        table["temperature_anomaly"] = np.nan
    table = table.join(yearly_indices(daily))
    counts = [f"{element}_{what}" for element in days.elements for what in ("hours", "complete")]
    return _trimmed(table[[*(quantity.name for quantity in quantities_of(days.elements)), *counts]])


def monthly_values(days: DayHours) -> pd.DataFrame:
    """The table of months, as `ClimateAnswer.monthly` describes it, its anomalies NaN; trimmed as the years are."""
    months = days.dates.to_period("M").to_timestamp()
    table = _sums(days, months, "month")
    expected = pd.Series(pd.DatetimeIndex(table.index).days_in_month * HOURS_PER_DAY, index=table.index)
    for element in days.elements:
        table[f"{element}_complete"] = expected - table[f"{element}_hours"] <= MOST_MISSING_HOURS
    if "temperature" in days.values:
        table.insert(1, "temperature_anomaly", np.nan)
    return _trimmed(table)


def _sums(days: DayHours, keys: pd.Index, name: str) -> pd.DataFrame:
    """Means or totals of the hours of each key (n,) of the days, and how many there are; no value of a day or less."""
    columns: dict[str, npt.NDArray[np.float64]] = {}
    for element, of_hours in days.values.items():
        columns[element] = np.nansum(of_hours, axis=1)
        columns[f"{element}_hours"] = np.isfinite(of_hours).sum(axis=1)
    summed = pd.DataFrame(columns, index=days.dates).groupby(keys).sum()
    summed.index.name = name
    table = pd.DataFrame(index=summed.index)
    for element in days.elements:
        hours = summed[f"{element}_hours"]
        sums = summed[element].where(hours > HOURS_PER_DAY)
        if element == "precipitation":
            table["precipitation"] = sums
        else:
            table["mean_temperature" if element == "temperature" else "mean_wind_speed"] = sums / hours.where(
                hours > HOURS_PER_DAY
            )
    for element in days.elements:
        table[f"{element}_hours"] = summed[f"{element}_hours"].astype(np.int64)
    return table


def _trimmed(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out rows at both ends that have no more than a day's hours of any element."""
    hours = table[[column for column in table.columns if column.endswith("_hours")]].max(axis=1).to_numpy()
    kept = np.flatnonzero(hours > HOURS_PER_DAY)
    return table.iloc[kept[0] : kept[-1] + 1] if kept.size else table


def _is_leap(year: int) -> bool:
    return (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
