"""Suites about the table: its layouts compared, and its speed as it grows."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from functools import partial
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

from psycopg import sql

from benchmarks.cells import CannotRunError, Laps, Meanwhile, Measured, PlannedCell, rate_ratios, ratio, seconds_of
from benchmarks.generated import GeneratedMonths, area_of, flattened, generated_files
from benchmarks.methods import pipeline_copy
from benchmarks.servers import ROWS, Target, number_of
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, BenchContext, Suite
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_VARIABLES, Variable
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.layout import month_where
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from benchmarks.cells import Entries
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

COMPRESSED_AFTERWARDS = "columnstore by compress_chunk"
_LOCATIONS = 50
_PAUSE_SECONDS = 0.02


class Reader(Meanwhile):
    """Counts the hours of a location again and again while the context is open; `longest_ms` is the longest wait."""

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, location: int) -> None:
        super().__init__()
        self.longest_ms = 0.0
        self._warehouse = warehouse
        self._hours = flat.hours
        self._query = sql.SQL("SELECT count(*) FROM {} WHERE location_id = {} AND {}").format(
            sql.Identifier(ERA5.table), sql.Literal(location), month_where(flat.month)
        )

    def run(self) -> None:
        """Query with pauses."""
        with self._warehouse.connect() as connection:
            while not self.stopped.wait(_PAUSE_SECONDS):
                clock = Laps()
                row = connection.execute(self._query).fetchone()
                self.longest_ms = max(self.longest_ms, clock.lap() * 1000)
                if row != (self._hours,):
                    raise AssertionError(f"a reader saw {row} hours of {self._hours}")


def _layout_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each layout; null for those that the server does not offer.

    With the option `variables`, each layout is also measured with a month of these variables, and with a month of the
    default ones in a table that has columns for these.
    """
    variables = context.options.variables or ()
    month = GeneratedMonths(context.folder, context.rows)
    of_all = GeneratedMonths(context.folder / "variables", context.rows, variables)

    def cell(name: str, layout: Layout, columns: tuple[Variable, ...], months: GeneratedMonths) -> PlannedCell:
        parameters = {"layout": layout.name, "variables": [variable.column for variable in columns]}
        return PlannedCell(name, context.rows, parameters, lambda: _load(context.target, layout, months, columns))

    layouts: dict[str, Layout] = LAYOUTS | {COMPRESSED_AFTERWARDS: Columnstore(direct=False)}
    cells = [cell(name, layout, (), month) for name, layout in layouts.items()]
    for name, layout in LAYOUTS.items() if variables else ():
        cells.append(cell(f"{name}, {len(variables)} variables", layout, variables, of_all))
        cells.append(cell(f"{name}, {len(DEFAULT_VARIABLES)} of {len(variables)} variables", layout, variables, month))
    return cells


def _load(target: Target, layout: Layout, months: GeneratedMonths, variables: tuple[Variable, ...]) -> Measured:
    # Before generating the month: fails at once for a layout that the server does not offer.
    target.make_table(layout, variables)
    (flat,) = months.flat(1)
    filled = target.fill(layout, flat.month, pipeline_copy(flat), flat.rows, variables=variables)
    with target.connect() as connection:
        ids = [row[0] for row in connection.execute("SELECT DISTINCT location_id FROM weather ORDER BY 1").fetchall()]
        filled.figures["bytes_per_row"] = read_space(connection).bytes / flat.rows
        filled.figures["location_month_ms"] = _location_month_ms(connection, flat, ids)
    # While the month is replaced by itself and settled.
    with Reader(target.warehouse, flat, ids[0]) as reader, pipeline_copy(flat) as copy:
        target.replace(layout, flat.month, copy, replaced=True)
    filled.figures["reader_longest_wait_ms"] = reader.longest_ms
    return filled


def _location_month_ms(connection: psycopg.Connection[Any], flat: FlatMonth, ids: list[int]) -> float:
    """Median time to read all columns of one location's month, over 50 locations, with a warm cache."""
    query = sql.SQL("SELECT * FROM {} WHERE location_id = {} AND {}")

    def read(location: int) -> None:
        statement = query.format(sql.Identifier(ERA5.table), sql.Literal(location), month_where(flat.month))
        found = len(connection.execute(statement, binary=True).fetchall())
        if found != flat.hours:
            raise AssertionError(f"location {location} has {found} hours of {flat.hours}")

    return _warm_ms([partial(read, location) for location in _some(ids, _LOCATIONS)])


def _some(ids: list[int], count: int) -> list[int]:
    return random.Random(1).sample(ids, min(count, len(ids)))  # noqa: S311  # the same in each run


def _warm_ms(questions: Sequence[Callable[[], object]]) -> float:
    """The median time of the questions, each asked twice, as the first time fills the cache."""
    taken = []
    for ask in questions:
        ask()
        taken.append(seconds_of(ask))
    return 1000 * median(taken)


LAYOUTS_SUITE = Suite(
    name="layouts",
    summary="rate, space and reads of each",
    load="a month of 3 million rows",
    plan=_layout_cells,
    rows=3_000_000,
    repeats=3,
    # A month and its replacement.
    bytes=lambda context: (
        context.rows * (4 * TABLE_ROW_BYTES + FILE_ROW_BYTES) * (1 if context.options.variables is None else 3)
    ),
    ratios=rate_ratios(
        {
            "columnstore_to_compress_chunk": ("columnstore", COMPRESSED_AFTERWARDS),
            "columnstore_to_heap": ("columnstore", "calendar hypertable"),
        }
    ),
    at_least={"columnstore_to_compress_chunk": 1.7, "columnstore_to_heap": 0.85},
)


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


def _scale_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each number of months; the table grows from one to the next."""
    table, rows = _GrowingTable(context), context.rows
    names = {held: f"{held} month{'s' if held > 1 else ''}" for held in sorted(context.options.held)}
    return [
        PlannedCell(name, rows, {"months": held}, partial(table.measure, held), most_repeats=1)
        for held, name in names.items()
    ]


def _scale_ratios(entries: Entries) -> dict[str, float | None]:
    """Each figure with the most months over that with the fewest, and the seconds of a year with their error."""
    measured = (entry for entry in entries.values() if entry["reason"] is None)
    found = sorted(measured, key=lambda entry: entry["parameters"]["months"])
    if len(found) < 2:
        return {}
    first, last = ({name: values[1] for name, values in found[end]["medians"].items()} for end in (0, -1))
    years = ("seconds_per_year", "seconds_per_year_error", "bytes_per_year")
    return {
        f"{name}, most to fewest months": ratio(last[name], first[name])
        for name in ("seconds", "place_month_ms", "status_ms")
    } | {name: last[name] for name in years if name in last}


@dataclass
class _GrowingTable:
    """The table `weather` with some months, and the seconds that each took to load."""

    context: BenchContext
    load_seconds: list[float] = field(default_factory=list)

    def measure(self, held: int) -> Measured:
        """Load months until there are `held`; then query."""
        target = self.context.target
        if not self.load_seconds:
            target.make_table(target.layout)
        rows = self.context.rows
        while len(self.load_seconds) < held:
            rows = self._load_next(target)
        figures = {"seconds": median(self.load_seconds[-_LAST_LOADS:])}
        with target.connect() as connection:
            figures |= self._queries(connection, held)
            if len(read_ledger(connection)) != held:
                raise CannotRunError(f"the ledger has other months than the {held} loaded")
            size, found = read_space(connection).bytes, number_of(connection, ROWS)
        figures |= {"bytes_per_row": size / found, "bytes_per_year": 12 * size / held}
        if len(self.load_seconds) > _LAST_LOADS:
            error = stdev(self.load_seconds) / len(self.load_seconds) ** 0.5
            figures["seconds_per_year"] = 12 * mean(self.load_seconds)
            figures["seconds_per_year_error"] = 12 * _STANDARD_ERRORS * error
        return Measured(rows, figures, {"load_seconds": list(self.load_seconds)})

    def _load_next(self, target: Target) -> int:
        """Generate the next month, and load it as in `era5 load`; return its rows."""
        month = Month.from_number(_FIRST.number + len(self.load_seconds))
        folder = self.context.folder / "scale"
        flat = flattened(generated_files(folder, month, area_of(self.context.rows / _HOURS)), folder)
        self.load_seconds.append(seconds_of(lambda: load_month(target.warehouse, flat)))
        shutil.rmtree(folder)
        return flat.rows

    def _queries(self, connection: psycopg.Connection[Any], held: int) -> dict[str, float]:
        """Median milliseconds to read a place's last month and all its months, and of the queries of `era5 status`."""
        last = Month.from_number(_FIRST.number + held - 1)
        found = connection.execute(
            "SELECT DISTINCT location_id FROM weather WHERE time >= %s AND time < %s ORDER BY 1", (last.start, last.end)
        ).fetchall()
        places = _some([row[0] for row in found], _PLACES)
        connection.execute("ANALYZE weather")

        def ask(query: str, *more: object) -> float:
            return _warm_ms(
                [partial(lambda place: connection.execute(query, (place, *more)).fetchall(), place) for place in places]
            )

        return {
            "place_month_ms": ask(_ONE_MONTH, last.start, last.end),
            "place_all_ms": ask(_ALL_MONTHS),
            "status_ms": _warm_ms([lambda: (read_ledger(connection), read_space(connection))] * 3),
        }


SCALE = Suite(
    name="scale",
    summary="1 to 1,020 months in the table",
    load="1,020 months of 18,600 rows (`--held`)",
    plan=_scale_cells,
    rows=18_600,
    repeats=1,
    bytes=lambda context: context.rows * max(context.options.held) * 2 * TABLE_ROW_BYTES,
    ratios=_scale_ratios,
)
