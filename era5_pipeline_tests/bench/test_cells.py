"""Order of measurements, medians and ratios."""

from __future__ import annotations

import pytest

from era5_pipeline.bench.cells import CannotRunError, Cell, Numbers, ratio, take_turns


def test_items_take_turns_and_rates_are_medians() -> None:
    order = []
    seconds = {"a": iter((1.0, 9.0, 2.0)), "b": iter((4.0, 5.0, 6.0))}

    def measure(name: str) -> tuple[int, Numbers]:
        order.append(name)
        return 10, {"seconds": next(seconds[name]), "copy_seconds": 0.5}

    messages: list[str] = []
    cells = take_turns({"a": lambda: measure("a"), "b": lambda: measure("b")}, 3, messages.append)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert cells["a"].rows_per_second == 5.0
    assert cells["b"].rows_per_second == 2.0
    assert cells["a"].rate_of("copy_seconds") == 20.0
    assert messages[2:4] == ["2 of 3: b", "2 of 3: a"]
    assert ratio(cells["a"].rows_per_second, cells["b"].rows_per_second) == 2.5


def test_item_that_cannot_run_is_tried_once_and_has_a_reason() -> None:
    calls = []

    def measure() -> tuple[int, Numbers]:
        calls.append(1)
        raise CannotRunError("no such program")

    cell = take_turns({"a": measure}, 3, lambda _: None)["a"]
    assert len(calls) == 1
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


def test_unexpected_errors_are_raised() -> None:
    def measure() -> tuple[int, Numbers]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_turns({"a": measure}, 1, lambda _: None)


def test_missing_figure_is_none() -> None:
    assert Cell("a").figure("bytes_per_row") is None
    assert Cell("a").rate_of("copy_seconds") is None
