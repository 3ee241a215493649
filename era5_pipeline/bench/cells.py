"""One item of a benchmark, measured several times: seconds, rows and other figures, or why it cannot be measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Numbers = dict[str, float]


@dataclass
class Cell:
    """Measurements of one item.

    `rows` are found in the table after each repeat; `seconds` and `figures` have one value per repeat. If the item
    cannot be measured, `reason` says why, and `seconds` is empty.
    """

    name: str
    rows: int = 0
    seconds: list[float] = field(default_factory=list)
    figures: dict[str, list[float]] = field(default_factory=dict)
    reason: str | None = None

    @property
    def rows_per_second(self) -> float | None:
        """The median rate; None without a measurement."""
        return self.rows / median(self.seconds) if self.seconds else None

    def rate_of(self, figure: str) -> float | None:
        """The median rate, calculated with a figure in seconds; None without a measurement."""
        values = self.figures.get(figure)
        return self.rows / median(values) if values else None

    def figure(self, name: str) -> float | None:
        """The median of a figure; None without a measurement."""
        values = self.figures.get(name)
        return median(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """A JSON value with the median rate, and the values of each repeat."""
        return {
            "name": self.name,
            "rows": self.rows,
            "rows_per_second": _rounded(self.rows_per_second),
            "reason": self.reason,
            "seconds": [round(value, 4) for value in self.seconds],
            "figures": {name: [round(value, 4) for value in values] for name, values in self.figures.items()},
        }


class CannotRunError(Exception):
    """An item cannot be measured here; the message says why."""


def take_turns(
    measures: dict[str, Callable[[], tuple[int, Numbers]]], repeats: int, say: Callable[[str], None]
) -> dict[str, Cell]:
    """Measure all items once, then all again, `repeats` times; each returns rows found, and figures with `seconds`.

    Each round starts with another item, so that none always follows the same one. Items that cannot run are tried once.
    """
    cells = {name: Cell(name) for name in measures}
    for repeat in range(repeats):
        items = list(measures.items())
        first = repeat % len(items)
        for name, measure in [*items[first:], *items[:first]]:
            cell = cells[name]
            if cell.reason is not None:
                continue
            say(f"{repeat + 1} of {repeats}: {name}")
            try:
                cell.rows, figures = measure()
            except CannotRunError as error:
                cell.reason = str(error)
                continue
            cell.seconds.append(figures.pop("seconds"))
            for figure, value in figures.items():
                cell.figures.setdefault(figure, []).append(value)
    return cells


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, rounded to 0.001; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, 3)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)
