"""Suites that load whole months: compared with the fastest possible COPY, and through all stages."""

from __future__ import annotations

import gc
import shutil
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
from psycopg import sql

from benchmarks.cells import CannotRunError, Numbers, PlannedCell, measured, rate_of, rate_ratio, ratio
from benchmarks.generated import GeneratedMonths, write_csv
from benchmarks.methods import COLUMNS, ParallelCopy, pipeline_copy
from benchmarks.processes import run_at_once
from benchmarks.servers import Target, count_rows, require_rows
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month, read_flat_month
from era5_pipeline.model.settings import Settings
from era5_pipeline.stages import load_in_advance, run_flat, run_load, run_raw
from era5_pipeline.warehouse.copy import location_spans
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space
from era5_pipeline.warehouse.verify import verify_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.cells import Entries
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline.warehouse.layouts import Layout
    from era5_pipeline.warehouse.layouts.layout import LocationSpan

# --- Compare the loader with the fastest possible COPY of the server, and with other tools ---


_COLUMN_NAMES = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
# Enough at 0.2 million rows/s; more would only take longer.
_ROWS_BY_ROW = 1_000_000
LOADER, SERVER_SIDE, BY_ROW = "loader", "server-side binary COPY", "psycopg rows"
SEVERAL, PARALLEL = "several workers", "timescaledb-parallel-copy"
AS_BATCHES, AS_ROWS = "load stage, finished batches", "load stage, rows"


# Folders on the server's machine: in memory if possible; otherwise a file in the page cache is as fast to read.
_SERVER_FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # on the server's machine


def no_copy(
    connection: psycopg.Connection[Any],
    table: sql.Identifier,
    *,
    freeze: bool,
    span: LocationSpan = EVERYWHERE,
) -> int:
    """Copy no rows, so that only the month's empty chunk or partition is created."""
    del connection, table, freeze, span
    return 0


@dataclass
class ServerFile:
    """The upper limit: the server copies the same rows from its own binary file, without a client."""

    path: str

    @classmethod
    def of_table(cls, connection: psycopg.Connection[Any]) -> ServerFile:
        """Let the server write the table's rows to a file that it can read fast.

        Raises:
            CannotRunError: if it cannot write to any of the folders.
        """
        reasons = []
        for folder in _SERVER_FOLDERS:
            path = f"{folder}/era5-bench-{connection.info.backend_pid}.bin"
            try:
                connection.execute(
                    sql.SQL("COPY (SELECT {} FROM weather) TO {} (FORMAT binary)").format(
                        _COLUMN_NAMES, sql.Literal(path)
                    )
                )
            except psycopg.Error as error:
                reasons.append(" ".join(str(error).split()))
            else:
                return cls(path)
        raise CannotRunError(f"the server cannot write a file: {reasons[-1]}")

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the file."""
        del span  # the file holds the complete month
        options = "FORMAT binary, FREEZE true" if freeze else "FORMAT binary"
        return connection.execute(
            sql.SQL("COPY {} ({}) FROM {} ({})").format(table, _COLUMN_NAMES, sql.Literal(self.path), sql.SQL(options))
        ).rowcount

    def remove(self, connection: psycopg.Connection[Any]) -> None:
        """Truncate the file, as SQL cannot delete it, and delete it if it is on this machine."""
        connection.execute(sql.SQL("COPY (SELECT WHERE false) TO {} (FORMAT text)").format(sql.Literal(self.path)))
        path = Path(self.path)
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()


@dataclass
class RowByRow:
    """The best method of the original study: psycopg's `copy.write_row`, with tuples made from the same Parquet file.

    `write_seconds` is the time for writing only, without reading the file and making the tuples.
    """

    flat: FlatMonth
    most_rows: int
    write_seconds: float = 0.0
    rows: int = 0

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the first rows, up to `most_rows`."""
        del span
        self.write_seconds, self.rows = 0.0, 0
        statement = sql.SQL("COPY {} ({}) FROM STDIN{}").format(
            table, _COLUMN_NAMES, sql.SQL(" (FREEZE true)" if freeze else "")
        )
        with pq.ParquetFile(self.flat.path) as file, connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for batch in file.iter_batches(batch_size=50_000, columns=list(COLUMNS)):
                    part = batch.slice(0, self.most_rows - self.rows)
                    tuples = list(zip(*(column.to_pylist() for column in part.columns), strict=True))
                    started = time.monotonic()
                    for row in tuples:
                        copy.write_row(row)
                    self.write_seconds += time.monotonic() - started
                    self.rows += part.num_rows
                    if self.rows >= self.most_rows:
                        break
            return cursor.rowcount


@contextmanager
def limit_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each way to load a month into the server's own layout."""
    workers = context.some_workers
    with ExitStack() as stack:
        suite = _Limit(context, workers, stack)
        measures: dict[str, Callable[[], tuple[int, Numbers]]] = {
            LOADER: suite.loader,
            SERVER_SIDE: suite.server_side,
            BY_ROW: suite.row_by_row,
            SEVERAL: suite.several,
            PARALLEL: suite.parallel_copy,
            AS_BATCHES: lambda: suite.load_stage(batches=True),
            AS_ROWS: lambda: suite.load_stage(batches=False),
        }
        at_once = {SEVERAL, PARALLEL}
        yield [
            PlannedCell(
                name,
                context.rows,
                {"workers": workers if name in at_once else 1},
                lambda measure=measure: measured(measure()),  # type: ignore[misc]
            )
            for name, measure in measures.items()
        ]


def limit_bytes(context: BenchContext) -> int:
    """Bytes on disk for as many months as workers, as tables with their log, and as files."""
    return context.rows * context.some_workers * (2 * TABLE_ROW_BYTES + 2 * FILE_ROW_BYTES)


def limit_ratios(entries: Entries) -> dict[str, float | None]:
    """The loader over each of the other ways.

    The first two compare only the COPY, from Parquet or the server's file to the last row: the later steps (index,
    ANALYZE, exchange) are the same for both, and would make the ratio look better. The last is of two whole stages, at
    whose end all values were compared: of batches while they were loaded, of rows in a query afterwards.
    """
    workers = entries.get(SEVERAL, {}).get("parameters", {}).get("workers")
    return {
        "loader_to_limit": rate_ratio(entries, LOADER, SERVER_SIDE, "copy_seconds"),
        "loader_to_psycopg_rows": rate_ratio(entries, LOADER, BY_ROW, "copy_seconds"),
        "loader_to_parallel_copy": rate_ratio(entries, SEVERAL, PARALLEL),
        "two_workers_to_one": ratio(rate_of(entries, SEVERAL), rate_of(entries, LOADER)) if workers == 2 else None,
        "batches_to_rows": rate_ratio(entries, AS_BATCHES, AS_ROWS),
    }


def load_at_once(target: Target, layout: Layout, months: Sequence[FlatMonth]) -> tuple[int, Numbers]:
    """Load each month in a separate process into a new table of the layout; return the rows found and the seconds."""
    target.make_table(layout)
    seconds, _ = run_at_once(_load, [(target, layout, month) for month in months])
    with target.connect() as connection:
        rows = count_rows(connection)
    if rows != sum(month.rows for month in months):
        raise CannotRunError(f"{rows:,} rows are in the table, of {sum(month.rows for month in months):,}")
    return rows, {"seconds": seconds}


def _load(target: Target, layout: Layout, month: FlatMonth) -> None:
    with pipeline_copy(month) as copy:
        target.replace(layout, month.month, copy)


@dataclass
class _Limit:
    context: BenchContext
    workers: int
    stack: ExitStack

    @property
    def _target(self) -> Target:
        return self.context.target

    @property
    def _layout(self) -> Layout:
        return LAYOUTS[self._target.offered[0]]

    @cached_property
    def _months(self) -> list[FlatMonth]:
        return GeneratedMonths(self.context.folder, self.context.rows).flat(self.workers)

    @property
    def _month(self) -> FlatMonth:
        return self._months[0]

    @cached_property
    def _csv(self) -> Path:
        path = self.context.folder / "month.csv"
        write_csv(self._month, path)
        return path

    @cached_property
    def _server_file(self) -> ServerFile | str:
        """The rows as a file of the server, until the suite ends; or the reason why that is impossible."""
        self.loader()
        with self._target.connect() as connection:
            try:
                file = ServerFile.of_table(connection)
            except CannotRunError as error:
                return str(error)
        self.stack.callback(self._remove, file)
        return file

    def _remove(self, file: ServerFile) -> None:
        with self._target.connect() as connection:
            file.remove(connection)

    def loader(self) -> tuple[int, Numbers]:
        """The pipeline's loader with one connection."""
        rows, numbers = self._target.fill(self._layout, self._month.month, pipeline_copy(self._month))
        require_rows(rows, self._month)
        return rows, numbers

    def server_side(self) -> tuple[int, Numbers]:
        """The upper limit: the server reads its own file."""
        file = self._server_file
        if isinstance(file, str):
            raise CannotRunError(file)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(file))
        require_rows(rows, self._month)
        return rows, numbers

    def row_by_row(self) -> tuple[int, Numbers]:
        """The best method of the study."""
        copy = RowByRow(self._month, _ROWS_BY_ROW)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(copy))
        if rows != copy.rows:
            raise CannotRunError(f"{rows:,} rows are in the table, of {copy.rows:,}")
        return rows, numbers | {"write_seconds": copy.write_seconds}

    def several(self) -> tuple[int, Numbers]:
        """One month over several connections; if the layout does not support that, several months at once."""
        if not self._layout.shares_months:
            return load_at_once(self._target, self._layout, self._months)
        spans = location_spans(self._month, self.workers)
        rows, numbers = self._target.fill(
            self._layout, self._month.month, pipeline_copy(self._month, spans), spans=spans
        )
        require_rows(rows, self._month)
        return rows, numbers

    def load_stage(self, *, batches: bool) -> tuple[int, Numbers]:
        """The whole stage as `era5 load` runs it, into the columnstore: ledger, summaries, comparison of values."""
        if "columnstore" not in self._target.offered:
            raise CannotRunError("this server offers no columnstore")
        self._target.make_table(LAYOUTS["columnstore"])
        with self._target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger")
        self._target.calm()
        loaded = load_month(self._target.warehouse, self._month, batches=batches)
        if loaded.is_read_back != batches:
            raise CannotRunError("; ".join(loaded.notes) or "this server's batches are not known")
        started = time.monotonic()
        differences = verify_month(self._target.warehouse, self._month, is_read_back=loaded.is_read_back)
        if differences:
            raise CannotRunError(f"the table differs from the file: {differences[0]}")
        compared = time.monotonic() - started
        with self._target.connect() as connection:
            size = read_space(connection).bytes
        return loaded.rows, {
            "seconds": loaded.seconds + compared,
            "load_seconds": loaded.seconds,
            "bytes_per_row": size / loaded.rows,
        }

    def parallel_copy(self) -> tuple[int, Numbers]:
        """Load into an existing chunk or partition, because the tool does not create it."""
        tool = ParallelCopy(self._csv, self.workers)
        self._target.fill(self._layout, self._month.month, nullcontext(no_copy))
        seconds = tool.run(self._target.warehouse.url)
        with self._target.connect() as connection:
            rows = count_rows(connection)
            require_rows(rows, self._month)
            # Reach the same final state as a load: visibility map and planner statistics up to date.
            started = time.monotonic()
            connection.execute("VACUUM (ANALYZE) weather")
            settled = time.monotonic() - started
        return rows, {"seconds": seconds + settled, "copy_seconds": seconds}


# --- Measure all stages, from netCDF to queryable rows, with one process per worker; and flattening alone ---


ALL_STAGES, FLATTEN = "netCDF to rows, all workers at once", "flatten alone"
STAGES = "one month alone, stage by stage"
ON_CLUSTER, AT_ONCE = "flatten on the Dask cluster", "flatten, all workers at once"


@contextmanager
def pipeline_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """All stages of as many months at once as there are workers, and flattening alone.

    Each worker processes a month of about `rows` rows: raw (inventory and digests of existing files), flat, load, and
    the comparison of table and file. One month alone, with its generation, gives the seconds of each stage. With the
    option `dask_scheduler`, flattening on that cluster is compared too.
    """
    workers = context.some_workers
    months = _SourceMonths(context.folder / "source", context.rows, workers)
    dask = context.options.dask_scheduler
    cells = [
        PlannedCell(
            ALL_STAGES,
            workers * context.rows,
            {"workers": workers},
            lambda: measured(_all_stages(context.target, context.folder, months.raw)),
        ),
        PlannedCell(FLATTEN, context.rows, {"workers": 1}, lambda: measured(_flatten(context.folder, months.raw[0]))),
        PlannedCell(
            STAGES,
            context.rows,
            {"workers": 1},
            lambda: measured(_stage_by_stage(context.target, context.folder / "alone", context.rows)),
        ),
    ]
    if dask is not None:
        cells += [
            PlannedCell(ON_CLUSTER, context.rows, {}, lambda: measured(_flatten(context.folder, months.raw[0], dask))),
            PlannedCell(
                AT_ONCE,
                workers * context.rows,
                {"workers": workers},
                lambda: measured(_flatten_at_once(context.folder, months.raw)),
            ),
        ]
    yield cells


def pipeline_ratios(entries: Entries) -> dict[str, float | None]:
    """A Dask cluster and several months at once, over flattening alone; empty if no cluster was named."""
    if ON_CLUSTER not in entries:
        return {}
    return {
        "cluster_to_flatten_alone": rate_ratio(entries, ON_CLUSTER, FLATTEN),
        "months_at_once_to_flatten_alone": rate_ratio(entries, AT_ONCE, FLATTEN),
    }


def pipeline_bytes(context: BenchContext) -> int:
    """Bytes on disk for the months as files and tables."""
    return context.rows * context.some_workers * (2 * TABLE_ROW_BYTES + 2 * FILE_ROW_BYTES)


@dataclass
class _SourceMonths:
    folder: Path
    rows: int
    count: int

    @cached_property
    def raw(self) -> list[RawMonth]:
        return GeneratedMonths(self.folder, self.rows).raw(self.count)


def _all_stages(target: Target, folder: Path, raws: list[RawMonth]) -> tuple[int, Numbers]:
    target.make_table(LAYOUTS[target.offered[0]])
    with target.connect() as connection:
        connection.execute("TRUNCATE era5.ledger")
    home, files = folder / "home", folder / "source" / "raw"
    shutil.rmtree(home, ignore_errors=True)
    arguments = [(target.warehouse, home, files, raw.month) for raw in raws]
    target.calm()
    seconds, results = run_at_once(_stages, arguments, prepare=_as_forked)
    with target.connect() as connection:
        rows = count_rows(connection)
    return rows, {"seconds": seconds, "peak_rss_bytes": max(result.peak_rss_bytes for result in results)}


def _as_forked() -> None:
    """Bring this process into the state in which a run of Dagster is forked (`defs.preloaded`)."""
    load_in_advance()
    gc.freeze()


def _stages(warehouse: Warehouse, home: Path, files: Path, month: Month) -> None:
    """Run one month through the stages, with default settings instead of the user's."""
    settings = Settings(_env_file=None, home=home, source="files", files_dir=str(files), workers=1)
    raw = run_raw(settings, month)
    flat = run_flat(settings, month)
    loaded = run_load(settings, warehouse, month)
    refused = [
        outcome.description for outcome in (*raw.outcomes, *flat.outcomes, *loaded.outcomes) if not outcome.passed
    ]
    if refused:
        raise CannotRunError(refused[0])


def _stage_by_stage(target: Target, home: Path, rows: int) -> tuple[int, Numbers]:
    """Generate, flatten, load and compare a month, in this process and without Dagster."""
    shutil.rmtree(home, ignore_errors=True)
    target.make_table(LAYOUTS[target.offered[0]])
    with target.connect() as connection:
        connection.execute("TRUNCATE era5.ledger")
    target.calm()
    times = [time.monotonic()]
    (raw,) = GeneratedMonths(home, rows).raw(1)
    times.append(time.monotonic())
    flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet")
    times.append(time.monotonic())
    load_month(target.warehouse, flat)
    times.append(time.monotonic())
    differences = verify_month(target.warehouse, flat)
    times.append(time.monotonic())
    if differences:
        raise CannotRunError(f"the table differs from the file: {differences[0]}")
    stages = ("generate_seconds", "flatten_seconds", "load_seconds", "compare_seconds")
    took = dict(zip(stages, (end - begin for begin, end in pairwise(times)), strict=True))
    return flat.rows, {"seconds": sum(took.values()), **took}


def _flatten(folder: Path, raw: RawMonth, dask_scheduler: str | None = None) -> tuple[int, Numbers]:
    home = folder / "flatten"
    shutil.rmtree(home, ignore_errors=True)
    cpu_before, started = time.process_time(), time.monotonic()
    flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet", dask_scheduler=dask_scheduler)
    return flat.rows, {
        "seconds": time.monotonic() - started,
        # For this process only, excluding its workers.
        "cpu_seconds": time.process_time() - cpu_before,
    }


def _flatten_at_once(folder: Path, raws: list[RawMonth]) -> tuple[int, Numbers]:
    folders = [folder / f"at-once-{number}" for number in range(len(raws))]
    seconds, results = run_at_once(_flatten, list(zip(folders, raws, strict=True)), prepare=_as_forked)
    rows = sum(_rows(of / "flatten" / "flat", raw.month) for of, raw in zip(folders, raws, strict=True))
    return rows, {"seconds": seconds, "peak_rss_bytes": max(result.peak_rss_bytes for result in results)}


def _rows(folder: Path, month: Month) -> int:
    flat = read_flat_month(folder, month)
    if flat is None:
        raise CannotRunError(f"{month} was not flattened")
    return flat.rows
