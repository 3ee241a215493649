"""The suite once, with few months, of which one fails and is run again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from era5_pipeline_tests.commands import Home, new_home

if TYPE_CHECKING:
    from pathlib import Path


def test_months_are_counted_and_measured(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with new_home() as home:
        home.run("bench", "run", "orchestration", "--months", "3", "--failing", "1", "--json", str(file))
        assert_nothing_is_left(home)
    (cell,) = json.loads(file.read_text())["cells"]
    assert (cell["suite"], cell["parameters"]) == ("orchestration", {"months": 3, "failing": 1})
    figures = {name: values[1] for name, values in cell["medians"].items()}
    assert figures["seconds_per_month"] > 0
    assert figures["seconds_in_all"] >= figures["seconds_before_first_run"] > 0
    begin = "processor_seconds_per_month, "
    used = {name.removeprefix(begin): value for name, value in figures.items() if name.startswith(begin)}
    assert min(used[kind] for kind in ("daemon", "runs", "storage")) > 0
    assert abs(sum(value for kind, value in used.items() if kind != "all") - used["all"]) < 0.01
    assert cell["server"].startswith("PostgreSQL")


def assert_nothing_is_left(home: Home) -> None:
    assert home.processes() == []
    assert not list(home.path.glob("bench-*"))
