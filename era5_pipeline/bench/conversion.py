"""Two ways to a hypertable, and to a columnstore: convert a full table, or load straight into it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell
from era5_pipeline.bench.copies import PipelineLoader
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.generated import GeneratedHours, GeneratedMonths
from era5_pipeline.bench.load_method import Batch, make_study_table, require_timescaledb
from era5_pipeline.bench.methods import files_in
from era5_pipeline.bench.servers import count_rows, require_rows
from era5_pipeline.bench.suite import TABLE_ROW_BYTES
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.bench.load_method import TableKind
    from era5_pipeline.bench.suite import BenchContext

_BATCHES = 4
CONVERTED, STRAIGHT = "regular table, then migrate_data", "straight into the hypertable"
COMPRESSED, DIRECT = "heap, then compress_chunk", "direct compress"


@contextmanager
def conversion_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """Two pairs of cells; all use the pipeline's loader."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    month = GeneratedMonths(context.folder / "month", context.rows)
    rows = context.rows * _BATCHES
    cell = _Conversion(context, hours, month)
    yield [
        PlannedCell(CONVERTED, rows, {"batches": _BATCHES}, partial(cell.load_hours, "regular")),
        PlannedCell(STRAIGHT, rows, {"batches": _BATCHES}, partial(cell.load_hours, "hypertable")),
        PlannedCell(COMPRESSED, context.rows, {}, partial(cell.load_columnstore, direct=False)),
        PlannedCell(DIRECT, context.rows, {}, partial(cell.load_columnstore, direct=True)),
    ]


def conversion_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table before and after its conversion, with the log of both."""
    return context.rows * _BATCHES * 4 * TABLE_ROW_BYTES


@dataclass(frozen=True)
class _Conversion:
    context: BenchContext
    hours: GeneratedHours
    month: GeneratedMonths

    def load_hours(self, kind: TableKind) -> Measured:
        """Load the batches, and convert the table unless it is a hypertable already."""
        target, method = self.context.target, PipelineLoader()
        with target.connect() as connection:
            require_timescaledb(connection)
            make_study_table(connection, kind)
        batches = [
            Batch(self.hours.batch(number), self.hours.flat, files_in(self.context.folder))
            for number in range(_BATCHES)
        ]
        target.calm()
        started = time.monotonic()
        for batch in batches:
            with method.session(target.warehouse.url) as session:
                method.load(session, method.prepare(batch))
        loaded = time.monotonic()
        with target.connect() as connection:
            if kind == "regular":
                connection.execute("SELECT create_hypertable('weather', 'time', migrate_data => true)")
            done = time.monotonic()
            rows = count_rows(connection)
        if rows != self.hours.rows_per_batch * _BATCHES:
            raise CannotRunError(f"{rows:,} rows are visible through the table")
        return Measured(
            rows, {"seconds": done - started, "load_seconds": loaded - started, "convert_seconds": done - loaded}
        )

    def load_columnstore(self, *, direct: bool) -> Measured:
        """Load a month into the columnstore, straight or through the heap."""
        target = self.context.target
        if "columnstore" not in target.offered:
            raise CannotRunError("the server has no columnstore (TimescaleDB, Community edition)")
        (flat,) = self.month.flat(1)
        rows, figures = target.fill(Columnstore(direct=direct), flat.month, pipeline_copy(flat))
        require_rows(rows, flat)
        with target.connect() as connection:
            figures["bytes_per_row"] = read_space(connection).bytes / rows
        return Measured(rows, figures)
