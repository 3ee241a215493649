"""Suites that load batches of global hours: each way once, batch after batch, over several connections, converted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.cells import CannotRunError, Laps, Measured, PlannedCell, planned
from benchmarks.generated import GeneratedHours, GeneratedMonths, scaled
from benchmarks.methods import (
    OUR_LOADER,
    PANDAS_CSV,
    PSYCOPG_ROWS,
    TABLE_KINDS,
    Batch,
    make_study_table,
    methods_of,
    pipeline_copy,
    require_timescaledb,
)
from benchmarks.processes import run_at_once
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, BenchContext, Suite, disk
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.warehouse.layouts.columnstore import Columnstore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.methods import Family, LoadMethod, Notes, TableKind
    from benchmarks.servers import Target
    from era5_pipeline.flat.flat_month import FlatMonth

_HOUR = ERA5_GRID.locations  # rows of a global hour, which the study loads at a time
_A_BATCH = "an hour of the globe"


@dataclass(frozen=True)
class _Batches:
    """The database and the batches shared by the cells of these suites; batches are generated on first use."""

    context: BenchContext

    @cached_property
    def hours(self) -> GeneratedHours:
        return GeneratedHours(self.context.folder / "hours", self.context.rows)

    def batch(self, number: int, rows: int | None = None) -> Batch:
        """The batch, or only its first rows."""
        return Batch(self.hours.batch(number).slice(0, rows), self.hours.flat, files_in(self.context.folder))

    def target(self, method: LoadMethod, kind: TableKind) -> Target:
        """The database with a new table, if this server supports the way."""
        with self.context.target.connect() as connection:
            make_study_table(connection, kind)
            reason = method.why_missing(connection)
        if reason is not None:
            raise CannotRunError(reason)
        return self.context.target


def files_in(folder: Path) -> Path:
    """The folder for files that the server may read, which the server's user must be able to enter."""
    files = folder / "files"
    files.mkdir(exist_ok=True)
    for one in (folder, files):
        one.chmod(0o755)
    return files


# Rows of the study's insert and multi-insert benchmarks, for which a copy loads an hour of the globe.
_INSERT_ROWS, _MULTI_INSERT_ROWS = 20_000, 100_000
_WARM_UP_ROWS = 500


def _method_cells(context: BenchContext, *, family: Family, share: int | None) -> list[PlannedCell]:
    """A cell for each way of the family and each table; `share`: rows out of a global hour, None for all of it."""
    batches = _Batches(context)
    rows = context.rows if share is None else scaled(context.rows, share)

    def load(method: LoadMethod, kind: TableKind, rows: int, *, is_calm: bool) -> Measured:
        """Load the batch into an empty table; the figures are the seconds in total, of preparing and of copying."""
        target = batches.target(method, kind)
        batch = batches.batch(0, rows)
        if is_calm:
            target.calm()
        try:
            prepare, copy, notes = _load_batch(target, method, batch)
        except (CannotRunError, Era5Error):
            raise
        except Exception as error:  # of a library: attributed to its way alone, unless the server is gone
            with target.connect():  # if this fails, its error is for the user
                pass
            text = " ".join(str(error).split())[:200]
            raise CannotRunError(f"{method.name} failed: {type(error).__name__}: {text}") from error
        figures = {"prepare_seconds": prepare, "copy_seconds": copy}
        figures["seconds"] = copy if method.loads_only else prepare + copy
        return Measured(target.require_rows(batch.rows.num_rows), figures, notes=notes | method.version())

    return [
        PlannedCell(
            f"{method.name}, {kind}",
            rows,
            {"method": method.name, "table": kind, "workers": method.workers},
            partial(load, method, kind, rows, is_calm=True),
            partial(load, method, kind, min(rows, _WARM_UP_ROWS), is_calm=False),
        )
        for method in methods_of(family, context.options.workers)
        if not context.options.methods or method.name in context.options.methods
        for kind in TABLE_KINDS
    ]


def _load_batch(target: Target, method: LoadMethod, batch: Batch) -> tuple[float, float, Notes]:
    """Load the batch; return the seconds of preparing and of copying, and remarks."""
    with method.session(target.warehouse.url) as session:
        clock = Laps()
        prepared = method.prepare(batch)
        seconds = clock.lap()
        notes = method.load(session, prepared)
        return seconds, clock.lap(), notes


def _suite(name: str, summary: str, load: str, family: Family, share: int | None = None) -> Suite:
    plan = partial(_method_cells, family=family, share=share)
    return Suite(name=name, summary=summary, load=load, plan=plan, rows=_HOUR, repeats=10, bytes=disk(2, 4))


_STATEMENTS = "an INSERT for each row (a 52nd of --rows)", "many rows in a statement (a tenth of --rows)"
_COPY = "every way to COPY a batch, with and without its preparation"
INSERT = _suite("insert", _STATEMENTS[0], f"{_INSERT_ROWS:,} rows", "insert", _INSERT_ROWS)
MULTI_INSERT = _suite(
    "multi-insert", _STATEMENTS[1], f"{_MULTI_INSERT_ROWS:,} rows", "multi-insert", _MULTI_INSERT_ROWS
)
COPY = _suite("copy", _COPY, f"{_A_BATCH}, {ERA5_GRID.locations:,} rows", "copy")
TOOLS = _suite("tools", "timescaledb-parallel-copy and pg_bulkload", f"{_A_BATCH}, as a CSV file", "tool")


# --- Batch after batch into one table: whether the rate stays the same ---


# The study's two ways, and ours.
_COMPARED = (PSYCOPG_ROWS, PANDAS_CSV, OUR_LOADER)


def _sustained_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each of the compared ways and each table; one repeat is the whole series."""
    batches, count = _Batches(context), context.options.batches

    def load(method: LoadMethod, kind: TableKind) -> Measured:
        """Load all batches; the seconds cover preparing and copying, but not generating the batch."""
        target = batches.target(method, kind)
        target.calm()
        loads = [_load_batch(target, method, batches.batch(number)) for number in range(count)]
        full, size = [prepare + copy for prepare, copy, _ in loads], batches.hours.rows_per_batch
        figures = {"seconds": sum(full), "copy_seconds": sum(copy for _, copy, _ in loads)}
        return Measured(
            target.require_rows(size * count), figures, {"rows_per_second": [size / seconds for seconds in full]}
        )

    return [
        PlannedCell(
            f"{method.name}, {kind}",
            context.rows * count,
            {"method": method.name, "table": kind, "batches": count},
            partial(load, method, kind),
            most_repeats=1,
        )
        for method, kind in product(_COMPARED, TABLE_KINDS)
    ]


SUSTAINED = Suite(
    name="sustained",
    summary="batch after batch into one table",
    load=f"60 times {_A_BATCH} (`--batches 744` for the study's)",
    plan=_sustained_cells,
    rows=_HOUR,
    repeats=1,
    bytes=lambda context: context.rows * (context.options.batches * 2 * TABLE_ROW_BYTES + 4 * FILE_ROW_BYTES),
)


# --- One to N connections at once, with the same number for our loader and the study's ---


# The number of batches is two per connection for the most connections, and at least this.
_FEWEST_BATCHES = 4


def _batches_at_once(context: BenchContext) -> int:
    return max(_FEWEST_BATCHES, 2 * max(context.options.workers))


def _parallel_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each of the compared ways, each table and each number of connections, with the same batches."""
    batches, count = _Batches(context), _batches_at_once(context)

    def files() -> list[Path]:
        """The batches as Arrow files, which processes map into memory without reading them."""
        folder = context.folder / "arrow"
        folder.mkdir(exist_ok=True)
        found = [folder / f"{number}.arrow" for number in range(count)]
        for number, file in enumerate(found):
            if not file.exists():
                batch = batches.hours.batch(number)
                with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                    writer.write_table(batch)
        return found

    def load(method: LoadMethod, kind: TableKind, workers: int) -> Measured:
        """Give each process its share of the batches; the clock stops when the last one ends."""
        target = batches.target(method, kind)
        url, flat, of_all, folder = target.warehouse.url, batches.hours.flat, files(), files_in(context.folder)
        shares = [(url, method, flat, of_all[first::workers], folder / str(first)) for first in range(workers)]
        target.calm()
        figures = run_at_once(_load_share, shares)
        return Measured(target.require_rows(batches.hours.rows_per_batch * count), figures)

    return [
        PlannedCell(
            f"{method.name}, {kind}, {workers} worker{'s' if workers > 1 else ''}",
            context.rows * count,
            {"method": method.name, "table": kind, "workers": workers, "batches": count},
            partial(load, method, kind, workers),
        )
        for method, kind, workers in product(_COMPARED, TABLE_KINDS, context.options.workers)
    ]


def _load_share(url: str, method: LoadMethod, flat: FlatMonth, files: list[Path], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for file in files:
        with pa.memory_map(str(file)) as source, method.session(url) as session:
            rows = pa.ipc.open_file(source).read_all()
            method.load(session, method.prepare(Batch(rows, flat, folder)))


PARALLEL = Suite(
    name="parallel",
    summary="several connections, ours and the study's",
    load="twice as many hours of the globe as the most connections",
    plan=_parallel_cells,
    rows=_HOUR,
    repeats=3,
    bytes=lambda context: disk(2, 3)(context) * _batches_at_once(context),
)


# --- Two ways to a hypertable, and to a columnstore: convert a full table, or load straight into it ---


_BATCHES = 4


def _conversion_cells(context: BenchContext) -> list[PlannedCell]:
    """Two pairs of cells; all use the pipeline's loader."""
    batches = _Batches(context)
    month = GeneratedMonths(context.folder / "month", context.rows)

    def load_hours(kind: TableKind) -> Measured:
        """Load the batches, and convert the table unless it is a hypertable already."""
        target = context.target
        with target.connect() as connection:
            require_timescaledb(connection)
            make_study_table(connection, kind)
        wanted = [batches.batch(number) for number in range(_BATCHES)]
        target.calm()
        clock = Laps()
        for batch in wanted:
            _load_batch(target, OUR_LOADER, batch)
        load = clock.lap()
        if kind == "regular":
            with target.connect() as connection:
                connection.execute("SELECT create_hypertable('weather', 'time', migrate_data => true)")
        convert = clock.lap()
        figures = {"seconds": load + convert, "load_seconds": load, "convert_seconds": convert}
        return Measured(target.require_rows(batches.hours.rows_per_batch * _BATCHES), figures)

    def load_columnstore(*, direct: bool) -> Measured:
        """Load a month into the columnstore, straight or through the heap."""
        target = context.target
        if "columnstore" not in target.offered:
            raise CannotRunError("the server has no columnstore (TimescaleDB, Community edition)")
        (flat,) = month.flat(1)
        filled = target.fill(Columnstore(direct=direct), flat.month, pipeline_copy(flat), flat.rows)
        filled.figures["bytes_per_row"] = target.bytes() / flat.rows
        return filled

    whole: dict[str, Callable[[], Measured]] = {
        "regular table, then migrate_data": partial(load_hours, "regular"),
        "straight into the hypertable": partial(load_hours, "hypertable"),
    }
    columns: dict[str, Callable[[], Measured]] = {
        "heap, then compress_chunk": partial(load_columnstore, direct=False),
        "direct compress": partial(load_columnstore, direct=True),
    }
    return planned(whole, context.rows * _BATCHES, batches=_BATCHES) + planned(columns, context.rows)


CONVERSION = Suite(
    name="conversion",
    summary="convert a full table, or load straight in",
    load="4 hours of the globe",
    plan=_conversion_cells,
    rows=_HOUR,
    repeats=3,
    bytes=disk(4 * _BATCHES, 0),
)
