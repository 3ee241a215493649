"""Speed as the table grows: loads, queries and `era5 status` with 1, 12, 120 and 1,020 months in it."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import mean, median, stdev
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell, ratio
from era5_pipeline.bench.generated import area_of
from era5_pipeline.bench.servers import count_rows
from era5_pipeline.bench.suite import TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.bench.servers import Target
    from era5_pipeline.bench.suite import BenchContext, Entries

_FIRST = Month(1941, 1)
_HOURS = 744
# The number of loads, up to the months of a cell, whose median is its rate.
_LAST_LOADS = 12
_PLACES = 15
_ONE_MONTH = "SELECT * FROM weather WHERE location_id = %s AND time >= %s AND time < %s"
_ALL_MONTHS = "SELECT * FROM weather WHERE location_id = %s"
# From 10 loads on, the 95 % interval of a mean is about this many standard errors on each side.
_STANDARD_ERRORS = 2.0


@contextmanager
def scale_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each number of months; the table grows from one to the next."""
    table = _GrowingTable(context)
    yield [
        PlannedCell(
            f"{held} month{'s' if held > 1 else ''}",
            context.rows,
            {"months": held},
            partial(table.measure, held),
            most_repeats=1,
        )
        for held in sorted(context.options.held)
    ]


def scale_bytes(context: BenchContext) -> int:
    """Bytes on disk for the largest table, with its log."""
    return context.rows * max(context.options.held) * 2 * TABLE_ROW_BYTES


def scale_ratios(entries: Entries) -> dict[str, float | None]:
    """Each figure with the most months over that with the fewest, and the seconds of a year with their error."""
    found = sorted(
        (entry for entry in entries.values() if entry["reason"] is None),
        key=lambda entry: entry["parameters"]["months"],
    )
    if len(found) < 2:
        return {}
    first, last = found[0]["medians"], found[-1]["medians"]
    names = ("seconds", "place_month_ms", "status_ms")
    years = {
        name: last[name][1] for name in ("seconds_per_year", "seconds_per_year_error", "bytes_per_year") if name in last
    }
    return {f"{name}, most to fewest months": ratio(last[name][1], first[name][1]) for name in names} | years


@dataclass
class _GrowingTable:
    """The table `weather` with some months, and the seconds that each took to load."""

    context: BenchContext
    load_seconds: list[float] = field(default_factory=list)

    def measure(self, held: int) -> Measured:
        """Load months until there are `held`; then query."""
        target = self.context.target
        if not self.load_seconds:
            target.make_table(LAYOUTS[target.offered[0]])
            with target.connect() as connection:
                connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
        rows = 0
        while len(self.load_seconds) < held:
            rows = self._load_next(target)
        recent = self.load_seconds[-_LAST_LOADS:]
        figures = {"seconds": median(recent)} | self._queries(target, held)
        with target.connect() as connection:
            if len(read_ledger(connection)) != held:
                raise CannotRunError(f"the ledger has other months than the {held} loaded")
            total = count_rows(connection)
            figures["bytes_per_row"] = read_space(connection).bytes / total
            figures["bytes_per_year"] = 12 * read_space(connection).bytes / held
        if len(self.load_seconds) > _LAST_LOADS:
            error = stdev(self.load_seconds) / len(self.load_seconds) ** 0.5
            figures["seconds_per_year"] = 12 * mean(self.load_seconds)
            figures["seconds_per_year_error"] = 12 * _STANDARD_ERRORS * error
        return Measured(rows or self.context.rows, figures, {"load_seconds": list(self.load_seconds)})

    def _load_next(self, target: Target) -> int:
        """Generate the next month, and load it as in `era5 load`; return its rows."""
        month = Month.from_number(_FIRST.number + len(self.load_seconds))
        folder = self.context.folder / "scale"
        raw = SampleSource(folder / "raw", Request(None, area_of(self.context.rows / _HOURS))).fetch(month)
        flat = flatten_month(raw, folder / "flat", home=folder, flat_format="parquet")
        started = time.monotonic()
        load_month(target.warehouse, flat)
        self.load_seconds.append(time.monotonic() - started)
        shutil.rmtree(folder)
        return flat.rows

    def _queries(self, target: Target, held: int) -> dict[str, float]:
        """Median milliseconds to read a place's last month and all its months, and of the queries of `era5 status`."""
        last = Month.from_number(_FIRST.number + held - 1)
        with target.connect() as connection:
            found = connection.execute(
                "SELECT DISTINCT location_id FROM weather WHERE time >= %s AND time < %s ORDER BY 1",
                (last.start, last.end),
            ).fetchall()
            places = random.Random(1).sample([row[0] for row in found], min(_PLACES, len(found)))  # noqa: S311  # the same in each run
            connection.execute("ANALYZE weather")

            def ask(query: str, *more: object) -> list[Callable[[], object]]:
                return [
                    partial(lambda place: connection.execute(query, (place, *more)).fetchall(), place)
                    for place in places
                ]

            return {
                "place_month_ms": _median_ms(ask(_ONE_MONTH, last.start, last.end)),
                "place_all_ms": _median_ms(ask(_ALL_MONTHS)),
                "status_ms": _median_ms([lambda: (read_ledger(connection), read_space(connection))] * 3),
            }


def _median_ms(questions: Sequence[Callable[[], object]]) -> float:
    """The median time of the questions, each asked twice, as the first time fills the cache."""
    taken = []
    for ask in questions:
        ask()
        started = time.monotonic()
        ask()
        taken.append((time.monotonic() - started) * 1000)
    return median(taken)
