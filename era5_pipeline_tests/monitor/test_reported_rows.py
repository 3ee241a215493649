"""Rows that loads report themselves, where the server does not count the rows of their COPY."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.monitor.reported_rows import ReportedRows
from era5_pipeline.monitor.session_samples import Loader

HIDDEN = Loader(7, "era5", None, "COPY", None, None, None, None, {}, ())


@given(steps=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=20))
def test_the_rate_is_that_of_the_last_five_seconds(steps: list[int]) -> None:
    reported, counts = ReportedRows(), list(accumulate(steps))
    for second, rows in enumerate(counts):
        reported.add(float(second), {7: rows})
    loader = reported.complete(HIDDEN)
    assert loader.rows == counts[-1]
    window = counts[-6:]
    expected = (window[-1] - window[0]) / (len(window) - 1) if len(window) > 1 else None
    assert loader.rows_per_second == expected


def test_rows_that_the_server_counts_take_precedence() -> None:
    reported = ReportedRows()
    reported.add(0.0, {7: 10})
    shown = replace(HIDDEN, rows=5, rows_per_second=1.0)
    assert reported.complete(shown) == shown
    assert reported.complete(replace(HIDDEN, pid=8)).rows is None


def test_a_second_load_of_the_same_session_starts_from_zero() -> None:
    reported = ReportedRows()
    for second, rows in enumerate((0, 900, 100, 300)):
        reported.add(float(second), {7: rows})
    loader = reported.complete(HIDDEN)
    assert (loader.rows, loader.rows_per_second) == (300, 200.0)
    reported.add(4.0, {})
    assert reported.complete(HIDDEN).rows is None
