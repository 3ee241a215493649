"""Tests of `benchmarks/run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.cells import CannotRunError, Measured, PlannedCell
from benchmarks.results import BenchProgress, ResultsFile
from benchmarks.run import require_space, run_cells, wanted_repeats
from era5_pipeline.model.errors import LocalDiskError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_the_largest_suite_decides(tmp_path: Path) -> None:
    require_space({"copy": 1000, "sustained": 2000}, {"files": tmp_path})
    with pytest.raises(LocalDiskError) as error:
        require_space({"copy": 1000, "sustained": 10**18}, {"files": tmp_path})
    assert "the suite sustained needs about 1,000,000,001.0 GB for files" in error.value.message
    assert str(tmp_path) in error.value.message
    assert "--rows" in error.value.remedy


ENVIRONMENT = {"server": {"version": "PostgreSQL 18.4"}, "commit": "abc", "measured_at": "now"}


class Recorded:
    """Cells that note when they are measured."""

    def __init__(self, path: Path, environment: Mapping[str, object] | None = None) -> None:
        self.order: list[str] = []
        self.said: list[str] = []
        self.results = ResultsFile(path)
        self.results.use_environment(environment or ENVIRONMENT)

    def cell(self, name: str, rows: int = 10, most: int | None = None, fails_at: int = 0) -> PlannedCell:
        def measure() -> Measured:
            self.order.append(name)
            if fails_at and self.order.count(name) == fails_at:
                raise KeyboardInterrupt
            return Measured(rows, {"seconds": 2.0 * self.order.count(name)})

        return PlannedCell(name, rows, {"method": name}, measure, lambda: self.order.append(f"{name} warm"), most)

    def run(self, cells: list[PlannedCell], repeats: int) -> None:
        progress = BenchProgress({"copy": wanted_repeats(cells, repeats)}, self.said.append, lambda _: None)
        run_cells("copy", cells, repeats, self.results, progress)


def test_cells_take_turns_each_round_beginning_with_another(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "results.json")
    recorded.run([recorded.cell("a"), recorded.cell("b")], 3)
    assert recorded.order == ["a warm", "a", "b warm", "b", "b", "a", "a", "b"]
    entry = ResultsFile(tmp_path / "results.json").contents["cells"][0]
    assert [repeat["figures"]["seconds"] for repeat in entry["repeats"]] == [2.0, 4.0, 6.0]
    assert entry["medians"]["seconds"] == [2.4, 4.0, 5.6]
    assert all(repeat["load_average"] >= 0 for repeat in entry["repeats"])
    assert recorded.said[-1].startswith("[6/6]  copy: b: 2 rows/s, 4 s")


def test_a_later_run_measures_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = Recorded(path)
    with pytest.raises(KeyboardInterrupt):
        first.run([first.cell("a"), first.cell("b", fails_at=2)], 2)
    second = Recorded(path)
    second.run([second.cell("a"), second.cell("b")], 2)
    assert second.order == ["b warm", "b", "a warm", "a"]
    assert second.said[:2] == ["[1/4]  copy: a: 1 repeats kept", "[2/4]  copy: b: 1 repeats kept"]
    third = Recorded(path)
    third.run([third.cell("a"), third.cell("b")], 2)
    assert third.order == []


@pytest.mark.parametrize("what", ["rows", "commit"])
def test_a_cell_measured_otherwise_is_measured_again(tmp_path: Path, what: str) -> None:
    path = tmp_path / "results.json"
    first = Recorded(path)
    first.run([first.cell("a")], 2)
    later = Recorded(path, {**ENVIRONMENT, "measured_at": "later"} | ({"commit": "def"} if what == "commit" else {}))
    later.run([later.cell("a", rows=11 if what == "rows" else 10)], 2)
    assert later.order == ["a warm", "a", "a"]
    (entry,) = ResultsFile(path).contents["cells"]
    assert len(entry["repeats"]) == 2
    assert len(ResultsFile(path).contents["environments"]) == 1


def test_the_log_of_the_runs_own_server_may_have_another_size(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for is_own, again in ((True, []), (False, ["a warm", "a"])):
        for size, order in (("6GB", ["a warm", "a"]), ("7GB", again)):
            server = {"version": f"PostgreSQL {is_own}", "is_own": is_own, "settings": {"max_wal_size": size}}
            recorded = Recorded(path, {**ENVIRONMENT, "server": server})
            recorded.run([recorded.cell("a")], 1)
            assert recorded.order == order


def test_same_cell_on_another_server_is_another_cell(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for server in ("PostgreSQL 18.4", "PostgreSQL 17.11"):
        recorded = Recorded(path, {**ENVIRONMENT, "server": {"version": server}})
        recorded.run([recorded.cell("a")], 1)
        assert recorded.order == ["a warm", "a"]
    assert [cell["server"] for cell in ResultsFile(path).contents["cells"]] == ["PostgreSQL 18.4", "PostgreSQL 17.11"]


def test_what_cannot_be_measured_is_tried_once_and_has_its_reason(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "results.json")
    calls = []

    def measure() -> Measured:
        calls.append(1)
        raise CannotRunError("no such program")

    cell = PlannedCell("a", 10, {}, measure)
    recorded.run([cell], 3)
    assert len(calls) == 1
    assert recorded.said == ["[3/3]  copy: a: null (no such program)"]
    (entry,) = ResultsFile(recorded.results.path).contents["cells"]
    assert (entry["reason"], entry["repeats"]) == ("no such program", [])
    # The program may have been installed since.
    Recorded(recorded.results.path).run([cell], 3)
    assert len(calls) == 2


def test_a_series_is_measured_once_however_many_repeats_are_asked_for(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "results.json")
    recorded.run([recorded.cell("a", most=1), recorded.cell("b")], 3)
    assert recorded.order.count("a") == 1
    assert recorded.order.count("b") == 3
    assert recorded.said[-1].startswith("[4/4]")


def test_unexpected_errors_are_raised(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path / "results.json")

    def measure() -> Measured:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recorded.run([PlannedCell("a", 1, {}, measure)], 1)
