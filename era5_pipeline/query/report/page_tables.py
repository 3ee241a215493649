"""The tables of the page: trends, records, and the numbers of every year."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate.climate_words import decimals_of, p_text
from era5_pipeline.query.climate_plots.drawn_years import signed
from era5_pipeline.query.plots.variable_styles import unit_text
from era5_pipeline.query.report.elements import element, table
from era5_pipeline.query.report.page_words import (
    interval_words,
    trend_cell,
    value_with_unit,
    with_degrees,
)

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer, Record
    from era5_pipeline.query.climate.quantities import YearlyQuantity


def trends_table(answer: ClimateAnswer) -> ET.Element:
    """The trends of all quantities: over the whole record, and since 1979 where that is another."""
    found = [trends for trends in answer.trends if isinstance(trends.whole, Trend)]
    if not found:
        reasons = dict.fromkeys(trends.whole.reason for trends in answer.trends if not isinstance(trends.whole, Trend))
        return element("p", f"There is no trend: {with_degrees('; '.join(reasons))}.", class_="nothing")
    has_since = any(
        isinstance(one.since_1979, Trend) and isinstance(one.whole, Trend) and one.since_1979.years != one.whole.years
        for one in found
    )
    rows = [
        (
            _named(one.quantity),
            trend_cell(one.quantity, one.whole),
            *((trend_cell(one.quantity, one.since_1979),) if has_since else ()),
        )
        for one in answer.trends
    ]
    caption = "Change per decade, least squares"
    if not answer.provenance.notice:
        caption += "; an interval that leaves out zero is significant"
    headings = ("Each year's", "per decade (95 % interval)", *(("since 1979",) if has_since else ()))
    return table(caption, headings, rows)


def trend_details(answer: ClimateAnswer) -> ET.Element | None:
    """How the trend of the mean temperature was computed, and what other methods give; None if there is none."""
    trend = answer.trend_of("mean_temperature") if "temperature" in answer.elements else None
    if not isinstance(trend, Trend):
        return None
    decimals = decimals_of(trend, 3)
    robust = f"{signed(trend.theil_sen_low, decimals)} to {signed(trend.theil_sen_high, decimals)}"
    return element(
        "p",
        f"Over {trend.count} complete years, {trend.years.first} to {trend.years.last}: "
        f"{signed(trend.slope, decimals)} °C per decade by ordinary least squares, 95 % interval "
        f"{interval_words(trend, decimals)}, widened for the autocorrelation of the years ({trend.lag1:.2f}, so that "
        f"they count as {trend.effective_count:.1f}). Theil-Sen's slope: {signed(trend.theil_sen, decimals)} "
        f"({robust}). Kendall's tau: {signed(trend.kendall_tau)} (p {p_text(trend.kendall_p)}).",
    )


def records_table(answer: ClimateAnswer) -> ET.Element:
    """The records with their dates."""
    rows = [
        (_capital(record.what), value_with_unit(record.value, record.unit, record.decimals), _when(record))
        for record in answer.records
    ]
    return table(f"Times are in {answer.days.offset_name}", ("Record", "Value", "When"), rows, class_="records")


def years_table(answer: ClimateAnswer) -> ET.Element:
    """Every year's numbers, folded; an incomplete year is marked."""
    quantities = answer.quantities
    rows = []
    for year, values in answer.yearly.iterrows():
        complete = all(bool(values[f"{element_}_complete"]) for element_ in answer.elements)
        cells = [_number(quantity, float(values[quantity.name])) for quantity in quantities]
        rows.append((f"{year}" if complete else f"{year}*", *cells))
    headings = ("Year", *(_named(quantity) for quantity in quantities))
    made = table(
        "An asterisk: hours are missing, in at least one variable", headings, rows, class_="numbers", scrolls=True
    )
    return element("details", element("summary", f"The numbers of all {len(rows)} years"), made)


def _named(quantity: YearlyQuantity) -> str:
    unit = "" if quantity.unit == "days" else f", {unit_text(quantity.unit)}"
    return f"{_capital(quantity.label)}{unit}"


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _number(quantity: YearlyQuantity, value: float) -> str:
    return quantity.rounded(value).replace("-", "\u2212" if value == value else "\u2013")  # noqa: PLR0124  # NaN


def _when(record: Record) -> str:
    if not record.others:
        return record.when
    return f"{record.when}, and {record.others:,} more"
