"""`read.missing`: missing months, missing hours and steps of a series, found and said."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_in
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.read.fields import Series
from era5_pipeline.read.missing import find_gaps, gap_lines, gaps_as_json, regular_step

T2M, TP = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]


def time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def series_at(hours: list[str] | np.ndarray, *, tp_null: bool = False) -> Series:
    """Values at these hours, as text or as hours since 1970."""
    times = np.array(hours, dtype="datetime64[h]").astype("datetime64[s]")
    ones = np.ones(times.size, dtype=np.float32)
    return Series(times, {T2M.column: ones, TP.column: ones * (np.nan if tp_null else 1)})


def hourly(*spans: tuple[str, str], step: int = 1) -> np.ndarray:
    """Hours from the first to just before the second of each span."""
    return np.concatenate([np.arange(np.datetime64(a, "h"), np.datetime64(b, "h"), step) for a, b in spans])


def test_a_complete_series_has_no_gap() -> None:
    found = find_gaps(series_at(hourly(("2023-01-01", "2023-03-01"))), (T2M, TP), None, None)
    assert not any(found.values())
    assert gap_lines(found) == []
    assert gaps_as_json(found) == {"missing_months": {}, "missing_hours": {}}


def test_missing_months_are_named_as_spans() -> None:
    shown = series_at(hourly(("2023-01-01", "2023-03-01"), ("2023-06-01", "2023-08-01")))
    found = find_gaps(shown, (T2M, TP), None, None)
    assert found["temperature_2m"].months == (Month(2023, 3), Month(2023, 4), Month(2023, 5))
    assert gap_lines(found) == ["no data for 2023-03 to 2023-05"]
    months = ["2023-03", "2023-04", "2023-05"]
    assert gaps_as_json(found)["missing_months"] == {"temperature_2m": months, "total_precipitation": months}


def test_months_of_the_range_before_and_after_the_rows_are_missing() -> None:
    shown = series_at(hourly(("2023-05-01", "2023-06-01")))
    found = find_gaps(shown, (T2M,), time("2023-01-01"), time("2024-01-01"))
    assert gap_lines(found) == ["no data for 2023-01 to 2023-04, 2023-06 to 2023-12"]


def test_a_month_of_which_the_range_has_a_part_lacks_hours_of_that_part() -> None:
    shown = series_at(hourly(("2023-02-28", "2023-03-01")))
    found = find_gaps(shown, (T2M,), time("2023-02-28"), time("2023-03-03"))
    assert gap_lines(found) == ["no data at 2023-03-01T00 to 2023-03-02T23 (48 hours)"]


def test_missing_hours_are_named_as_runs_the_first_three_of_them() -> None:
    hours = np.delete(hourly(("2023-01-01", "2023-02-01")), [5, 6, 7, 30, 50, 51, 90])
    found = find_gaps(series_at(hours), (T2M,), None, None)
    assert gap_lines(found) == [
        "no data at 2023-01-01T05 to 2023-01-01T07, 2023-01-02T06, 2023-01-03T02 to 2023-01-03T03 and 1 more (7 hours)"
    ]
    assert gaps_as_json(found)["missing_hours"]["temperature_2m"][-1] == "2023-01-04T18"


def test_null_is_missing_and_a_column_without_any_value_is_said_as_such() -> None:
    found = find_gaps(series_at(hourly(("2023-01-01", "2023-02-01")), tp_null=True), (T2M, TP), None, None)
    assert gap_lines(found) == ["no total_precipitation at all: NULL in every row of this place"]
    assert gaps_as_json(found)["missing_months"] == {"total_precipitation": ["2023-01"]}


def test_columns_with_the_same_gaps_share_a_line_and_others_are_named() -> None:
    shown = series_at(hourly(("2023-01-01", "2023-04-01")))
    shown.values[TP.column][shown.times >= np.datetime64("2023-03-01")] = np.nan
    assert gap_lines(find_gaps(shown, (T2M, TP), None, None)) == ["no total_precipitation for 2023-03"]


def test_six_hourly_months_are_said_as_a_step_and_their_own_gaps_too() -> None:
    shown = series_at(hourly(("2024-01-01", "2024-03-01"), ("2024-03-01", "2024-03-11"), step=6))
    found = find_gaps(shown, (T2M,), time("2024-01-01"), time("2024-04-01"))
    assert gap_lines(found) == [
        "data only every 6 hours in 2024-01 to 2024-03",
        "no data at 2024-03-11T00 to 2024-03-31T18 (84 values)",
    ]
    # As data, all missing hours are there.
    missing = hours_in(gaps_as_json(found)["missing_hours"]["temperature_2m"])
    assert len(missing) == (31 + 29 + 31) * 24 - len(shown.times)


def test_hours_before_era5_and_those_to_come_are_not_missing() -> None:
    shown = series_at(hourly(("1940-01-01", "1940-02-01")))
    shown.values[TP.column][:7] = np.nan
    assert not any(find_gaps(shown, (T2M, TP), time("1930-01-01"), time("1940-02-01")).values())
    this_month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    shown = series_at(hourly((this_month.strftime("%Y-%m-%d"), now.strftime("%Y-%m-%dT%H"))))
    assert not any(find_gaps(shown, (T2M,), this_month, this_month + timedelta(days=365)).values())


@pytest.mark.parametrize(
    ("hours", "step"),
    [
        *(([], None), ([5], None), ([5, 6, 9], 1), ([0, 6, 12, 24], 6), ([0, 6, 12, 17], 1), ([0, 6], None)),
        ([0, 240, 480], None),
    ],
)
def test_step_of_hours(hours: list[int], step: int | None) -> None:
    assert regular_step(np.array(hours, dtype=np.int64)) == step


@given(held=st.sets(st.integers(0, 24 * 59 - 1), min_size=1))
def test_held_and_missing_hours_are_the_range(held: set[int]) -> None:
    start = np.datetime64("2023-01-01", "h").astype(np.int64)
    shown = series_at(np.array(sorted(held)) + start)
    found = find_gaps(shown, (T2M,), time("2023-01-01"), time("2023-03-01"))
    said = json.loads(json.dumps(gaps_as_json(found)))
    missing = set(hours_in(said["missing_hours"].get("temperature_2m", ())))
    for text in said["missing_months"].get("temperature_2m", ()):
        month = Month.parse(text)
        first = np.datetime64(month.start.replace(tzinfo=None), "h").astype(np.int64)
        missing |= set(range(first, first + month.hours))
    assert missing == set(range(start, start + 24 * 59)) - {hour + start for hour in held}
    assert bool(gap_lines(found)) == bool(missing)
