"""Hours as whole numbers, and back: from datetimes, months, numpy and text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.hours import (
    as_datetime64,
    describe_hours,
    from_datetime64,
    hour_of,
    hours_in,
    hours_of_month,
    time_of,
)
from era5_pipeline.model.months import Month


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


def test_hours_count_from_1970() -> None:
    assert hour_of(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert hour_of(datetime(1940, 1, 1, 7, 59, tzinfo=UTC)) == -262_992 + 7


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
