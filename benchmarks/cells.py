"""A cell of a benchmark: its plan, one repeat of it, how to time it, and numbers from the entries of a suite."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Numbers = dict[str, float]


class CannotRunError(Exception):
    """A cell cannot be measured here; the message says why."""


def missing_library(names: Iterable[str]) -> str | None:
    """Name the first of these modules that is not installed; None if all are."""
    lacking = [name for name in names if find_spec(name) is None]
    return f"the library {lacking[0]} is not installed" if lacking else None


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

    `measure` raises `CannotRunError` if it cannot be measured here, for which `why_missing` may have a reason before it
    is called. `warm_up` is called once before the first repeat.
    `most_repeats` limits slow ones, such as a series of batches.
    """

    name: str
    rows: int
    parameters: dict[str, Any]
    measure: Callable[[], Measured]
    warm_up: Callable[[], object] | None = None
    most_repeats: int | None = None
    why_missing: Callable[[], str | None] = lambda: None


def planned(
    measures: Mapping[str, Callable[[], Measured]],
    rows: int,
    why_missing: Callable[[], str | None] = lambda: None,
    **parameters: Any,  # noqa: ANN401  # values of JSON
) -> list[PlannedCell]:
    """A cell for each of these measurements by name, all of as many rows and with the same parameters."""
    return [PlannedCell(name, rows, parameters, measure, why_missing=why_missing) for name, measure in measures.items()]


class Laps:
    """A clock: `lap` gives the seconds since the last lap, or since it was made."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Start the next lap."""
        last, self._last = self._last, time.perf_counter()
        return self._last - last


def seconds_of(work: Callable[[], object]) -> float:
    """Do the work; return the seconds it took."""
    clock = Laps()
    work()
    return clock.lap()


def median_ms(work: Callable[[], object], times: int) -> float:
    """Do the work this often; return the median of the milliseconds."""
    return 1000 * median(seconds_of(work) for _ in range(times))


class Meanwhile:
    """Calls `run` in a thread while the context is open; it ends once `stopped` is set, and its error is raised."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def run(self) -> None:
        """Do what is to be done meanwhile, until `stopped` is set."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._done = self._pool.submit(self.run)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stopped.set()
        with self._pool:
            error = self._done.exception()
        if error is not None and kind is None:
            raise CannotRunError(f"what ran meanwhile failed: {error}") from error


# --- Numbers from the entries of a suite's cells, by name ---


Entries = dict[str, dict[str, Any]]
# The cells whose rates make a ratio, and the figure in seconds that they are rates of.
Ratio = tuple[str, str] | tuple[str, str, str]


def ratio(above: float | None, below: float | None, digits: int = 3) -> float | None:
    """The quotient, rounded; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, digits)


def median_of(entries: Entries, name: str, figure: str = "seconds") -> float | None:
    """The median of a figure of a cell; None if it was not measured."""
    entry = entries.get(name)
    if entry is None or entry["reason"] is not None or figure not in entry["medians"]:
        return None
    return float(entry["medians"][figure][1])


def rate_of(entries: Entries, name: str, figure: str = "seconds") -> float | None:
    """The median rate of a cell, by one of its figures in seconds; None if it was not measured."""
    seconds = median_of(entries, name, figure)
    return None if not seconds else float(entries[name]["rows"]) / seconds


def rate_ratios(wanted: Mapping[str, Ratio]) -> Callable[[Entries], dict[str, float | None]]:
    """Make the function that calculates these ratios of the rates of two cells from a suite's entries."""
    return lambda entries: {
        name: ratio(rate_of(entries, above, *figure), rate_of(entries, below, *figure))
        for name, (above, below, *figure) in wanted.items()
    }
