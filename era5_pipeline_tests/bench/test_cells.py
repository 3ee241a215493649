"""Turns, medians and ratios."""

from __future__ import annotations

import pytest

from era5_pipeline.bench.cells import CannotRunError, Cell, Numbers, ratio, take_turns


def test_ways_take_turns_and_medians_are_given() -> None:
    order = []
    seconds = {"a": iter((1.0, 9.0, 2.0)), "b": iter((4.0, 5.0, 6.0))}

    def way(name: str) -> tuple[int, Numbers]:
        order.append(name)
        return 10, {"seconds": next(seconds[name]), "copy_seconds": 0.5}

    said: list[str] = []
    cells = take_turns({"a": lambda: way("a"), "b": lambda: way("b")}, 3, said.append)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert cells["a"].rows_per_second == 5.0
    assert cells["b"].rows_per_second == 2.0
    assert cells["a"].rate_of("copy_seconds") == 20.0
    assert said[2:4] == ["2 of 3: b", "2 of 3: a"]
    assert ratio(cells["a"].rows_per_second, cells["b"].rows_per_second) == 2.5


def test_what_cannot_run_is_asked_once_and_says_why() -> None:
    asked = []

    def way() -> tuple[int, Numbers]:
        asked.append(1)
        raise CannotRunError("no such program")

    cell = take_turns({"a": way}, 3, lambda _: None)["a"]
    assert len(asked) == 1
    assert cell.to_json() == {
        "name": "a",
        "rows": 0,
        "rows_per_second": None,
        "reason": "no such program",
        "seconds": [],
        "figures": {},
    }
    assert ratio(cell.rows_per_second, 1.0) is None
    assert ratio(1.0, cell.rows_per_second) is None


def test_defects_are_not_taken_for_reasons() -> None:
    def way() -> tuple[int, Numbers]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_turns({"a": way}, 1, lambda _: None)


def test_a_cell_without_a_figure() -> None:
    assert Cell("a").figure("bytes_per_row") is None
    assert Cell("a").rate_of("copy_seconds") is None
