"""Hours as runs of text, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.hours import describe_hours, hours_in


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
def test_runs_name_the_hours_they_were_made_of(some: set[int], length: int) -> None:
    hours = sorted({hour + more for hour in some for more in range(length)})
    runs = describe_hours(hours)
    assert hours_in(runs) == set(hours)
    assert list(runs) == sorted(runs)
    # As few as can be: no run goes on where the one before it ends.
    assert len(runs) == sum(hour - 1 not in hours for hour in hours)


def test_runs_of_several_columns_count_each_hour_once() -> None:
    runs = ["2024-12-01T00 to 2024-12-01T05", "2024-12-01T04 to 2024-12-01T06", "2024-12-01T06"]
    assert len(hours_in(runs)) == 7
