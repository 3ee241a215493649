"""The answer of hours at a place: all tables, trends and words of it, without a database."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import pandas as pd

from era5_pipeline.query.climate.anomalies import baseline_of, monthly_anomalies, yearly_anomalies
from era5_pipeline.query.climate.climate_answer import ClimateAnswer, Trend
from era5_pipeline.query.climate.climate_words import WHAT_ERA5_IS, notes_of, sentence_of
from era5_pipeline.query.climate.daily_values import daily_values, hours_by_day
from era5_pipeline.query.climate.quantities import quantities_of
from era5_pipeline.query.climate.records import records_of
from era5_pipeline.query.climate.seasonal_cycle import seasonal_cycle
from era5_pipeline.query.climate.trends import trends_of
from era5_pipeline.query.climate.yearly_values import monthly_values, yearly_values

if TYPE_CHECKING:
    from datetime import date, datetime

    from era5_pipeline.query.climate.climate_answer import ClimatePlace, DayRule, Provenance, YearSpan


def make_answer(
    hours: pd.DataFrame,
    place: ClimatePlace,
    rule: DayRule,
    baseline_years: YearSpan,
    provenance: Provenance,
    *,
    first_day: date | None = None,
    last_day: date | None = None,
) -> ClimateAnswer | None:
    """The answer for the days from `first_day` to `last_day` (None: no limit); None if there is no whole day.

    `hours` is as `hours_by_day` takes it; those outside these days only serve the baseline.
    """
    every = hours_by_day(hours, rule.offset_minutes)
    days = every.within(first_day, last_day)
    daily = daily_values(days)
    if daily.empty:
        return None
    yearly, monthly = yearly_values(days, daily), monthly_values(days)
    is_part = len(days.dates) < len(every.dates)
    every_year = yearly_values(every, daily_values(every)) if is_part else yearly
    every_month = monthly_values(every) if is_part else monthly
    main = "temperature" if "temperature" in days.values else days.elements[0]
    baseline = baseline_of(baseline_years, _complete(every_year, main))
    if "temperature" in days.values:
        yearly["temperature_anomaly"] = yearly_anomalies(yearly, every_year, baseline)
        monthly["temperature_anomaly"] = monthly_anomalies(monthly, every_month, baseline)
    quantities = quantities_of(days.elements)
    trends = trends_of(yearly, quantities)
    headline = next((found.whole for found in trends if found.quantity.name == "mean_temperature"), None)
    first, last = _ends(hours, rule.offset_minutes, days.dates)
    return ClimateAnswer(
        place=place,
        days=rule,
        first=first,
        last=last,
        baseline=baseline,
        elements=days.elements,
        quantities=quantities,
        yearly=yearly,
        monthly=monthly,
        daily=daily,
        seasons=seasonal_cycle(every_month, baseline, _complete(yearly, main)),
        trends=trends,
        records=records_of(days, daily, monthly, yearly),
        provenance=provenance,
        sentence=sentence_of(place, trends, days.elements, provenance.notice),
        is_significant=headline.is_significant if isinstance(headline, Trend) and not provenance.notice else None,
        notes=notes_of(yearly, baseline, rule, days.elements),
        what_era5_is=WHAT_ERA5_IS,
    )


def _complete(yearly: pd.DataFrame, element: str) -> list[int]:
    """The complete years of an element."""
    if f"{element}_complete" not in yearly:
        return []
    years: list[int] = yearly.index[yearly[f"{element}_complete"]].tolist()
    return years


def _ends(hours: pd.DataFrame, offset_minutes: int, dates: pd.DatetimeIndex) -> tuple[datetime, datetime]:
    """The first and the last instant within these days, aware, in UTC."""
    index = pd.DatetimeIndex(hours.index)
    offset = pd.Timedelta(minutes=offset_minutes)
    begin = dates[0].tz_localize("UTC") - offset
    end = dates[-1].tz_localize("UTC") + pd.Timedelta(days=1) - offset
    within = index[(index >= begin) & (index < end)]
    return within[0].to_pydatetime().astimezone(UTC), within[-1].to_pydatetime().astimezone(UTC)
