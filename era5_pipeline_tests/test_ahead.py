"""Items made in a thread: the same, in order, and no more than asked for."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.ahead import made_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(items=st.lists(st.integers()), depth=st.integers(1, 9))
def test_the_same_items_in_order(items: list[int], depth: int) -> None:
    assert list(made_ahead(iter(items), depth)) == items


def test_the_next_is_made_while_this_one_is_used() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    with closing(made_ahead(make(), 3)) as items:
        assert next(items) == 0
        deadline = time.monotonic() + 5
        while len(made) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert made == [0, 1, 2, 3]  # and no further


def test_what_making_raises_is_raised_in_its_turn() -> None:
    def make() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    items = made_ahead(make(), 8)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="the third"):
        next(items)


def test_closed_it_leaves_no_thread() -> None:
    before = threading.active_count()
    items = made_ahead(iter(range(1000)), 4)
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before
