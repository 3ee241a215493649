"""Batch after batch into one table: whether the rate lasts."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.generated_hours import GeneratedHours
from era5_pipeline.bench.methods.arrow_copies import PipelineLoader
from era5_pipeline.bench.methods.csv_copies import PandasCsvCopy
from era5_pipeline.bench.methods.load_method import Batch
from era5_pipeline.bench.methods.row_copies import PsycopgRows
from era5_pipeline.bench.methods.study_tables import TABLE_KINDS
from era5_pipeline.bench.runner.planned_cell import Measured, PlannedCell
from era5_pipeline.bench.runner.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.bench.suites.method_suites import files_in, require_available
from era5_pipeline.bench.target import count_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.bench.methods.load_method import LoadMethod
    from era5_pipeline.bench.methods.study_tables import TableKind
    from era5_pipeline.bench.runner.bench_context import BenchContext

# The study's two, and ours.
COMPARED: tuple[LoadMethod, ...] = (PsycopgRows(), PandasCsvCopy(), PipelineLoader())


@contextmanager
def sustained_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each of the compared ways and each table; a repeat is the whole series."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    batches = context.options.batches
    cells = []
    for method in COMPARED:
        for kind in TABLE_KINDS:
            parameters = {"method": method.name, "table": kind, "batches": batches}
            measure = _Series(context, hours, method, kind).measure
            cells.append(
                PlannedCell(f"{method.name}, {kind}", context.rows * batches, parameters, measure, most_repeats=1)
            )
    yield cells


def series_bytes(context: BenchContext) -> int:
    """Bytes on disk for the largest table."""
    return context.rows * (context.options.batches * 2 * TABLE_ROW_BYTES + 4 * FILE_ROW_BYTES)


@dataclass(frozen=True)
class _Series:
    context: BenchContext
    hours: GeneratedHours
    method: LoadMethod
    kind: TableKind

    def measure(self) -> Measured:
        """Load all batches; seconds are those of preparing and copying, without those of making the batch."""
        target, folder = self.context.target, files_in(self.context.folder)
        require_available(target, self.method, self.kind)
        target.calm()
        full, copy = [], []
        for number in range(self.context.options.batches):
            batch = Batch(self.hours.batch(number), self.hours.flat, folder)
            with self.method.session(target.warehouse.url) as session:
                started = time.monotonic()
                prepared = self.method.prepare(batch)
                ready = time.monotonic()
                self.method.load(session, prepared)
                full.append(time.monotonic() - started)
                copy.append(full[-1] - (ready - started))
        with target.connect() as connection:
            rows = count_rows(connection)
        wanted = self.hours.rows_per_batch * len(full)
        if rows != wanted:
            raise CannotRunError(f"{rows:,} of {wanted:,} rows are visible through the table")
        rates = [self.hours.rows_per_batch / seconds for seconds in full]
        return Measured(rows, {"seconds": sum(full), "copy_seconds": sum(copy)}, {"rows_per_second": rates})
