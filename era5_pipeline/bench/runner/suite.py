"""What a suite is: a name, the sizes it takes by default, and the cells that it plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import ratio
from era5_pipeline.bench.runner.planned_cell import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.runner.bench_context import BenchContext
    from era5_pipeline.bench.runner.planned_cell import PlannedCell

# Bytes that a row takes in the table and its indexes, and in the files that it is loaded from.
TABLE_ROW_BYTES = 100
FILE_ROW_BYTES = 120

Entries = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Suite:
    """A suite.

    `plan` gives the cells while its context is open; it does nothing that takes time before one of them is measured,
    because it is also called to count them. `rows` is the default of `--rows`, `bytes` what it needs on disk at a time
    for so many. `own_server`: it starts servers of its own. `ratios` are calculated from what is kept of its cells, and
    so are `figures`: what the suite finds, by name, so that no reader needs to know its cells.
    """

    name: str
    summary: str
    plan: Callable[[BenchContext], AbstractContextManager[Sequence[PlannedCell]]]
    rows: int
    repeats: int
    bytes: Callable[[BenchContext], int]
    own_server: bool = False
    ratios: Callable[[Entries], Mapping[str, float | None]] = lambda _: {}
    figures: Callable[[Entries], Mapping[str, float | None]] = lambda _: {}


def measured(result: tuple[int, Numbers]) -> Measured:
    """The form of a repeat, of the form that measuring functions return."""
    rows, figures = result
    return Measured(rows, figures)


def rate_of(entries: Entries, name: str, figure: str = "seconds") -> float | None:
    """The median rate of a cell, by one of its figures in seconds; None if it was not measured."""
    entry = entries.get(name)
    if entry is None or entry["reason"] is not None or figure not in entry["medians"]:
        return None
    return float(entry["rows"] / entry["medians"][figure][1])


def rate_ratio(entries: Entries, above: str, below: str, figure: str = "seconds") -> float | None:
    """The rate of one cell over that of another."""
    return ratio(rate_of(entries, above, figure), rate_of(entries, below, figure))
