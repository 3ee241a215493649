"""Yearly and monthly means and totals, indices counted from days, the seasonal cycle, and records."""

from __future__ import annotations

from calendar import isleap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.climate.anomalies import FEWEST_YEARS_OF_BASELINE
from era5_pipeline.climate.answer import Record, SeasonalCycle, YearSpan, quantities_of
from era5_pipeline.climate.days import HOURS_PER_DAY
from era5_pipeline.climate.regression import last_coefficient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from era5_pipeline.climate.answer import Baseline, Element
    from era5_pipeline.climate.days import DayHours

    FloatArray = npt.NDArray[np.float64]

# --- Indices of a year, counted from its days: hot days, tropical nights, frost days, wet days, spells ---
#
# Definitions and names are those of ETCCDI, where there is one (SU, TR, FD, R1mm, Rx1day, CDD, CWD), with daily
# extremes of hourly values. Two rules are ETCCDI's, too: at most 15 days of a year are missing, and spells span years.


SUMMER_DAY, HOT_DAY, VERY_HOT_DAY = 25.0, 30.0, 35.0  # degC, exceeded by the highest hour
TROPICAL_NIGHT = 20.0  # degC, exceeded by the lowest hour
FROST = 0.0  # degC, the lowest hour is below
WET_DAY = 1.0  # mm, reached by the day's total

MOST_MISSING_DAYS = 15
# The column of days that has a value on each whole day of an element.
_DAY_VALUES: dict[Element, str] = {"temperature": "max_temperature", "precipitation": "precipitation"}


def yearly_indices(daily: pd.DataFrame) -> pd.DataFrame:
    """The indices of each year of a table of days (`daily_values`), index `year`; days without a value are left out.

    NaN for a year without any value. A spell may begin in an earlier year: it counts in the year in which it ends, and
    a year that lies within one has none (NaN). A spell ends at a missing day, and with the table.
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
        table["longest_dry_spell"] = _longest_spells(totals < WET_DAY).where(there)
        table["longest_wet_spell"] = _longest_spells(totals >= WET_DAY).where(there)
    return table


def _longest_spells(is_such: pd.Series) -> pd.Series:
    """The longest run of true values of those that end in each year; NaN for a year of true values that ends none."""
    padded = np.zeros(len(is_such) + 2, dtype=np.int8)
    padded[1:-1] = is_such.to_numpy(dtype=np.int8)
    edges = padded[1:] - padded[:-1]
    ends = np.flatnonzero(edges == -1)
    lengths = np.zeros(len(is_such))
    lengths[ends - 1] = ends - np.flatnonzero(edges == 1)
    years = pd.DatetimeIndex(is_such.index).year
    longest: pd.Series = pd.Series(lengths).groupby(years).max()
    return longest.where((longest > 0) | ~is_such.groupby(years).all())


def lacks_days(yearly: pd.DataFrame, element: Element) -> pd.Series:
    """True for the years of a yearly table whose indices of this element are NaN because too many days are missing."""
    whole: pd.Series = yearly[f"{element}_whole_days"]
    return _days_of(yearly.index) - whole > MOST_MISSING_DAYS


def _days_of(years: pd.Index) -> pd.Series:
    """The number of days of each year."""
    return pd.Series(np.where(years.map(isleap), 366, 365), index=years)


# --- Means and totals of years and months from all of their hours, and whether each is complete ---
#
# A year or month is complete for an element if at most 24 of its hours are missing: ERA5 itself has no precipitation
# for the first six hours of 1940, and with an offset from UTC the first hours of a record belong to the day before.
# These hours may be of as many days, so indices have a rule of their own.


MOST_MISSING_HOURS = 24


def yearly_values(days: DayHours, daily: pd.DataFrame) -> pd.DataFrame:
    """The yearly table as described in `ClimateAnswer.yearly`, with anomalies NaN; `daily` covers the same days.

    Years at the ends of the record with no more than a day of hours are left out.
    """
    years = days.dates.year
    table = _sums(days, years, "year")
    expected = _days_of(table.index) * HOURS_PER_DAY
    for element in days.elements:
        table[f"{element}_complete"] = expected - table[f"{element}_hours"] <= MOST_MISSING_HOURS
    if "temperature" in days.values:
        of_hours = days.values["temperature"]
        table["max_temperature"] = pd.Series(np.fmax.reduce(of_hours, axis=1)).groupby(years).max()
        table["min_temperature"] = pd.Series(np.fmin.reduce(of_hours, axis=1)).groupby(years).min()
        table["temperature_anomaly"] = np.nan
    table = table.join(yearly_indices(daily))
    quantities = quantities_of(days.elements)
    for element, column in _DAY_VALUES.items():
        if element not in days.values:
            continue
        whole = daily[column].notna().groupby(pd.DatetimeIndex(daily.index).year).sum()
        table[f"{element}_whole_days"] = whole.reindex(table.index, fill_value=0)
        indices = [quantity.name for quantity in quantities if quantity.is_index and quantity.element == element]
        table.loc[lacks_days(table, element), indices] = np.nan
    counts = [f"{element}_{what}" for element in days.elements for what in ("hours", "complete", "whole_days")]
    return _trimmed(table[[*(quantity.name for quantity in quantities), *(name for name in counts if name in table)]])


def monthly_values(days: DayHours) -> pd.DataFrame:
    """The monthly table as described in `ClimateAnswer.monthly`, with anomalies NaN; trimmed like the years."""
    months = days.dates.to_period("M").to_timestamp()
    table = _sums(days, months, "month")
    expected = pd.Series(pd.DatetimeIndex(table.index).days_in_month * HOURS_PER_DAY, index=table.index)
    for element in days.elements:
        table[f"{element}_complete"] = expected - table[f"{element}_hours"] <= MOST_MISSING_HOURS
    if "temperature" in days.values:
        table.insert(1, "temperature_anomaly", np.nan)
    return _trimmed(table)


def _sums(days: DayHours, keys: pd.Index, name: str) -> pd.DataFrame:
    """Means or totals of the hours of each key (n,) of the days, and their number; NaN for a day of hours or less."""
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
    """Leave out rows at both ends with no more than a day of hours of any element."""
    hours = table[[column for column in table.columns if column.endswith("_hours")]].max(axis=1).to_numpy()
    kept = np.flatnonzero(hours > HOURS_PER_DAY)
    return table.iloc[kept[0] : kept[-1] + 1] if kept.size else table


# --- The mean of each month of the year, in the baseline and in the last years: the shift of the seasons ---


RECENT_YEARS = 10
_COLUMNS: dict[Element, str] = {
    "temperature": "mean_temperature",
    "precipitation": "precipitation",
    "wind": "mean_wind_speed",
}


def seasonal_cycle(monthly: pd.DataFrame, baseline: Baseline, complete_years: Sequence[int]) -> SeasonalCycle:
    """The seasonal cycle of the last ten complete years (or as many as there are), and of the baseline before them.

    `monthly` holds the months of both; only complete months count.
    """
    recent = list(complete_years)[-RECENT_YEARS:]
    now = YearSpan(recent[0], recent[-1]) if recent else None
    then = _before(baseline.years, now) if baseline.is_used else None
    table = pd.DataFrame(index=pd.RangeIndex(1, 13, name="month"))
    for element, column in _COLUMNS.items():
        if column not in monthly:
            continue
        complete = monthly[column][monthly[f"{element}_complete"]]
        table[f"{element}_then"] = _means(complete, then)
        table[f"{element}_now"] = _means(complete, now)
        change, half = _change(complete, then, now)
        table[f"{element}_change"] = change
        table[f"{element}_change_low"] = change - half
        table[f"{element}_change_high"] = change + half
    return SeasonalCycle(table, then, now)


def _before(years: YearSpan, now: YearSpan | None) -> YearSpan | None:
    """The years of the baseline, or only those before `now` if the two overlap; None if fewer than ten are left."""
    if now is None or years.last < now.first or now.last < years.first:
        return years
    before = YearSpan(years.first, now.first - 1)
    return before if len(before) >= FEWEST_YEARS_OF_BASELINE else None


def _change(months: pd.Series, then: YearSpan | None, now: YearSpan | None) -> tuple[FloatArray, FloatArray]:
    """The change of each month of the year (12,), and half of its 95 % interval: both NaN without one of the periods.

    The difference of the means is the coefficient of a step between the periods.
    """
    if then is None or now is None:
        return np.full(12, np.nan), np.full(12, np.nan)
    index = pd.DatetimeIndex(months.index)
    table = pd.Series(months.to_numpy(), index=[index.year, index.month]).unstack().reindex(columns=range(1, 13))
    table = table[[year in then or year in now for year in table.index]]
    years = table.index.to_numpy(dtype=np.float64)
    step = np.array([[float(year in now)] for year in table.index])
    found = last_coefficient(years, step, table.to_numpy(dtype=np.float64), fewest=FEWEST_YEARS_OF_BASELINE)
    return found.values, found.half_widths


def _means(months: pd.Series, years: YearSpan | None) -> pd.Series:
    """The mean of each month of the year over these years; NaN without any value."""
    index = pd.DatetimeIndex(months.index)
    wanted = (index.year >= years.first) & (index.year <= years.last) if years else index.year < 0
    return months[wanted].groupby(index[wanted].month).mean().reindex(range(1, 13))


def records_of(days: DayHours, daily: pd.DataFrame, monthly: pd.DataFrame, yearly: pd.DataFrame) -> Iterator[Record]:
    """The records of these days, and of the complete months and years of their tables."""
    if "temperature" in days.values:
        yield from _hour("hottest_hour", "hottest hour", days, "temperature", 1, highest=True)
        yield from _hour("coldest_hour", "coldest hour", days, "temperature", 1, highest=False)
        yield from _row("hottest_day", "hottest day (mean)", daily["mean_temperature"], "degC", 1, highest=True)
        yield from _row("coldest_day", "coldest day (mean)", daily["mean_temperature"], "degC", 1, highest=False)
        yield from _row("warmest_night", "warmest night (minimum)", daily["min_temperature"], "degC", 1, highest=True)
        months = monthly["mean_temperature"][monthly["temperature_complete"]]
        yield from _row("warmest_month", "warmest month", months, "degC", 2, highest=True)
        yield from _row("coldest_month", "coldest month", months, "degC", 2, highest=False)
        years = yearly["mean_temperature"][yearly["temperature_complete"]]
        yield from _row("warmest_year", "warmest year", years, "degC", 2, highest=True)
        yield from _row("coldest_year", "coldest year", years, "degC", 2, highest=False)
    if "precipitation" in days.values:
        yield from _hour("wettest_hour", "wettest hour (ends at)", days, "precipitation", 1, highest=True)
        yield from _row("wettest_day", "wettest day", daily["precipitation"], "mm", 1, highest=True)
        months = monthly["precipitation"][monthly["precipitation_complete"]]
        yield from _row("wettest_month", "wettest month", months, "mm", 0, highest=True)
        years = yearly["precipitation"][yearly["precipitation_complete"]]
        yield from _row("wettest_year", "wettest year", years, "mm", 0, highest=True)
        yield from _row("driest_year", "driest year", years, "mm", 0, highest=False)
    if "wind" in days.values:
        yield from _hour("windiest_hour", "strongest wind (hour)", days, "wind", 1, highest=True)


_UNITS: dict[Element, str] = {"temperature": "degC", "precipitation": "mm", "wind": "m/s"}


def _hour(name: str, what: str, days: DayHours, element: Element, decimals: int, *, highest: bool) -> Iterator[Record]:
    """The extreme of the hours, if they differ."""
    of_hours = days.values[element].reshape(-1)
    if not _do_differ(of_hours):
        return
    position, value, others = _extreme(of_hours, highest=highest)
    # A total is identified by the end of its hour, as in the table.
    ends_after = 1 if element == "precipitation" else 0
    time = days.dates[0] + pd.Timedelta(hours=position + ends_after, minutes=days.offset_minutes % 60)
    yield Record(name, what, value, _UNITS[element], decimals, f"{time:%Y-%m-%d %H:%M}", others)


def _row(name: str, what: str, values: pd.Series, unit: str, decimals: int, *, highest: bool) -> Iterator[Record]:
    """The extreme of a column, if its values differ."""
    numbers = values.to_numpy(dtype=np.float64)
    if not _do_differ(numbers):
        return
    position, value, others = _extreme(numbers, highest=highest)
    key = values.index[position]
    if isinstance(key, pd.Timestamp):
        when = f"{key:%Y-%m}" if values.index.name == "month" else f"{key:%Y-%m-%d}"
    else:
        when = str(key)
    yield Record(name, what, value, unit, decimals, when, others)


def _do_differ(values: npt.NDArray[np.float64]) -> bool:
    """Return whether not all known values (n,) are the same: a place without rain has no wettest year.

    Means of the same hours can differ by their rounding.
    """
    known = values[np.isfinite(values)]
    return known.size > 0 and bool(np.ptp(known) > 1e-12 * np.abs(known).max())


def _extreme(values: npt.NDArray[np.float64], *, highest: bool) -> tuple[int, float, int]:
    """Position and value of the first extreme of values (n,), and the number of others equal to it."""
    position = int(np.nanargmax(values) if highest else np.nanargmin(values))
    value = float(values[position])
    return position, value, int((values == value).sum()) - 1
