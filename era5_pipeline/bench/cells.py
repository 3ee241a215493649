"""One thing measured several times: seconds, rows, and what else there is to say; or why it could not be."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Numbers = dict[str, float]


@dataclass
class Cell:
    """`rows` are those found in the table after each repeat; `figures` whatever else was measured, per repeat.

    `reason` says why there is nothing: then `seconds` is empty.
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
        """The median rate by a figure in seconds."""
        values = self.figures.get(figure)
        return self.rows / median(values) if values else None

    def figure(self, name: str) -> float | None:
        """The median of a figure."""
        values = self.figures.get(name)
        return median(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """A JSON value: medians first, then each repeat."""
        return {
            "name": self.name,
            "rows": self.rows,
            "rows_per_second": _rounded(self.rows_per_second),
            "reason": self.reason,
            "seconds": [round(value, 4) for value in self.seconds],
            "figures": {name: [round(value, 4) for value in values] for name, values in self.figures.items()},
        }


class CannotRunError(Exception):
    """Why something cannot be measured here, in words."""


def take_turns(
    ways: dict[str, Callable[[], tuple[int, Numbers]]], repeats: int, say: Callable[[str], None]
) -> dict[str, Cell]:
    """Measure each way once, then each again, and so on; a way gives rows found and figures, `seconds` among them.

    Each turn begins with another one, so that none always comes after the same. One that cannot run is asked once.
    """
    cells = {name: Cell(name) for name in ways}
    for repeat in range(repeats):
        first = repeat % len(ways)
        for name, measure in [*list(ways.items())[first:], *list(ways.items())[:first]]:
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
    """The quotient; None where one is missing."""
    return None if above is None or not below else round(above / below, 3)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value)
