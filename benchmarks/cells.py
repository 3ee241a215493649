"""A cell of a benchmark: its plan, one repeat of it, and numbers from the stored entries of a suite's cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Numbers = dict[str, float]


class CannotRunError(Exception):
    """A cell cannot be measured here; the message says why."""


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, rounded to 0.001; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, 3)


@dataclass(frozen=True)
class Measured:
    """One repeat: the rows found in the table afterwards, and figures, including `seconds`.

    `series` are figures with many values, such as the rate of each batch; `notes` are text.
    """

    rows: int
    figures: Numbers
    series: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCell:
    """A cell: its name, unique in its suite, its distinguishing parameters, and how to measure it.

    `measure` raises `CannotRunError` if it cannot be measured here. `warm_up` is called once before the first repeat.
    `most_repeats` limits slow ones, such as a series of batches.
    """

    name: str
    rows: int
    parameters: dict[str, Any]
    measure: Callable[[], Measured]
    warm_up: Callable[[], None] | None = None
    most_repeats: int | None = None


Entries = dict[str, dict[str, Any]]


def measured(result: tuple[int, Numbers]) -> Measured:
    """The result of a measuring function as a repeat."""
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


def median_of(entries: Entries, name: str, figure: str = "seconds") -> float | None:
    """The median of a figure of a cell; None if it was not measured."""
    entry = entries.get(name)
    if entry is None or entry["reason"] is not None or figure not in entry["medians"]:
        return None
    return float(entry["medians"][figure][1])
