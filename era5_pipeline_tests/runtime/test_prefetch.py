"""Prefetched items: the same, in order, and no further ahead than requested."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.runtime.prefetch import Prefetched

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(items=st.lists(st.integers()), depth=st.integers(1, 9))
def test_the_same_items_in_order(items: list[int], depth: int) -> None:
    with closing(Prefetched(iter(items), depth)) as ahead:
        assert list(ahead) == items
        assert list(ahead) == []


def test_the_next_item_is_computed_while_this_one_is_processed() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(made) < count and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert made == list(range(count))  # no further ahead

    with closing(Prefetched(make(), 3)) as items:
        wait_for(3)  # before the first item is requested
        assert next(items) == 0
        wait_for(4)


def test_an_exception_is_raised_when_its_item_is_requested() -> None:
    def make() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    with closing(Prefetched(make(), 8)) as items:
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(ValueError, match="the third"):
            next(items)


def test_close_ends_the_thread() -> None:
    before = threading.active_count()
    for asked in (0, 1, 5):
        items = Prefetched(iter(range(1000)), 4)
        assert [next(items) for _ in range(asked)] == list(range(asked))
        items.close()
        assert threading.active_count() == before


# Ctrl-C arrives while the main thread waits for the new one to start.
_INTERRUPTED = """
import itertools, threading
from era5_pipeline.runtime.prefetch import Prefetched

start = threading.Thread.start

def interrupted(thread):
    start(thread)
    raise KeyboardInterrupt

threading.Thread.start = interrupted
try:
    Prefetched(itertools.count())
except KeyboardInterrupt as error:
    kept = error  # as a command does until it ends, and with it the pool
    print("interrupted")
"""


def test_a_program_that_is_interrupted_while_the_thread_starts_ends() -> None:
    ended = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "interrupted\n", ended.stderr
