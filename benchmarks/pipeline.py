"""Suites that load whole months: compared with the fastest possible COPY, and through all stages."""

from __future__ import annotations

import gc
import shutil
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
from psycopg import sql

from benchmarks.cells import (
    CannotRunError,
    Entries,
    Laps,
    Measured,
    PlannedCell,
    Ratio,
    planned,
    rate_ratios,
    seconds_of,
)
from benchmarks.generated import GeneratedMonths, flattened
from benchmarks.methods import COLUMNS, parallel_copy, pipeline_copy
from benchmarks.processes import run_at_once
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.flat.flatten import read_flat_month
from era5_pipeline.flat.formats import open_sink
from era5_pipeline.model.dataset import DATASETS, ERA5, dataset_named
from era5_pipeline.model.settings import Settings
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.stages import load_in_advance, run_flat, run_load, run_raw
from era5_pipeline.warehouse.copy import location_spans
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.verify import verify_month

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.servers import Target
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline.warehouse.layouts.layout import CopyInto

# --- Compare the loader with the fastest possible COPY of the server, and with other tools ---


_COLUMN_NAMES = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
# Enough at 0.2 million rows/s; more would only take longer.
_ROWS_BY_ROW = 1_000_000
LOADER, SERVER_SIDE, BY_ROW = "loader", "server-side binary COPY", "psycopg rows"
SEVERAL, PARALLEL = "several workers", "timescaledb-parallel-copy"
AS_BATCHES, AS_ROWS = "load stage, finished batches", "load stage, rows"


# Folders on the server's machine: in memory if possible; otherwise a file in the page cache is as fast to read.
_SERVER_FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # on the server's machine


@dataclass
class ServerFile:
    """The upper limit: the server copies the same rows from its own binary file, without a client."""

    path: str

    @classmethod
    def of_table(cls, connection: psycopg.Connection[Any]) -> ServerFile:
        """Let the server write the table's rows to a file that it can read fast."""
        reasons = []
        for folder in _SERVER_FOLDERS:
            path = f"{folder}/era5-bench-{connection.info.backend_pid}.bin"
            query = sql.SQL("COPY (SELECT {} FROM weather) TO {} (FORMAT binary)")
            try:
                connection.execute(query.format(_COLUMN_NAMES, sql.Literal(path)))
            except psycopg.Error as error:
                reasons.append(" ".join(str(error).split()))
            else:
                return cls(path)
        raise CannotRunError(f"the server cannot write a file: {reasons[-1]}")

    def __call__(self, connection: psycopg.Connection[Any], table: sql.Identifier, *, freeze: bool, **_: object) -> int:
        """Copy the file, which holds the complete month."""
        options = sql.SQL("FORMAT binary, FREEZE true" if freeze else "FORMAT binary")
        query = sql.SQL("COPY {} ({}) FROM {} ({})")
        return connection.execute(query.format(table, _COLUMN_NAMES, sql.Literal(self.path), options)).rowcount

    def remove(self, target: Target) -> None:
        """Truncate the file, as SQL cannot delete it, and delete it if it is on this machine."""
        with target.connect() as connection:
            connection.execute(sql.SQL("COPY (SELECT WHERE false) TO {} (FORMAT text)").format(sql.Literal(self.path)))
        path = Path(self.path)
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()


def row_by_row(flat: FlatMonth, most_rows: int) -> CopyInto:
    """The best method of the original study: psycopg's `copy.write_row`, with tuples made from the same Parquet file.

    It copies the first rows, up to `most_rows`.
    """

    def copy_rows(connection: psycopg.Connection[Any], table: sql.Identifier, *, freeze: bool, **_: object) -> int:
        options = sql.SQL(" (FREEZE true)" if freeze else "")
        statement = sql.SQL("COPY {} ({}) FROM STDIN{}").format(table, _COLUMN_NAMES, options)
        with pq.ParquetFile(flat.path) as file, connection.cursor() as cursor:
            batches = file.iter_batches(batch_size=50_000, columns=list(COLUMNS))
            rows = (row for of in batches for row in zip(*(column.to_pylist() for column in of.columns), strict=True))
            with cursor.copy(statement) as copy:
                for row in islice(rows, most_rows):
                    copy.write_row(row)
            return cursor.rowcount

    return copy_rows


def _limit_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each way to load a month into the server's own layout."""
    suite, workers = _Limit(context), context.some_workers
    one: dict[str, Callable[[], Measured]] = {LOADER: suite.loader, SERVER_SIDE: suite.server_side}
    one[BY_ROW] = suite.row_by_row
    many: dict[str, Callable[[], Measured]] = {SEVERAL: suite.several, PARALLEL: suite.parallel_copy}
    stages = {name: partial(suite.load_stage, batches=name == AS_BATCHES) for name in (AS_BATCHES, AS_ROWS)}
    return [
        *planned(one, context.rows, workers=1),
        *planned(many, context.rows, workers=workers),
        *planned(stages, context.rows, workers=1),
    ]


def _limit_ratios(entries: Entries) -> dict[str, float | None]:
    """The loader over each of the other ways.

    The first two compare only the COPY, from Parquet or the server's file to the last row: the later steps (index,
    ANALYZE, exchange) are the same for both, and would make the ratio look better. The last is of two whole stages, at
    whose end all values were compared: of batches while they were loaded, of rows in a query afterwards.
    """
    ratios = rate_ratios(
        {
            "loader_to_limit": (LOADER, SERVER_SIDE, "copy_seconds"),
            "loader_to_psycopg_rows": (LOADER, BY_ROW, "copy_seconds"),
            "loader_to_parallel_copy": (SEVERAL, PARALLEL),
            "two_workers_to_one": (SEVERAL, LOADER),
            "batches_to_rows": (AS_BATCHES, AS_ROWS),
        }
    )(entries)
    is_two = entries.get(SEVERAL, {}).get("parameters", {}).get("workers") == 2
    return ratios if is_two else ratios | {"two_workers_to_one": None}


def _load(target: Target, month: FlatMonth) -> None:
    with pipeline_copy(month) as copy:
        target.replace(target.layout, month.month, copy)


@dataclass
class _Limit:
    context: BenchContext

    @property
    def _target(self) -> Target:
        return self.context.target

    @cached_property
    def _months(self) -> list[FlatMonth]:
        return GeneratedMonths(self.context.folder, self.context.rows).flat(self.context.some_workers)

    @property
    def _month(self) -> FlatMonth:
        return self._months[0]

    @cached_property
    def _csv(self) -> Path:
        path = self.context.folder / "month.csv"
        with pq.ParquetFile(self._month.path) as file, open_sink(path, "csv", file.schema_arrow) as sink:
            for group in range(file.num_row_groups):
                sink.write(file.read_row_group(group))
        return path

    @cached_property
    def _server_file(self) -> ServerFile:
        """The rows as a file of the server, until the suite ends."""
        self.loader()
        with self._target.connect() as connection:
            file = ServerFile.of_table(connection)
        self.context.stack.callback(file.remove, self._target)
        return file

    def _fill(self, method: Any, rows: int | None = None, **options: Any) -> Measured:  # noqa: ANN401  # of `fill`
        target, month = self._target, self._month
        return target.fill(target.layout, month.month, method, month.rows if rows is None else rows, **options)

    def loader(self) -> Measured:
        """The pipeline's loader with one connection."""
        return self._fill(pipeline_copy(self._month))

    def server_side(self) -> Measured:
        """The upper limit: the server reads its own file."""
        return self._fill(nullcontext(self._server_file))

    def row_by_row(self) -> Measured:
        """The best method of the study."""
        rows = min(_ROWS_BY_ROW, self._month.rows)
        return self._fill(nullcontext(row_by_row(self._month, rows)), rows)

    def several(self) -> Measured:
        """One month over several connections; if the layout does not support that, several months at once."""
        target = self._target
        if target.layout.shares_months:
            spans = location_spans(self._month, self.context.some_workers)
            return self._fill(pipeline_copy(self._month, spans), spans=spans)
        target.make_table(target.layout)
        figures = run_at_once(_load, [(target, month) for month in self._months])
        return Measured(target.require_rows(sum(month.rows for month in self._months)), {"seconds": figures["seconds"]})

    def load_stage(self, *, batches: bool) -> Measured:
        """The whole stage as `era5 load` runs it, into the columnstore: ledger, summaries, comparison of values."""
        target = self._target
        if "columnstore" not in target.offered:
            raise CannotRunError("this server offers no columnstore")
        target.make_table(LAYOUTS["columnstore"])
        target.calm()
        loaded = load_month(target.warehouse, self._month, batches=batches)
        if loaded.is_read_back != batches:
            raise CannotRunError("; ".join(loaded.notes) or "this server's batches are not known")
        compared = seconds_of(partial(_compare, target, self._month, is_read_back=loaded.is_read_back))
        figures = {"seconds": loaded.seconds + compared, "load_seconds": loaded.seconds}
        return Measured(loaded.rows, {**figures, "bytes_per_row": target.bytes() / loaded.rows})

    def parallel_copy(self) -> Measured:
        """Load into an existing chunk or partition, because the tool does not create it."""
        target = self._target
        self._fill(nullcontext(lambda *_, **__: 0), 0)
        csv = self._csv
        seconds = seconds_of(lambda: parallel_copy(target.warehouse.url, csv, self.context.some_workers))
        rows = target.require_rows(self._month.rows)
        # Reach the same final state as a load: visibility map and planner statistics up to date.
        with target.connect() as connection:
            settled = seconds_of(lambda: connection.execute("VACUUM (ANALYZE) weather"))
        return Measured(rows, {"seconds": seconds + settled, "copy_seconds": seconds})


def _compare(target: Target, flat: FlatMonth, *, is_read_back: bool = False) -> None:
    differences = verify_month(target.warehouse, flat, is_read_back=is_read_back)
    if differences:
        raise CannotRunError(f"the table differs from the file: {differences[0]}")


LIMIT = Suite(
    name="limit",
    summary="compared with the fastest possible COPY",
    load="a month of 3 million rows",
    plan=_limit_cells,
    rows=3_000_000,
    repeats=3,
    # As many months as workers, as tables and as files.
    bytes=lambda context: context.some_workers * disk(2, 2)(context),
    ratios=_limit_ratios,
    at_least={
        "loader_to_limit": 0.95,
        "loader_to_psycopg_rows": 10,
        "loader_to_parallel_copy": 2,
        "two_workers_to_one": 1.4,
        "batches_to_rows": 3,
    },
)


# --- Measure all stages, from netCDF to queryable rows, with one process per worker; and flattening alone ---


ALL_STAGES, FLATTEN = "netCDF to rows, all workers at once", "flatten alone"
STAGES = "one month alone, stage by stage"
LOAD, AS_HOURS = "load and compare alone", "flatten alone, sums as if of hours"
ON_CLUSTER, AT_ONCE = "flatten on the Dask cluster", "flatten, all workers at once"


def _pipeline_cells(context: BenchContext) -> list[PlannedCell]:
    """All stages of as many months at once as there are workers, and flattening alone.

    Each worker processes a month of about `rows` rows: raw (inventory and digests of existing files), flat, load, and
    comparison of table and file. One month alone, with its generation, gives the seconds of each stage. With the
    option `dask_scheduler`, flattening on that cluster is compared too; with `dataset`, another data set beside ERA5.
    """
    workers, rows, folder, dask = context.some_workers, context.rows, context.folder, context.options.dask_scheduler
    source, alone = GeneratedMonths(folder / "source", rows), GeneratedMonths(folder / "alone", rows)
    everything = {ALL_STAGES: lambda: _all_stages(context.target, folder, source.raw(workers))}
    single = {
        FLATTEN: lambda: _flatten(folder, source.raw(1)[0]),
        STAGES: lambda: _stage_by_stage(context.target, alone),
    }
    cells = planned(everything, workers * rows, workers=workers) + planned(single, rows, workers=1)
    if dask is not None:
        cells += planned({ON_CLUSTER: lambda: _flatten(folder, source.raw(1)[0], dask)}, rows)
        at_once = {AT_ONCE: lambda: _flatten_at_once(folder, source.raw(workers))}
        cells += planned(at_once, workers * rows, workers=workers)
    if context.options.dataset != ERA5.name:
        cells += _dataset_cells(context, dataset_named(context.options.dataset))
    return cells


def _dataset_cells(context: BenchContext, other: Dataset) -> list[PlannedCell]:
    """Flatten and load a month of another data set, and of ERA5 with its variables.

    The other's amounts are served as sums since 00 UTC, if that is its rule; `AS_HOURS` flattens the same file as if
    they were those of hours: the difference is the cost of taking them apart.
    """
    folder, rows, variables = context.folder, context.rows, other.catalogue.default_variables
    own = tuple(ERA5.catalogue.by_column[variable.column] for variable in variables)
    months = {
        ERA5: GeneratedMonths(folder / "beside-era5", rows, own),
        other: GeneratedMonths(folder / f"beside-{other.name}", rows, variables, other, other.accumulation == "day"),
    }
    cells = []
    for dataset, of in months.items():
        measured: dict[str, Callable[[], Measured]] = {
            named(FLATTEN, dataset): partial(_flatten_first, folder, of),
            named(LOAD, dataset): partial(_load_alone, context, of),
        }
        if dataset.accumulation == "day":
            measured[named(AS_HOURS, dataset)] = partial(_flatten_first, folder, of, as_hours=True)
        cells += planned(measured, rows, workers=1, dataset=dataset.name)
    return cells


def named(cell: str, dataset: Dataset) -> str:
    """The name of a cell that measures the other data set, or ERA5 with its variables."""
    return f"{cell}, {dataset.name}" if dataset != ERA5 else f"{cell}, era5 with as many variables"


def _flatten_first(folder: Path, months: GeneratedMonths, *, as_hours: bool = False) -> Measured:
    (raw,) = months.raw(1)
    return _flatten(folder, replace(raw, source=SampleSource.name) if as_hours else raw)


def _load_alone(context: BenchContext, months: GeneratedMonths) -> Measured:
    """Load a flat month with all steps of `era5 load`, and compare it."""
    own = replace(context.target, warehouse=replace(context.target.warehouse, dataset=months.dataset))
    with own.connect() as connection:
        ensure_schema(connection)
        for entry in read_ledger(connection):
            drop_month(own.warehouse, entry.month)
    (flat,) = months.flat(1)
    own.calm()
    clock = Laps()
    loaded = load_month(own.warehouse, flat)
    load_seconds = clock.lap()
    _compare(own, flat, is_read_back=loaded.is_read_back)
    return Measured(loaded.rows, {"seconds": load_seconds + clock.lap(), "load_seconds": load_seconds})


def _pipeline_ratios(entries: Entries) -> dict[str, float | None]:
    """A Dask cluster and several months at once, over flattening alone; another data set over ERA5.

    Those of a cluster or a data set that was not named are left out.
    """
    wanted: dict[str, Ratio] = {}
    if ON_CLUSTER in entries:
        wanted |= {
            "cluster_to_flatten_alone": (ON_CLUSTER, FLATTEN),
            "months_at_once_to_flatten_alone": (AT_ONCE, FLATTEN),
        }
    for dataset in DATASETS.values():
        if dataset == ERA5 or named(FLATTEN, dataset) not in entries:
            continue
        name = dataset.name.replace("-", "_")
        for cell in (FLATTEN, LOAD):
            wanted[f"{name}_{cell.split()[0]}_to_era5"] = (named(cell, dataset), named(cell, ERA5))
        if named(AS_HOURS, dataset) in entries:
            of_hours = (named(FLATTEN, dataset), named(AS_HOURS, dataset), "cpu_seconds")
            wanted[f"{name}_sums_to_hours"] = of_hours
    return rate_ratios(wanted)(entries)


def _all_stages(target: Target, folder: Path, raws: list[RawMonth]) -> Measured:
    target.make_table(target.layout)
    home, files = folder / "home", folder / "source" / "raw"
    shutil.rmtree(home, ignore_errors=True)
    target.calm()
    figures = run_at_once(_stages, [(target.warehouse, home, files, raw.month) for raw in raws], prepare=_as_forked)
    with target.connect() as connection:
        rows = sum(entry.rows for entry in read_ledger(connection))
    return Measured(target.require_rows(rows), figures)


def _as_forked() -> None:
    """Bring this process into the state in which a run of Dagster is forked (`defs.preloaded`)."""
    load_in_advance()
    gc.freeze()


def _stages(warehouse: Warehouse, home: Path, files: Path, month: Month) -> None:
    """Run one month through the stages, with default settings instead of the user's."""
    settings = Settings(_env_file=None, home=home, source="files", files_dir=str(files), workers=1)
    stages = run_raw(settings, month), run_flat(settings, month), run_load(settings, warehouse, month)
    refused = [outcome.description for stage in stages for outcome in stage.outcomes if not outcome.passed]
    if refused:
        raise CannotRunError(refused[0])


def _stage_by_stage(target: Target, months: GeneratedMonths) -> Measured:
    """Generate, flatten, load and compare a month, in this process and without Dagster."""
    shutil.rmtree(months.folder, ignore_errors=True)
    target.make_table(target.layout)
    target.calm()
    clock, took = Laps(), {}
    (raw,) = months.raw(1)
    took["generate_seconds"] = clock.lap()
    flat = flattened(raw, months.folder)
    took["flatten_seconds"] = clock.lap()
    load_month(target.warehouse, flat)
    took["load_seconds"] = clock.lap()
    _compare(target, flat)
    took["compare_seconds"] = clock.lap()
    return Measured(flat.rows, {"seconds": sum(took.values()), **took})


def _flatten(folder: Path, raw: RawMonth, dask_scheduler: str | None = None) -> Measured:
    home = folder / "flatten"
    shutil.rmtree(home, ignore_errors=True)
    cpu_before, clock = time.process_time(), Laps()
    flat = flattened(raw, home, dask_scheduler=dask_scheduler)
    # The processor time is that of this process only, excluding its workers.
    return Measured(flat.rows, {"seconds": clock.lap(), "cpu_seconds": time.process_time() - cpu_before})


def _flatten_at_once(folder: Path, raws: list[RawMonth]) -> Measured:
    folders = [folder / f"at-once-{number}" for number in range(len(raws))]
    figures = run_at_once(_flatten, list(zip(folders, raws, strict=True)), prepare=_as_forked)
    flats = [read_flat_month(of / "flatten" / "flat", raw.month) for of, raw in zip(folders, raws, strict=True)]
    if None in flats:
        raise CannotRunError("a month was not flattened")
    return Measured(sum(flat.rows for flat in flats if flat), figures)


PIPELINE = Suite(
    name="pipeline",
    summary="all stages, from netCDF to rows",
    load="a month of 3 million rows",
    plan=_pipeline_cells,
    rows=3_000_000,
    repeats=3,
    bytes=lambda context: context.some_workers * disk(2, 2)(context),
    ratios=_pipeline_ratios,
)
