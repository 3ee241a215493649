"""Tests of `benchmarks/results`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.cells import Measured, PlannedCell
from benchmarks.results import BenchProgress, ResultsFile, duration, figure_of
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_time_left_follows_from_the_same_cell_then_its_suite_then_all() -> None:
    progress = BenchProgress({"copy": {"a": 2, "b": 1}, "tools": {"c": 1}}, lambda _: None, lambda _: None)
    assert progress.seconds_left() is None
    progress.tell("copy", "a", "5 rows/s", 1, 10.0)
    # Once more a, 10 s; b as its suite, 10 s; c as all, 10 s.
    assert progress.seconds_left() == 30.0
    progress.tell("copy", "b", "5 rows/s", 1, 40.0)
    assert progress.seconds_left() == 10.0 + 25.0
    progress.tell("tools", "c", "null (no program)")
    assert progress.seconds_left() == 10.0


def test_durations_and_figures_in_words() -> None:
    assert [duration(seconds) for seconds in (40, 119, 720, 12_000)] == ["40 s", "2 min", "12 min", "3 h 20 min"]
    assert figure_of({"medians": {"seconds": [1, 2, 3]}, "rows": 3_000_000}) == "1,500,000 rows/s, 2 s"
    assert figure_of({"medians": {"status_ms": [1, 2.345, 3]}, "rows": 0}) == "status_ms 2.345"


CELL = PlannedCell("psycopg rows, regular", 10, {"workers": (1, 2)}, lambda: Measured(10, {}))


def test_the_file_is_valid_after_each_repeat(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "folder" / "results.json")
    results.use_environment({"server": {"version": "PostgreSQL 18.4"}})
    for number in range(3):
        measured = Measured(10, {"seconds": 1 / 3, "wal": number}, {"rates": [1 / 3]}, {"file": "read by the server"})
        results.add("copy", CELL, measured)
        found = json.loads(results.path.read_text())
        assert len(found["cells"][0]["repeats"]) == number + 1
    repeat = found["cells"][0]["repeats"][0]
    assert repeat["figures"] == {"seconds": 0.33333, "wal": 0}
    assert repeat["series"] == {"rates": [0.33333]}
    assert ResultsFile(results.path).contents == results.contents
    assert [path.name for path in results.path.parent.iterdir()] == ["results.json"]


def test_parameters_are_compared_as_json_keeps_them(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "results.json")
    results.use_environment({"server": {"version": "PostgreSQL 18.4"}})
    results.add("copy", CELL, Measured(10, {"seconds": 1.0}))
    again = ResultsFile(results.path)
    again.use_environment({"server": {"version": "PostgreSQL 18.4"}})
    assert again.repeats_of("copy", CELL) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', '{"cells": []}'])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a file of results"):
        ResultsFile(path)
    assert path.read_text() == text
