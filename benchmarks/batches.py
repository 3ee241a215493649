"""Suites that load batches of global hours: each way once, batch after batch, over several connections, converted."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.cells import CannotRunError, Measured, PlannedCell
from benchmarks.generated import GeneratedHours, GeneratedMonths, scaled
from benchmarks.methods import (
    TABLE_KINDS,
    Batch,
    PandasCsvCopy,
    PipelineLoader,
    PsycopgRows,
    make_study_table,
    methods_of,
    pipeline_copy,
    require_timescaledb,
)
from benchmarks.processes import run_at_once
from benchmarks.servers import Target, count_rows, require_rows
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.methods import Family, LoadMethod, TableKind
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth

# --- Suites that compare ways to load one batch: insert, multi-insert, copy and tools, each into both tables ---


# Rows of the study's insert and multi-insert benchmarks, for which a copy loads an hour of the globe.
INSERT_ROWS, MULTI_INSERT_ROWS = 20_000, 100_000
_WARM_UP_ROWS = 500


@contextmanager
def _method_cells(context: BenchContext, *, family: Family, share: int | None) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each way of the family and each table; `share`: rows out of a global hour, None for all of it."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    rows = context.rows if share is None else scaled(context.rows, share)
    cells = []
    for method in methods_of(family, context.workers):
        if context.options.methods and method.name not in context.options.methods:
            continue
        for kind in TABLE_KINDS:
            cell = _MethodCell(context, hours, method, kind, rows)
            parameters = {"method": method.name, "table": kind, "workers": getattr(method, "workers", 1)}
            cells.append(PlannedCell(f"{method.name}, {kind}", rows, parameters, cell.measure, cell.warm_up))
    yield cells


insert_cells = partial(_method_cells, family="insert", share=INSERT_ROWS)
multi_insert_cells = partial(_method_cells, family="multi-insert", share=MULTI_INSERT_ROWS)
copy_cells = partial(_method_cells, family="copy", share=None)
tools_cells = partial(_method_cells, family="tool", share=None)


def batch_bytes(context: BenchContext) -> int:
    """Bytes on disk for one batch: its table with the log, and its files."""
    return context.rows * (2 * TABLE_ROW_BYTES + 4 * FILE_ROW_BYTES)


@dataclass(frozen=True)
class _MethodCell:
    context: BenchContext
    hours: GeneratedHours
    method: LoadMethod
    kind: TableKind
    rows: int

    def measure(self) -> Measured:
        target = self.context.target
        require_available(target, self.method, self.kind)
        batch = Batch(self.hours.first_rows(self.rows), self.hours.flat, files_in(self.context.folder))
        target.calm()
        return load_once(target, self.method, batch)

    def warm_up(self) -> None:
        target = self.context.target
        require_available(target, self.method, self.kind)
        rows = self.hours.first_rows(min(self.rows, _WARM_UP_ROWS))
        load_once(target, self.method, Batch(rows, self.hours.flat, files_in(self.context.folder)))


def require_available(target: Target, method: LoadMethod, kind: TableKind) -> None:
    """Create the table again, and require that this server supports the way.

    Raises:
        CannotRunError: with the reason, if it does not.
    """
    with target.connect() as connection:
        make_study_table(connection, kind)
        reason = method.why_missing(connection)
    if reason is not None:
        raise CannotRunError(reason)


def files_in(folder: Path) -> Path:
    """The folder for files that the server may read, which the server's user must be able to enter."""
    files = folder / "files"
    files.mkdir(exist_ok=True)
    for one in (folder, files):
        one.chmod(0o755)
    return files


def load_once(target: Target, method: LoadMethod, batch: Batch) -> Measured:
    """Load the batch into the empty table; the figures are the seconds in total, of preparing and of copying.

    Raises:
        CannotRunError: if it fails although the server is fine, or not all rows are visible afterwards.
    """
    url = target.warehouse.url
    with _own_errors(target, method), method.session(url) as session:
        started = time.monotonic()
        prepared = method.prepare(batch)
        ready = time.monotonic()
        method.load(session, prepared)
        done = time.monotonic()
        notes = method.notes(session)
    with target.connect() as connection:
        rows = count_rows(connection)
    if rows != batch.rows.num_rows:
        raise CannotRunError(f"{rows:,} of {batch.rows.num_rows:,} rows are visible through the table")
    figures = {"prepare_seconds": ready - started, "copy_seconds": done - ready}
    figures["seconds"] = figures["copy_seconds"] if method.loads_only else done - started
    return Measured(rows, figures, notes=notes)


@contextmanager
def _own_errors(target: Target, method: LoadMethod) -> Iterator[None]:
    """Attribute the error of a library to its way alone, unless the server is gone."""
    try:
        yield
    except (CannotRunError, Era5Error):
        raise
    except Exception as error:
        with target.connect():  # if this fails, its error is for the user
            pass
        text = " ".join(str(error).split())[:200]
        raise CannotRunError(f"{method.name} failed: {type(error).__name__}: {text}") from error


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


# --- Two ways to a hypertable, and to a columnstore: convert a full table, or load straight into it ---


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
