"""Tests of `model/times`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import (
    as_datetime64,
    describe_hours,
    from_datetime64,
    hour_of,
    hours_in,
    hours_of_month,
    parse_day,
    parse_instant,
    parse_offset,
    parse_time_range,
    time_of,
)


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        ([], ()),
        ([0], ("1970-01-01T00",)),
        ([0, 1, 2, 5, 7, 8], ("1970-01-01T00 to 1970-01-01T02", "1970-01-01T05", "1970-01-01T07 to 1970-01-01T08")),
        ([-262_992, -262_991], ("1940-01-01T00 to 1940-01-01T01",)),
        ([475_055, 475_056], ("2024-03-11T23 to 2024-03-12T00",)),
    ],
)
def test_hours_are_described_as_runs(hours: list[int], text: tuple[str, ...]) -> None:
    assert describe_hours(hours) == text
    assert describe_hours(np.array(hours, dtype=np.int64)) == text
    assert hours_in(text) == set(hours)


@given(st.sets(st.integers(-262_992, 1_400_000), max_size=40), st.integers(0, 30))
def test_runs_name_the_hours_that_they_were_made_of(some: set[int], length: int) -> None:
    hours = sorted({hour + more for hour in some for more in range(length)})
    runs = describe_hours(hours)
    assert hours_in(runs) == set(hours)
    assert list(runs) == sorted(runs)
    # As few as possible: no run begins where the one before it ends.
    assert len(runs) == sum(hour - 1 not in hours for hour in hours)


def test_runs_of_several_columns_count_each_hour_once() -> None:
    runs = ["2024-12-01T00 to 2024-12-01T05", "2024-12-01T04 to 2024-12-01T06", "2024-12-01T06"]
    assert len(hours_in(runs)) == 7


@given(st.integers(-262_992, 1_400_000), st.integers(0, 3599), st.integers(-12, 14))
def test_a_time_lies_in_its_hour_in_any_time_zone(hour: int, seconds: int, zone: int) -> None:
    start = time_of(hour)
    assert start.tzinfo is UTC
    assert hour_of(start) == hour
    assert hour_of((start + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=zone)))) == hour


@given(st.builds(Month, st.integers(1940, 2200), st.integers(1, 12)))
def test_a_month_has_the_hours_from_its_start_to_its_end(month: Month) -> None:
    hours = hours_of_month(month)
    assert (time_of(hours.start), time_of(hours.stop)) == (month.start, month.end)
    assert len(hours) == month.hours


@given(st.lists(st.integers(-262_992, 1_400_000), max_size=5))
def test_numpy_names_the_same_hours(hours: list[int]) -> None:
    array = np.array(hours, dtype=np.int64)
    times = as_datetime64(array)
    assert times.astype("datetime64[s]").tolist() == [time_of(hour).replace(tzinfo=None) for hour in hours]
    np.testing.assert_array_equal(from_datetime64(times), array)
    within = (times.astype("datetime64[m]").astype(np.int64) + 59).astype("datetime64[m]")
    np.testing.assert_array_equal(from_datetime64(within), array)


FORMATS = ("%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")

times = st.datetimes(datetime(1940, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(tzinfo=UTC))  # noqa: DTZ001
hours = times.map(lambda time: time.replace(minute=0, second=0, microsecond=0))
formats = st.sampled_from(FORMATS)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2023", "2023-01-01T00", "2024-01-01T00"),
        ("2024-02", "2024-02-01T00", "2024-03-01T00"),
        ("2023-12", "2023-12-01T00", "2024-01-01T00"),
        ("2023-07-15", "2023-07-15T00", "2023-07-16T00"),
        ("2023-07-15T12", "2023-07-15T12", "2023-07-15T13"),
        ("2023-07-15T12:00Z", "2023-07-15T12", "2023-07-15T13"),
        ("2023-07-15t12:00:00z", "2023-07-15T12", "2023-07-15T13"),
        (" 2023-07-15 12:00 ", "2023-07-15T12", "2023-07-15T13"),
        ("2023-07-15T12:00+02:00", "2023-07-15T10", "2023-07-15T11"),
        ("2023-07-15T12:00-0330", "2023-07-15T15:30", "2023-07-15T16"),
        ("2023-07-15T01+02", "2023-07-14T23", "2023-07-15T00"),
        ("2023-07-15T12:30", "2023-07-15T12:30", "2023-07-15T13"),
    ],
)
def test_a_text_names_a_period_from_its_start_to_its_end(text: str, start: str, end: str) -> None:
    expected = tuple(datetime.fromisoformat(time).replace(tzinfo=UTC) for time in (start, end))
    assert parse_time_range(text, text) == expected
    assert parse_time_range(text, None) == (expected[0], None)
    assert parse_time_range(None, text) == (None, expected[1])


@given(time=times, format_=formats)
def test_a_time_lies_within_the_text_that_names_it(time: datetime, format_: str) -> None:
    start, end = parse_time_range(time.strftime(format_), time.strftime(format_))
    assert start is not None
    assert end is not None
    assert start <= time < end
    assert start.utcoffset() == end.utcoffset() == timedelta(0)


@given(first=times, last=times, from_format=formats, to_format=formats)
def test_a_range_includes_both_ends_or_is_refused(
    first: datetime, last: datetime, from_format: str, to_format: str
) -> None:
    texts = first.strftime(from_format), last.strftime(to_format)
    try:
        start, end = parse_time_range(*texts)
    except UsageError:
        assert first > last
    else:
        assert start is not None
        assert end is not None
        assert start <= first
        assert last < end


@given(time=times)
def test_a_month_is_the_same_period_as_in_months(time: datetime) -> None:
    month = Month.of(time)
    assert parse_time_range(str(month), str(month)) == (month.start, month.end)


@given(time=hours, minutes=st.integers(-12 * 60, 14 * 60))
def test_an_instant_with_a_utc_offset_is_converted_to_utc(time: datetime, minutes: int) -> None:
    there = time.astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_instant(there.isoformat(timespec="minutes")) == time


@given(time=times)
def test_an_instant_is_a_full_hour_or_refused(time: datetime) -> None:
    text = f"{time:%Y-%m-%dT%H:%M:%S}"
    hour = time.replace(minute=0, second=0, microsecond=0)
    if time.replace(microsecond=0) == hour:
        assert parse_instant(text) == hour
    else:
        with pytest.raises(UsageError, match="full hour"):
            parse_instant(text)


@pytest.mark.parametrize("text", ["2023", "2023-07", "2023-07-15"])
def test_an_instant_needs_its_hour(text: str) -> None:
    with pytest.raises(UsageError, match=r"has no hour\n.*2023-0"):
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "23-07",
        "2023-7",
        "2023-13",
        "2023-02-29",
        "2023-07-15T24:00",
        "2023-07-15T12:60",
        "2023-07-15T12:00+25:00",
        "2023-07-15T",
        "2023-07-15Z",
        "2023-07-15T12:00 UTC",
        "0000",
        "0001-01-01T00:00+01:00",
        "9999",
        "9999-12-31T23:00",
        "٢٠٢٣",  # digits, but not ASCII
    ],
)
def test_an_invalid_time_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a time(.|\n)*Times are written 2023, 2023-07"):
        parse_time_range(None, text)


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(UsageError, match="2023-08 to 2023-07 is empty\nGive the earlier time first"):
        parse_time_range("2023-08", "2023-07")


def test_without_texts_a_range_has_no_bounds() -> None:
    assert parse_time_range(None, None) == (None, None)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("+07:00", 420), ("7", 420), ("-03:30", -210), ("0530", 330), ("+14:00", 840), ("-12", -720), ("0", 0)],
)
def test_an_offset_from_utc_is_minutes(text: str, minutes: int) -> None:
    assert parse_offset(text) == minutes


@pytest.mark.parametrize("text", ["", "UTC", "7.5", "+15:00", "-12:30", "+07:60", "Asia/Jakarta", "--7"])
def test_what_is_no_offset_from_utc_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an offset from UTC"):
        parse_offset(text)


def test_a_day_is_a_date() -> None:
    assert parse_day(" 2024-02-29 ") == date(2024, 2, 29)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2023", r"'2023' names no day\nA day is written 2023-01-01"),
        ("2023-07", "names no day"),
        ("2023-07-15T12", "names no day"),
        ("2023-02-29", "is not a time"),
        ("15.7.2023", "is not a time"),
    ],
)
def test_what_is_no_day_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_day(text)
