"""Tests of `runtime/progress`."""

from __future__ import annotations

import re
import time

import pytest

from era5_pipeline.runtime.progress import ProgressLines, add_listener, listening, measured_waits, report, waiting

LINE = re.compile(r"load: (\d+) %, ([\d,]+) of 1,000 rows, [\d,.e+]+ rows/s, \d+ s left")


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_lines_come_at_most_so_often_and_say_share_rate_and_time_left() -> None:
    clock = Clock()
    said: list[tuple[float, str]] = []
    lines = ProgressLines(lambda line: said.append((clock(), line)), every_seconds=0.1, clock=clock)
    for done in range(1001):  # one row in each half millisecond; the end is no line
        clock.seconds = done / 2000
        lines("load", done, 1000, "rows")
    assert [at for at, _ in said] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.0006)
    for at, line in said:
        match = LINE.fullmatch(line)
        assert match, line
        assert int(match[1]) == int(match[2].replace(",", "")) // 10 == int(at * 200)


def test_the_rate_is_that_since_the_line_before() -> None:
    clock = Clock()
    said: list[str] = []
    lines = ProgressLines(said.append, every_seconds=0.2, clock=clock)
    for seconds, done in ((0.0, 0), (0.25, 5_000_000), (0.5, 5_000_000)):
        clock.seconds = seconds
        lines("raw", done, 10_000_000, "bytes")
    assert said == [
        "raw files: 50 %, 5.0 of 10.0 MB, 20.00 MB/s, 0 s left",
        "raw files: 50 %, 5.0 of 10.0 MB, 0.00 MB/s, nothing since the last line",
    ]


def test_a_stage_that_begins_again_is_measured_again() -> None:
    clock = Clock()
    said: list[str] = []
    lines = ProgressLines(said.append, every_seconds=0.05, clock=clock)
    for total in (100, 200, 200):  # two files, the second of them twice
        lines("raw", 0, total, "bytes")
        clock.seconds += 0.06
        lines("raw", total // 2, total, "bytes")
    assert [line.split(",")[0] for line in said] == ["raw files: 50 %"] * 3


def test_bars_and_lines_hear_the_same() -> None:
    heard: dict[str, list[int]] = {"bars": [], "lines": []}
    with listening(lambda stage, done, total, unit: heard["bars"].append(done)):
        with add_listener(lambda stage, done, total, unit: heard["lines"].append(done)):
            report("load", 1, 2, "rows")
        report("load", 2, 2, "rows")
    assert heard == {"bars": [1, 2], "lines": [1]}


def wait_and_fail() -> None:
    with waiting():
        time.sleep(0.02)
        raise ValueError("cut off")


def test_only_waits_are_counted() -> None:
    with measured_waits() as waited:
        time.sleep(0.05)
        assert waited.seconds == 0.0
        with waiting():
            time.sleep(0.02)
        with pytest.raises(ValueError, match="cut off"):
            wait_and_fail()
    assert waited.seconds >= 0.04
    before = waited.seconds
    with waiting():
        time.sleep(0.01)
    assert waited.seconds == before
