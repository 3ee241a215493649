"""Tests of `maps/question`."""

from __future__ import annotations

from datetime import date

import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.maps.question import (
    WHOLE_YEAR,
    AnomalyQuestion,
    TrendQuestion,
    calendar_month,
    parse_year,
    parse_years,
    require_summaries,
    season,
    statistic_for,
)
from era5_pipeline.model.derived_variables import find_column
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN


def test_a_winter_begins_in_december_of_the_year_before() -> None:
    winter = season("djf")
    assert winter.starts(2020) == (date(2019, 12, 1), date(2020, 1, 1), date(2020, 2, 1))
    assert winter.hours(2020) == (31 + 31 + 29) * 24
    assert winter.in_year(2020) == "December 2019 to February 2020"
    assert winter.months(1940) == (Month(1940, 1), Month(1940, 2))
    assert winter.in_years(YearSpan(1991, 2020)) == "December to February 1991-2020"


def test_hours_and_words_of_a_month_and_a_year() -> None:
    assert calendar_month(2).hours(2023) == 28 * 24
    assert calendar_month(7).in_year(2023) == "July 2023"
    assert WHOLE_YEAR.hours(2024) == 8784
    assert (WHOLE_YEAR.in_year(2023), WHOLE_YEAR.in_years(YearSpan(1991, 2020))) == ("2023", "1991-2020")
    assert season("SON").in_year(2023) == "September to November 2023"
    assert parse_year(" 2023 ") == 2023
    assert parse_years("1991 - 2020") == YearSpan(1991, 2020)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (season, "winter", "'winter' is not a season"),
        (calendar_month, 13, "13 is not a calendar month"),
        (calendar_month, 0, "0 is not a calendar month"),
        (parse_year, "23", "'23' is not a year"),
        (parse_year, "1939", "1939-01 is before ERA5 begins"),
        (parse_years, "1991", "'1991' is not a range of years"),
        (parse_years, "2020-1991", "the years 2020-1991 are empty"),
        (parse_years, "1900-1950", "1900-01 is before ERA5 begins"),
    ],
)
def test_what_is_none_is_an_error(parse: object, text: object, message: str) -> None:
    assert callable(parse)
    with pytest.raises(UsageError, match=message):
        parse(text)


TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]


def test_totals_are_summed_up_and_others_averaged() -> None:
    assert (statistic_for(TEMPERATURE), statistic_for(RAIN)) == ("mean", "sum")
    assert (statistic_for(TEMPERATURE, "MAX"), statistic_for(RAIN, "mean")) == ("max", "mean")


def test_a_statistic_that_there_is_not_is_an_error() -> None:
    with pytest.raises(UsageError, match="temperature_2m has no sum"):
        statistic_for(TEMPERATURE, "sum")
    with pytest.raises(UsageError, match="'median' is not a statistic"):
        statistic_for(TEMPERATURE, "median")


def test_extremes_have_no_anomaly_and_no_trend() -> None:
    years = YearSpan(1991, 2020)
    with pytest.raises(UsageError, match="the statistic max has no map of an anomaly"):
        AnomalyQuestion(calendar_month(7), 2023, years, "max")
    with pytest.raises(UsageError, match="the statistic min has no map of a trend"):
        TrendQuestion(WHOLE_YEAR, years, "min")


def test_a_trend_over_few_years_is_an_error() -> None:
    assert TrendQuestion(WHOLE_YEAR, YearSpan(2001, 2020), "mean").statistic == "mean"
    with pytest.raises(UsageError, match="2002-2020 are 19 years: a trend needs at least 20"):
        TrendQuestion(WHOLE_YEAR, YearSpan(2002, 2020), "mean")


def test_wind_has_maps_of_hours_and_its_speed_of_days() -> None:
    speed, direction = (find_column(f"wind_{name}_10m") for name in ("speed", "direction"))
    assert statistic_for(speed) == "mean"
    assert statistic_for(speed, "max") == "max"
    with pytest.raises(UsageError, match="wind_direction_10m has a map of an hour only"):
        statistic_for(direction)
    with pytest.raises(UsageError, match="wind_speed_10m is computed from hours, and has no maps of months"):
        require_summaries(speed)
