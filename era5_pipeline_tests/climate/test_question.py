"""Tests of `climate/question`."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.question import DayChoice, Period, climate_question
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
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
