"""The file of results: valid JSON after each repeat, and refused if it is something else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.bench.runner.planned_cell import Measured, PlannedCell
from era5_pipeline.bench.runner.results_file import ResultsFile
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

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
