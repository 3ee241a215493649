"""A cell of a benchmark: its figures by name, the plan of a cell, and one repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# --- Types of a measurement: figures by name, the error for what cannot be measured here, ratios ---


Numbers = dict[str, float]


class CannotRunError(Exception):
    """A cell cannot be measured here; the message says why."""


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, rounded to 0.001; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, 3)


# --- A planned cell, and one repeat of it ---


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
