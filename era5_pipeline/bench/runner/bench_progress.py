"""Progress of a run in lines: repeats done, the time left, and the figure of each cell once it is measured."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from era5_pipeline.bench.runner.planned_cell import PlannedCell

# Cells and their repeats, by suite.
Wanted = dict[str, dict[str, int]]


class BenchProgress:
    """Counts repeats, and prints a line for each; `now` shows what is under way."""

    def __init__(self, wanted: Wanted, say: Callable[[str], None], now: Callable[[str], None]) -> None:
        self._left = {(suite, name): count for suite, cells in wanted.items() for name, count in cells.items()}
        self._total = sum(self._left.values())
        self._taken: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._say = say
        self._now = now

    def begin(self, suite: str, cell: PlannedCell, number: int, of: int) -> None:
        """A repeat begins."""
        self._now(f"{self._count()}  {suite}: {cell.name} ({number} of {of}){self._time_left()}")

    def kept(self, suite: str, cell: PlannedCell, repeats: int) -> None:
        """An earlier run has measured this cell."""
        self._left[suite, cell.name] -= repeats
        self._say(f"{self._count()}  {suite}: {cell.name}: {repeats} repeats kept")

    def measured(self, suite: str, cell: PlannedCell, entry: Mapping[str, Any], seconds: float) -> None:
        """A repeat is done, and took so long with all that it needs."""
        self._left[suite, cell.name] -= 1
        self._taken[suite, cell.name].append(seconds)
        self._say(f"{self._count()}  {suite}: {cell.name}: {figure_of(entry)}{self._time_left()}")

    def cannot(self, suite: str, cell: PlannedCell, reason: str) -> None:
        """A cell cannot be measured."""
        self._left[suite, cell.name] = 0
        self._say(f"{self._count()}  {suite}: {cell.name}: null ({reason})")

    def _count(self) -> str:
        return f"[{self._total - sum(self._left.values())}/{self._total}]"

    def seconds_left(self) -> float | None:
        """An estimate from what repeats took so far: of the same cell, else of its suite, else of all."""
        everything = [value for values in self._taken.values() for value in values]
        if not everything:
            return None
        total = 0.0
        for (suite, name), count in self._left.items():
            of_suite = [value for key, values in self._taken.items() if key[0] == suite for value in values]
            known = self._taken.get((suite, name)) or of_suite or everything
            total += count * sum(known) / len(known)
        return total

    def _time_left(self) -> str:
        seconds = self.seconds_left()
        if seconds is None:
            return ""
        return f"   about {duration(seconds)} left"


def figure_of(entry: Mapping[str, Any]) -> str:
    """The main figure of a cell so far: its median rate, or its seconds."""
    medians = entry["medians"]
    seconds = medians.get("seconds")
    if seconds is None:
        return ", ".join(f"{name} {value[1]:,.4g}" for name, value in list(medians.items())[:3])
    rate = f"{entry['rows'] / seconds[1]:,.0f} rows/s, " if entry["rows"] and seconds[1] else ""
    return f"{rate}{seconds[1]:,.3g} s"


def duration(seconds: float) -> str:
    """Seconds in words: 40 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
