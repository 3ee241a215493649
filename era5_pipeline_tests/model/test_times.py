from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import parse_day, parse_instant, parse_offset, parse_time_range

HOUR = timedelta(hours=1)
FORMATS = (
    "%Y",
    "%Y-%m",
    "%Y-%m-%d",
    "%Y-%m-%dT%H",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
)

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
    with pytest.raises(UsageError, match="names no hour\nAdd one, for example 2023-0"):
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
