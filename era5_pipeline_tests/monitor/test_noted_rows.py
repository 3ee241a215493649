"""Rows that loads note themselves, where the server shows nothing of their COPY."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.monitor.glances import Loader
from era5_pipeline.monitor.noted_rows import Told

HIDDEN = Loader(7, "era5", None, "COPY", None, None, False, None, None, {}, ())


@given(steps=st.lists(st.integers(0, 3_000_000), min_size=1, max_size=20))
def test_the_rate_is_that_of_the_last_seconds(steps: list[int]) -> None:
    told, counts = Told(), list(accumulate(steps))
    for second, rows in enumerate(counts):
        told.add(float(second), {7: rows})
    loader = told.complete(HIDDEN)
    assert loader.rows == counts[-1]
    lately = counts[-6:]
    expected = (lately[-1] - lately[0]) / (len(lately) - 1) if len(lately) > 1 else None
    assert loader.rows_per_second == expected


def test_what_the_server_shows_stays() -> None:
    told = Told()
    told.add(0.0, {7: 10})
    shown = replace(HIDDEN, rows=5, rows_per_second=1.0)
    assert told.complete(shown) == shown
    assert told.complete(replace(HIDDEN, pid=8)).rows is None


def test_another_load_of_the_same_session_begins_anew() -> None:
    told = Told()
    for second, rows in enumerate((0, 900, 100, 300)):
        told.add(float(second), {7: rows})
    loader = told.complete(HIDDEN)
    assert (loader.rows, loader.rows_per_second) == (300, 200.0)
    told.add(4.0, {})
    assert told.complete(HIDDEN).rows is None
