from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import (
    Month,
    calendar_months_of,
    month_range,
    months_between,
    of_calendar_months,
    parse_calendar_months,
    spans,
)

months = st.builds(Month, st.integers(1940, 2200), st.integers(1, 12))


@pytest.mark.parametrize("text", ["2023-07", "2023-07-01", " 2023-07 "])
def test_a_month_is_parsed_from_its_name_and_from_its_partition_key(text: str) -> None:
    assert Month.parse(text) == Month(2023, 7)


@pytest.mark.parametrize("text", ["", "2023", "2023-7", "2023-07-02", "07-2023", "2023/07", "2023-13", "2023-00", "x"])
def test_an_invalid_month_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a month") as raised:
        Month.parse(text)
    assert "YYYY-MM" in raised.value.remedy


@pytest.mark.parametrize(
    ("text", "said", "remedy"),
    [
        ("1939-12", "before ERA5 begins", "1940-01"),
        ("0001-01", "before ERA5 begins", "1940-01"),
        # Beyond the range of timestamps.
        ("2262-01", "is in the future", ""),
        ("9999-12", "is in the future", ""),
    ],
)
def test_months_outside_of_era5_are_refused(text: str, said: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        Month.parse(text)
    assert remedy in raised.value.remedy


@given(months)
def test_a_month_survives_a_round_trip_through_name_key_and_number(month: Month) -> None:
    assert Month.parse(str(month)) == Month.parse(month.key) == Month.from_number(month.number) == month
    assert Month.of(month.start) == Month.of(month.end - timedelta(microseconds=1)) == month


@given(months)
def test_a_month_ends_where_the_next_begins_and_counts_the_hours_between(month: Month) -> None:
    following = Month.from_number(month.number + 1)
    assert month < following
    assert month.end == following.start
    assert month.hours == (month.end - month.start) / timedelta(hours=1)
    assert month.start.tzinfo is UTC


@pytest.mark.parametrize(("text", "hours"), [("2023-02", 672), ("2024-02", 696), ("2000-02", 696), ("2023-12", 744)])
def test_february_has_a_day_more_in_leap_years(text: str, hours: int) -> None:
    assert Month.parse(text).hours == hours


def test_the_month_of_a_time_is_determined_in_utc() -> None:
    east = timezone(timedelta(hours=9))
    assert Month.of(datetime(2023, 7, 1, 8, 59, tzinfo=east)) == Month(2023, 6)
    assert Month.of(datetime(2023, 7, 1, 9, 0, tzinfo=east)) == Month(2023, 7)


def test_a_future_month_is_refused_and_the_current_one_is_not() -> None:
    now = datetime(2023, 7, 1, tzinfo=UTC)
    Month(2023, 7).require_begun(now)
    with pytest.raises(UsageError, match="is in the future") as raised:
        Month(2023, 8).require_begun(now)
    assert "2023-07" in raised.value.remedy


def test_consecutive_months_are_described_as_spans() -> None:
    held = [*month_range(Month(1999, 11), Month(2000, 2)), Month(2001, 1), Month(2002, 1), Month(2003, 1)]
    assert spans(held) == "1999-11 to 2000-02, 2001-01, 2002-01 and 1 more month"
    assert spans([*held, Month(2003, 2)], shown=1) == "1999-11 to 2000-02 and 4 more months"
    assert spans([]) == ""


years = st.integers(1940, 2200)


@given(months)
def test_a_month_or_its_key_alone_is_that_month(month: Month) -> None:
    assert months_between(str(month)) == months_between(month.key) == months_between(f" {month} ") == (month,)


@given(years)
def test_a_year_alone_is_all_of_the_year(year: int) -> None:
    assert months_between(str(year)) == tuple(Month(year, number) for number in range(1, 13))


@given(st.lists(st.one_of(months, years), min_size=2, max_size=2))
def test_a_range_is_from_the_first_month_of_one_to_the_last_of_the_other(given_: list[Month | int]) -> None:
    starts = [one if isinstance(one, Month) else Month(one, 1) for one in given_]
    ends = [one if isinstance(one, Month) else Month(one, 12) for one in given_]
    first, last = map(str, given_)
    if ends[1] < starts[0]:
        with pytest.raises(UsageError, match="is empty"):
            months_between(first, last)
        return
    found = months_between(first, last)
    assert (found[0], found[-1]) == (starts[0], ends[1])
    assert [month.number for month in found] == list(range(starts[0].number, ends[1].number + 1))


@given(st.text(st.sampled_from("0123456789-/ x२"), max_size=10))
def test_no_other_text_is_a_range_of_months(text: str) -> None:
    with suppress(UsageError):
        found = months_between(text)
        assert text.strip() in {str(found[0]), found[0].key, str(found[0].year)}
        assert len(found) == (12 if len(text.strip()) == 4 else 1)


@pytest.mark.parametrize("text", ["", "23", "2023-07-02", "2023-7", "20230", "2023-", "२०२३"])
def test_what_is_no_month_and_no_year_is_refused(text: str) -> None:
    for first, last in ((text, None), (text, "2030"), ("1940", text)):
        with pytest.raises(UsageError, match="is not a month") as refused:
            months_between(first, last)
        assert "a year stands for all its months" in refused.value.remedy


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [(["7"], (7,)), (["07"], (7,)), (["6,7,8"], (6, 7, 8)), (["12, 1", "2", "1"], (1, 2, 12)), ([], ())],
)
def test_calendar_months_are_parsed_from_numbers_and_lists(texts: list[str], numbers: tuple[int, ...]) -> None:
    assert parse_calendar_months(texts) == numbers


@pytest.mark.parametrize(
    "text", ["", "0", "13", "-7", "7.5", "July", "JJA", "6-8", "6,,8", "6,", "2023-07", "७", "9" * 9]
)
def test_no_other_text_is_a_calendar_month(text: str) -> None:
    with pytest.raises(UsageError, match="is not a calendar month") as raised:
        parse_calendar_months(["7", text])
    assert "1 to 12" in raised.value.remedy


def test_a_range_of_years_has_each_calendar_month_once_a_year() -> None:
    julys = months_between("1991", "2020", (7,))
    assert julys == tuple(Month(year, 7) for year in range(1991, 2021))
    winter = months_between("2021-12", "2023-01", (12, 1))
    assert [str(month) for month in winter] == ["2021-12", "2022-01", "2022-12", "2023-01"]


@pytest.mark.parametrize("numbers", [(7,), (1, 7), (7, 1)])
def test_a_calendar_month_that_the_range_lacks_is_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="2023-01 to 2023-06: none of these is calendar month 7"):
        months_between("2023-01", "2023-06", numbers)
    with pytest.raises(UsageError, match="13 is not a calendar month"):
        months_between("2023", None, (13,))


@given(st.lists(st.builds(Month, st.integers(2000, 2003), st.integers(1, 12)), min_size=1, unique=True).map(sorted))
def test_calendar_months_pick_the_months_that_they_are_of(given_: list[Month]) -> None:
    whole = tuple(month_range(given_[0], given_[-1]))
    numbers = calendar_months_of(given_)
    if numbers is None:
        assert of_calendar_months(whole, {month.month for month in given_}) != tuple(given_)
    else:
        assert of_calendar_months(whole, numbers) == tuple(given_)
        assert (numbers == ()) == (whole == tuple(given_))
        # So do those of fewer of the months, which groups of them rely on.
        assert all(calendar_months_of(given_[:n]) is not None for n in range(1, len(given_)))
