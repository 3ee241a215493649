"""Batch after batch into one table, and over one to N connections at once, with our loader and the study's."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell
from era5_pipeline.bench.copies import PandasCsvCopy, PipelineLoader, PsycopgRows
from era5_pipeline.bench.generated import GeneratedHours
from era5_pipeline.bench.load_method import TABLE_KINDS, Batch
from era5_pipeline.bench.methods import files_in, require_available
from era5_pipeline.bench.processes import run_at_once
from era5_pipeline.bench.servers import count_rows
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.bench.load_method import LoadMethod, TableKind
    from era5_pipeline.bench.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth

# --- Batch after batch into one table: whether the rate stays the same ---


# The study's two ways, and ours.
COMPARED: tuple[LoadMethod, ...] = (PsycopgRows(), PandasCsvCopy(), PipelineLoader())


@contextmanager
def sustained_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each of the compared ways and each table; one repeat is the whole series."""
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
        """Load all batches; the seconds cover preparing and copying, but not generating the batch."""
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


# --- One to N connections at once, with the same number for our loader and the study's ---


# The number of batches is two per connection for the most connections, and at least this.
_FEWEST_BATCHES = 4


@contextmanager
def parallel_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each of the compared ways, each table and each number of connections, with the same batches."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    batches = _batches(context)
    cells = []
    for method in COMPARED:
        for kind in TABLE_KINDS:
            for workers in context.workers:
                cell = _AtOnce(context, hours, method, kind, workers)
                parameters = {"method": method.name, "table": kind, "workers": workers, "batches": batches}
                name = f"{method.name}, {kind}, {workers} worker{'s' if workers > 1 else ''}"
                cells.append(PlannedCell(name, context.rows * batches, parameters, cell.measure))
    yield cells


def parallel_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table, and for the files of all connections."""
    return context.rows * _batches(context) * (2 * TABLE_ROW_BYTES + 3 * FILE_ROW_BYTES)


def _batches(context: BenchContext) -> int:
    return max(_FEWEST_BATCHES, 2 * max(context.workers))


@dataclass(frozen=True)
class _AtOnce:
    context: BenchContext
    hours: GeneratedHours
    method: LoadMethod
    kind: TableKind
    workers: int

    def measure(self) -> Measured:
        """Give each process its share of the batches; the clock stops when the last one ends."""
        target = self.context.target
        require_available(target, self.method, self.kind)
        files = self._files()
        folder = files_in(self.context.folder)
        shares = [
            (target.warehouse.url, self.method, self.hours.flat, files[first :: self.workers], folder / str(first))
            for first in range(self.workers)
        ]
        target.calm()
        seconds, results = run_at_once(_load_share, shares)
        with target.connect() as connection:
            rows = count_rows(connection)
        wanted = self.hours.rows_per_batch * len(files)
        if rows != wanted:
            raise CannotRunError(f"{rows:,} of {wanted:,} rows are visible through the table")
        return Measured(rows, {"seconds": seconds, "peak_rss_bytes": max(one.peak_rss_bytes for one in results)})

    def _files(self) -> list[Path]:
        """The batches as Arrow files, which processes map into memory without reading them."""
        folder = self.context.folder / "arrow"
        folder.mkdir(exist_ok=True)
        files = [folder / f"{number}.arrow" for number in range(_batches(self.context))]
        for number, file in enumerate(files):
            if not file.exists():
                batch = self.hours.batch(number)
                with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                    writer.write_table(batch)
        return files


def _load_share(url: str, method: LoadMethod, flat: FlatMonth, files: list[Path], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for file in files:
        with pa.memory_map(str(file)) as source, method.session(url) as session:
            rows = pa.ipc.open_file(source).read_all()
            method.load(session, method.prepare(Batch(rows, flat, folder)))
