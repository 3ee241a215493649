"""`query.maps.year_parts`: months, hours and words of the year, seasons and calendar months."""

from __future__ import annotations

from datetime import date

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, calendar_month, parse_year, parse_years, season


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
        (parse_years, "1991", "'1991' are no years"),
        (parse_years, "2020-1991", "the years 2020-1991 are empty"),
        (parse_years, "1900-1950", "1900-01 is before ERA5 begins"),
    ],
)
def test_what_is_none_is_an_error(parse: object, text: object, message: str) -> None:
    assert callable(parse)
    with pytest.raises(UsageError, match=message):
        parse(text)
