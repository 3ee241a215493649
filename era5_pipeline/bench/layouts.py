"""Compare the layouts: rate of loading, bytes per row, and time to read one month of a location."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.bench.cells import Measured, PlannedCell
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.generated import GeneratedMonths
from era5_pipeline.bench.processes import Reader
from era5_pipeline.bench.servers import Target, require_rows
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, measured, rate_ratio
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.suite import BenchContext, Entries
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable

COMPRESSED_AFTERWARDS = "columnstore by compress_chunk"
_LOCATIONS = 50


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
