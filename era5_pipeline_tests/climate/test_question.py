"""Tests of `climate/question`."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.question import (
    WHOLE_YEAR,
    DayChoice,
    Period,
    calendar_month,
    climate_question,
    parse_year,
    parse_years,
    season,
)
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.question import PYTHON, asked_place


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((None, None), Period()),
        (("1979", None), Period(date(1979, 1, 1), None)),
        (("1979", "2024"), Period(date(1979, 1, 1), date(2024, 12, 31))),
        (("2020-02", "2020-02"), Period(date(2020, 2, 1), date(2020, 2, 29))),
        ((None, "2020-02-05"), Period(None, date(2020, 2, 5))),
    ],
    ids=["open", "from", "years", "month", "to a day"],
)
def test_a_period_is_whole_days(texts: tuple[str | None, str | None], expected: Period) -> None:
    assert Period.of(*texts) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("2024", "1979"), "the range 2024 to 1979 is empty\nGive the earlier time first"),
        (("2020-01-01T12", None), "'2020-01-01T12' is an hour\nAn answer is made of whole days"),
        ((None, "2020-01-01T12"), "'2020-01-01T12' is an hour"),
        (("yesterday", None), "'yesterday' is not a time"),
    ],
    ids=["wrong way round", "from an hour", "to an hour", "no time"],
)
def test_what_is_no_period_is_refused(texts: tuple[str | None, str | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Period.of(*texts)


def test_a_period_of_dates_is_that_of_their_texts() -> None:
    assert Period.of(date(2020, 2, 1), date(2020, 2, 29)) == Period.of("2020-02", "2020-02")
    with pytest.raises(UsageError, match="'2020-02-01T05:00:00' is an hour"):
        Period.of(datetime(2020, 2, 1, 5), None)  # noqa: DTZ001  # a user's, in UTC


def test_a_question_of_a_place() -> None:
    jakarta = asked_place(PYTHON, "Jakarta", None, None)
    question = climate_question(jakarta)
    assert (question.place.name, question.period, question.days) == ("Jakarta, Indonesia", Period(), DayChoice())
    assert question.baseline == YearSpan(1991, 2020)
    assert climate_question(jakarta, local_time=True).days == DayChoice(zone="Asia/Jakarta")
    assert climate_question(jakarta, utc_offset="-03:30").days == DayChoice(offset_minutes=-210)
    with pytest.raises(UsageError, match="not a baseline"):
        climate_question(jakarta, baseline="1991")


def test_a_question_of_an_area_has_no_local_time() -> None:
    area = Area(-5, 106, -8, 108)
    assert climate_question(area, utc_offset="7").days == DayChoice(offset_minutes=420)
    with pytest.raises(ValueError, match="no time zone"):
        climate_question(area, local_time=True)


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
def test_other_texts_are_refused(parse: object, text: object, message: str) -> None:
    assert callable(parse)
    with pytest.raises(UsageError, match=message):
        parse(text)
