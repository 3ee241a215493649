"""All ways to load rows into a table, in the order in which results are shown, and the suites that compare them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell
from era5_pipeline.bench.copies import (
    AdbcIngest,
    ArrowBinaryCopy,
    ArrowCsvCopy,
    AsyncpgRecords,
    BulkloadTool,
    PandasCsvCopy,
    ParallelCopyTool,
    PipelineLoader,
    PsycopgBinaryRows,
    PsycopgRows,
)
from era5_pipeline.bench.generated import GeneratedHours, scaled
from era5_pipeline.bench.inserts import (
    PandasInsert,
    PandasMultiInsert,
    PsycopgExecutemany,
    PsycopgInsert,
    PsycopgMultiValues,
    PsycopgUnnest,
    SqlalchemyInsert,
    SqlalchemyMultiInsert,
)
from era5_pipeline.bench.load_method import TABLE_KINDS, Batch, make_study_table
from era5_pipeline.bench.servers import Target, count_rows
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.model.errors import Era5Error, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.bench.load_method import Family, LoadMethod, TableKind
    from era5_pipeline.bench.suite import BenchContext

# --- All ways to load, in the order in which results are shown ---


METHODS: tuple[LoadMethod, ...] = (
    PandasInsert(),
    PsycopgInsert(),
    SqlalchemyInsert(),
    PandasMultiInsert(),
    PsycopgExecutemany(),
    PsycopgMultiValues(),
    PsycopgUnnest(),
    SqlalchemyMultiInsert(),
    PandasCsvCopy(),
    ArrowCsvCopy(),
    PsycopgRows(),
    PsycopgBinaryRows(),
    AsyncpgRecords(),
    AdbcIngest(),
    ArrowBinaryCopy(),
    PipelineLoader(),
)
WRITERS = ("direct", "buffered", "parallel")


def methods_of(family: Family, workers: Sequence[int] = (1,)) -> tuple[LoadMethod, ...]:
    """The ways of a family; tools with a number of workers appear once for each number."""
    if family == "tool":
        return (*(ParallelCopyTool(count) for count in workers), *(BulkloadTool(writer) for writer in WRITERS))
    return tuple(method for method in METHODS if method.family == family)


def require_known(names: Sequence[str], workers: Sequence[int]) -> None:
    """Require that each of these names a way to load.

    Raises:
        UsageError: if a name is unknown; the message suggests the nearest.
    """
    known = [method.name for method in (*METHODS, *methods_of("tool", workers))]
    for name in names:
        if name not in known:
            raise unknown("--method", name, known)


def unknown(option: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for an unknown name."""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{option}: there is no {name!r}", remedy=f"{meant}Known: {', '.join(dict.fromkeys(known))}.")


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
