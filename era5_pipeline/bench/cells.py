"""A cell of a benchmark: its figures by name, one that is to be measured, and one repeat of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# --- Types of a measurement: its figures by name, the error for what cannot be measured on this machine, ratios ---


Numbers = dict[str, float]


class CannotRunError(Exception):
    """An item cannot be measured here; the message says why."""


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, rounded to 0.001; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, 3)


# --- A cell that is to be measured, and one repeat of it ---


@dataclass(frozen=True)
class Measured:
    """One repeat: the rows found in the table afterwards, and figures, among them `seconds`.

    `series` has figures of which there are many, such as the rate of each batch; `notes` are words.
    """

    rows: int
    figures: Numbers
    series: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCell:
    """A cell: its name, unique in its suite, what distinguishes it, and how it is measured.

    `measure` raises `CannotRunError` where it cannot be measured here. `warm_up` is called once before the first
    repeat. `most_repeats` limits those that take long, such as a series of batches.
    """

    name: str
    rows: int
    parameters: dict[str, Any]
    measure: Callable[[], Measured]
    warm_up: Callable[[], None] | None = None
    most_repeats: int | None = None
