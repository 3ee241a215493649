"""Suites about the table: its layouts compared, and its speed as it grows."""

from __future__ import annotations

import random
import shutil
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any, Self

from psycopg import sql

from benchmarks.cells import CannotRunError, Measured, PlannedCell, measured, rate_ratio, ratio
from benchmarks.generated import GeneratedMonths, area_of
from benchmarks.methods import pipeline_copy
from benchmarks.servers import Target, count_rows, require_rows
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import psycopg

    from benchmarks.cells import Entries, Numbers
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse

# --- Compare the layouts: rate of loading, bytes per row, and time to read one month of a location ---


COMPRESSED_AFTERWARDS = "columnstore by compress_chunk"
_LOCATIONS = 50


_PAUSE_SECONDS = 0.02


class Reader:
    """Runs queries in a thread while the context is open; `longest_ms` is the longest wait.

    Raises:
        CannotRunError: on exit, if a query failed or returned only a part of the month.
    """

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, location: int) -> None:
        self.longest_ms = 0.0
        self._warehouse = warehouse
        self._hours = flat.hours
        self._query = sql.SQL("SELECT count(*) FROM {} WHERE location_id = {} AND {}").format(
            WEATHER, sql.Literal(location), month_where(flat.month)
        )
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error:
            raise CannotRunError(f"a reader: {self._error}")

    def _run(self) -> None:
        try:
            with self._warehouse.connect() as connection:
                while not self._stop.wait(_PAUSE_SECONDS):
                    started = time.monotonic()
                    row = connection.execute(self._query).fetchone()
                    self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
                    if row != (self._hours,):
                        self._error = f"saw {row} hours of {self._hours}"
        except Exception as error:  # noqa: BLE001  # raised on exit
            self._error = str(error)


@contextmanager
def layout_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each layout; null for those that the server does not offer.

    With the option `variables`, each layout is also measured with a month of these variables, and with a month of the
    default ones in a table that has columns for these.
    """
    suite = _Layouts(context)
    layouts: dict[str, Layout] = LAYOUTS | {COMPRESSED_AFTERWARDS: Columnstore(direct=False)}
    cells = [suite.cell(name, layout, ()) for name, layout in layouts.items()]
    variables = context.options.variables or ()
    if variables:
        some = len(DEFAULT_VARIABLES)
        for name, layout in LAYOUTS.items():
            cells.append(suite.cell(f"{name}, {len(variables)} variables", layout, variables, all_of_them=True))
            cells.append(suite.cell(f"{name}, {some} of {len(variables)} variables", layout, variables))
    yield cells


def layout_bytes(context: BenchContext) -> int:
    """Bytes on disk for a month and its replacement, with their log."""
    return context.rows * (4 * TABLE_ROW_BYTES + FILE_ROW_BYTES) * (1 if context.options.variables is None else 3)


def layout_ratios(entries: Entries) -> dict[str, float | None]:
    """The columnstore over the heap, and over compressing afterwards."""
    return {
        "columnstore_to_compress_chunk": rate_ratio(entries, "columnstore", COMPRESSED_AFTERWARDS),
        "columnstore_to_heap": rate_ratio(entries, "columnstore", "calendar hypertable"),
    }


@dataclass
class _Layouts:
    context: BenchContext

    @cached_property
    def _month(self) -> FlatMonth:
        return GeneratedMonths(self.context.folder, self.context.rows).flat(1)[0]

    @cached_property
    def _other_month(self) -> FlatMonth:
        variables = self.context.options.variables
        return GeneratedMonths(self.context.folder / "variables", self.context.rows, variables).flat(1)[0]

    def cell(
        self, name: str, layout: Layout, variables: tuple[Variable, ...], *, all_of_them: bool = False
    ) -> PlannedCell:
        def measure() -> Measured:
            target = self.context.target
            # Before generating the month: fails at once for a layout that the server does not offer.
            target.make_table(layout, variables)
            return measured(_load(target, layout, self._other_month if all_of_them else self._month, variables))

        parameters = {"layout": layout.name, "variables": [variable.column for variable in variables]}
        return PlannedCell(name, self.context.rows, parameters, measure)


def _load(target: Target, layout: Layout, flat: FlatMonth, variables: tuple[Variable, ...] = ()) -> tuple[int, Numbers]:
    rows, numbers = target.fill(layout, flat.month, pipeline_copy(flat), variables=variables)
    require_rows(rows, flat)
    with target.connect() as connection:
        numbers["bytes_per_row"] = read_space(connection).bytes / rows
        numbers["location_month_ms"] = _location_month_ms(connection, flat)
    numbers["reader_longest_wait_ms"] = _reader_longest_wait_ms(target, layout, flat)
    return rows, numbers


def _reader_longest_wait_ms(target: Target, layout: Layout, flat: FlatMonth) -> float:
    """The longest wait of a reader of one location while the month is replaced by itself and settled."""
    with target.connect() as connection:
        ((location,),) = connection.execute("SELECT location_id FROM weather LIMIT 1").fetchall()
    with Reader(target.warehouse, flat, location) as reader, pipeline_copy(flat) as copy:
        target.replace(layout, flat.month, copy, replaced=True)
    return reader.longest_ms


def _location_month_ms(connection: psycopg.Connection[Any], flat: FlatMonth) -> float:
    """Median time to read all columns of one location's month, over 50 locations, with a warm cache."""
    locations = [row[0] for row in connection.execute("SELECT DISTINCT location_id FROM weather ORDER BY 1").fetchall()]
    sampled = random.Random(1).sample(locations, min(_LOCATIONS, len(locations)))  # noqa: S311  # the same in each run
    query = sql.SQL("SELECT * FROM {} WHERE location_id = {} AND {}")
    taken = []
    for location in sampled:
        statement = query.format(WEATHER, sql.Literal(location), month_where(flat.month))
        for _ in range(2):  # the first one fills the cache
            started = time.monotonic()
            found = len(connection.execute(statement, binary=True).fetchall())
            seconds = time.monotonic() - started
        if found != flat.hours:
            raise AssertionError(f"location {location} has {found} hours of {flat.hours}")
        taken.append(seconds * 1000)
    return median(taken)


# --- Speed as the table grows: loads, queries and `era5 status` with 1, 12, 120 and 1,020 months in it ---


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
