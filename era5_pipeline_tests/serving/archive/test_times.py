"""Hours and days as they are written, and the offsets of zones."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.times import (
    GMT,
    AnswerZone,
    Days,
    answer_zone,
    texts_of,
    times_as_json,
)

days_asked = st.builds(
    lambda first, count: Days(first, first + timedelta(days=count)),
    st.dates(date(1940, 1, 1), date(2025, 12, 31)),
    st.integers(0, 800),
)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@given(days_asked)
def test_hours_are_local_times_without_seconds_or_zone(days: Days) -> None:
    midnight = datetime.combine(days.first, datetime.min.time())
    expected = [f"{midnight + hour * HOUR:%Y-%m-%dT%H:%M}" for hour in range(24 * len(days))]
    assert json.loads(times_as_json("hourly", days, AnswerZone("Asia/Jakarta", 25_200), "iso8601")) == expected
    assert texts_of(times_as_json("hourly", days, GMT, "iso8601")) == expected


@given(days_asked)
def test_days_are_dates(days: Days) -> None:
    expected = [f"{days.first + number * DAY:%Y-%m-%d}" for number in range(len(days))]
    assert json.loads(times_as_json("daily", days, GMT, "iso8601")) == expected
    assert texts_of(times_as_json("daily", days, GMT, "iso8601")) == expected


@given(days_asked, st.sampled_from([0, 3600, 25_200, -18_000, 19_800, -12_600]))
def test_unix_times_are_those_of_the_local_hours_and_midnights(days: Days, offset: int) -> None:
    zone = AnswerZone("somewhere", offset)
    midnight = datetime.combine(days.first, datetime.min.time(), UTC) - timedelta(seconds=offset)
    hours = [int((midnight + hour * HOUR).timestamp()) for hour in range(24 * len(days))]
    assert json.loads(times_as_json("hourly", days, zone, "unixtime")) == hours
    assert json.loads(times_as_json("daily", days, zone, "unixtime")) == hours[::24]


@pytest.mark.parametrize(
    ("name", "offset", "abbreviation"),
    [
        ("Asia/Jakarta", 25_200, "GMT+7"),
        ("Europe/Berlin", 3600, "GMT+1"),  # also in summer
        ("America/New_York", -18_000, "GMT-5"),
        ("Australia/Sydney", 36_000, "GMT+10"),
        ("Asia/Kolkata", 19_800, "GMT+5:30"),
        ("America/St_Johns", -12_600, "GMT-3:30"),
        ("Africa/Casablanca", 3600, "GMT+1"),  # also in Ramadan
        ("Europe/Dublin", 0, "GMT"),
        ("UTC", 0, "GMT"),
    ],
)
def test_a_zone_has_its_standard_offset(name: str, offset: int, abbreviation: str) -> None:
    zone = answer_zone(name, 2022, date(2022, 7, 31))
    assert (zone.name, zone.offset_seconds, zone.abbreviation) == (name, offset, abbreviation)


def test_the_offset_is_that_of_the_last_full_year() -> None:
    """Singapore went from UTC+07:30 to UTC+08:00 at the end of 1981."""
    assert answer_zone("Asia/Singapore", 1980, date(1981, 12, 31)).offset_seconds == 27_000
    assert answer_zone("Asia/Singapore", 1980, date(1982, 6, 30)).offset_seconds == 27_000
    assert answer_zone("Asia/Singapore", 1980, date(1983, 6, 30)).offset_seconds == 28_800


@pytest.mark.parametrize("name", ["Mars/Base", "Asia", "../../etc/passwd", ""])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        answer_zone(name, 2022, date(2022, 7, 31))


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        (0, "2022-01-01T00"),
        (25_200, "2021-12-31T17"),
        (-18_000, "2022-01-01T05"),
        (19_800, "2021-12-31T19"),  # whole hours are read
        (-12_600, "2022-01-01T03"),
    ],
)
def test_a_local_day_begins_at_a_full_hour_of_utc(offset: int, start: str) -> None:
    days = Days(date(2022, 1, 1), date(2022, 1, 1))
    assert f"{days.start(AnswerZone('somewhere', offset)):%Y-%m-%dT%H}" == start
