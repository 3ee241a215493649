"""Trends and normals at every place, from the warehouse's monthly summaries or from the hours of the lake.

The places are cut into blocks, and each block is computed by itself: here, by workers of Dask or by executors of Spark.
They receive a list of files, and return a few numbers for each place.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
from psycopg import errors, sql

from era5_pipeline.climate.anomalies import FEWEST_YEARS_OF_BASELINE
from era5_pipeline.climate.cells import summaries_required
from era5_pipeline.climate.reading import cell_weights
from era5_pipeline.climate.regression import METHOD
from era5_pipeline.climate.trends import trends_of_years
from era5_pipeline.climate.years import MOST_MISSING_HOURS
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import Era5Error, NoDataError, ServerUnsuitableError, TransientError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.words import pip_install
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import grant_to_table_readers, transfer_to_table_owner, weather_schema
from era5_pipeline.read.credit import UNKNOWN_ORIGIN, read_origin
from era5_pipeline.read.fetch import fetch_packed, nothing_loaded
from era5_pipeline.read.held import places_held
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt
    import psycopg
    from distributed import Client
    from pyspark import SparkContext

    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.question import CellStatistic, YearPart
    from era5_pipeline.lake.catalog import LakePlace
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.lake.read import LakeFile
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area, Grid
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.credit import DataOrigin

    IdArray = npt.NDArray[np.int32]
    DoubleArray = npt.NDArray[np.float64]

Engine = Literal["warehouse", "dask", "spark"]

# Locations of a block, two parallels of ERA5: 85 years of them are 35 MB in memory, and the globe is 361 blocks, enough
# for a hundred executors. A lake's row group has 352 locations of a long month, so that few are read by two blocks.
BLOCK_LOCATIONS = 2_880
# Between looks at a cluster that has finished no block.
_LOOK_SECONDS = 0.2
_STATISTIC_COLUMNS = {"mean": ("mean", "hours"), "sum": ("sum", "sum_hours")}


# --- The question, and the answer at some places from sums of their months ---


@dataclass(frozen=True)
class EverywhereQuestion:
    """The trend over `years`, and the normal over `baseline`, of each of these parts of the year.

    `statistic` is what a year has of its hours: their mean or, of totals, their sum.
    """

    variable: Variable
    statistic: CellStatistic
    parts: tuple[YearPart, ...]
    years: YearSpan
    baseline: YearSpan
    area: Area | None = None
    dataset: Dataset = ERA5

    @property
    def grid(self) -> Grid:
        """The grid of the places."""
        return self.dataset.grid

    @property
    def table(self) -> str:
        """The table of the answers that are saved."""
        return trend_table(self.dataset)

    @property
    def months(self) -> range:
        """The numbers of the months that it needs, from the December before."""
        first = min(self.years.first, self.baseline.first)
        last = max(self.years.last, self.baseline.last)
        return range(first * 12 - 1, last * 12 + 12)


class MonthlySums:
    """Sums of hourly values and their numbers of hours, both (m, n), of m months at n locations (`ids`, ascending)."""

    def __init__(self, months: range, ids: IdArray) -> None:
        self.months = months
        self.ids = ids
        self.sums = np.zeros((len(months), ids.size))
        self.hours = np.zeros((len(months), ids.size), dtype=np.int32)

    def add(self, months: npt.ArrayLike, ids: IdArray, sums: DoubleArray, hours: IdArray) -> None:
        """Add sums (k,) of k months at k locations; others than its own are left out."""
        months = np.broadcast_to(np.asarray(months) - self.months.start, ids.shape)
        at = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        own = (self.ids[at] == ids) & (months >= 0) & (months < len(self.months))
        where = (months[own], at[own])
        np.add.at(self.sums, where, sums[own])
        np.add.at(self.hours, where, hours[own])

    def of_part(self, part: YearPart, years: YearSpan, statistic: CellStatistic) -> DoubleArray:
        """The statistic of the part of each of k years, (k, n); NaN where more than a day of hours is missing."""
        values = np.full((len(years), self.ids.size), np.nan)
        for row, year in enumerate(range(years.first, years.last + 1)):
            months = [start.year * 12 + start.month - 1 - self.months.start for start in part.starts(year)]
            hours = self.hours[months].sum(axis=0)
            is_complete = part.hours(year) - hours <= MOST_MISSING_HOURS
            total = self.sums[months].sum(axis=0)
            values[row, is_complete] = (total if statistic == "sum" else total / np.maximum(hours, 1))[is_complete]
        return values


def answer_of(question: EverywhereQuestion, sums: MonthlySums) -> pa.Table:
    """The rows of the answer at these places: those that have a complete year."""
    years = np.arange(question.years.first, question.years.last + 1)
    tables = []
    for part in question.parts:
        values = sums.of_part(part, question.years, question.statistic)
        trends = trends_of_years(years.astype(np.float64), values, question.variable.unit)
        normals = sums.of_part(part, question.baseline, question.statistic)
        count = np.isfinite(normals).sum(axis=0)
        normal = np.where(count >= FEWEST_YEARS_OF_BASELINE, np.nansum(normals, axis=0) / np.maximum(count, 1), np.nan)
        held = np.isfinite(values)
        columns = {
            "location_id": pa.array(sums.ids, pa.int32()),
            "part": pa.DictionaryArray.from_arrays(np.zeros(sums.ids.size, dtype=np.int8), [part.code]),
            "first_year": pa.array(years[held.argmax(axis=0)], pa.int16()),
            "last_year": pa.array(years[years.size - 1 - held[::-1].argmax(axis=0)], pa.int16()),
            "years": pa.array(trends.counts, pa.int16()),
            "slope": _reals(trends.values),
            "low": _reals(trends.values - trends.half_widths),
            "high": _reals(trends.values + trends.half_widths),
            "p": _reals(trends.p),
            "lag1": _reals(trends.lag1),
            "effective_years": _reals(trends.effective),
            "baseline_years": pa.array(count, pa.int16()),
            "normal": _reals(normal),
        }
        tables.append(pa.table(columns).filter(pa.array(held.any(axis=0) | (count > 0))))
    return pa.concat_tables(tables).unify_dictionaries()


def _reals(values: DoubleArray) -> pa.Array:
    return pa.array(values.astype(np.float32), pa.float32(), from_pandas=True)


def blocks_of(locations: LocationSet) -> list[IdArray]:
    """The ids of the locations, (n,) ascending, in blocks of neighbours."""
    ids = locations.ids().astype(np.int32)
    return np.split(ids, range(BLOCK_LOCATIONS, ids.size, BLOCK_LOCATIONS)) if ids.size else []


def asked_locations(connection: psycopg.Connection[Any], area: Area | None) -> LocationSet:
    """The locations that the warehouse holds, within the area."""
    held = places_held(connection)
    if not held:
        raise nothing_loaded(dataset_of(connection))
    asked = held & LocationSet.of_area(area) if area else held
    if not asked:
        raise NoDataError("no place in the area is loaded", remedy="Ask for another area, or leave --area out.")
    return asked


def answers_of_warehouse(connection: psycopg.Connection[Any], question: EverywhereQuestion) -> Iterator[pa.Table]:
    """Compute the rows of the answer, block by block."""
    blocks = blocks_of(asked_locations(connection, question.area))
    value, hours = (f"{question.variable.column}_{name}" for name in _STATISTIC_COLUMNS[question.statistic])
    query = sql.SQL(read_sql("cells_of_months", dataset_of(connection))).format(
        column=sql.Identifier(value), hours=sql.Identifier(hours)
    )
    first, last = (date(number // 12, number % 12 + 1, 1) for number in (question.months[0], question.months[-1]))
    for number, ids in enumerate(blocks):
        with summaries_required(question.variable):
            found = fetch_packed(
                connection, query, {"first": first, "last": last, "ids": ids.tolist()}, ("i4", "i4", "f8", "i4")
            )
        months, locations, values, counts = (one.astype(one.dtype.newbyteorder("=")) for one in found)
        sums = MonthlySums(question.months, ids)
        sums.add(months, locations, values * counts if question.statistic == "mean" else values, counts)
        yield answer_of(question, sums)
        progress.report("read", number + 1, len(blocks), "blocks")


# --- In the lake: from the hours of its files, block by block, wherever a worker runs ---


@dataclass(frozen=True)
class LakeTask:
    """A block of places to compute from files of the lake, for a process that may be on another machine."""

    question: EverywhereQuestion
    place: LakePlace
    ids: IdArray
    files: tuple[LakeFile, ...]
    version: str = __version__


def lake_tasks(connection: psycopg.Connection[Any], lake: Lake, question: EverywhereQuestion) -> tuple[LakeTask, ...]:
    """Cut the question into tasks, of one snapshot of the lake."""
    from era5_pipeline.lake.read import list_files  # noqa: PLC0415  # pyiceberg is optional

    # The last hour of a total comes with the month after it.
    wanted = range(question.months.start, question.months.stop + 1)
    files = [file for file in list_files(lake, connection) if file.month.number in wanted]
    tasks = []
    for ids in blocks_of(asked_locations(connection, question.area)):
        own = tuple(file for file in files if file.last_id >= ids[0] and file.first_id <= ids[-1])
        if own:
            tasks.append(LakeTask(question, lake.place, ids, own))
    if not tasks:
        raise NoDataError(
            f"the lake {lake.place.address} has no months of these places and years",
            remedy="Load them with ERA5_LAKE set; months that the warehouse has already are added, too.",
        )
    return tuple(tasks)


def compute(task: LakeTask) -> pa.Table:
    """Compute a block, by reading the row groups that have its places."""
    from era5_pipeline.lake.read import read_rows  # noqa: PLC0415  # pyiceberg is optional

    if task.version != __version__:
        raise UsageError(
            f"a worker has era5-pipeline {__version__}, and this process {task.version}",
            remedy="Start workers and era5 from one environment or one image.",
        )
    question = task.question
    column = question.variable.column
    by_sum = question.statistic == "sum"
    sums = MonthlySums(question.months, task.ids)
    columns = [column, "time"] if by_sum else [column]
    for file, rows in read_rows(task.place, task.files, int(task.ids[0]), int(task.ids[-1]), columns):
        if column not in rows.column_names:
            continue
        ids = rows.column("location_id").to_numpy()
        values = rows.column(column).to_numpy()
        if by_sum:
            # A total has the time of its end: that at 00:00 on the 1st is of the month before.
            is_first = rows.column("time").to_numpy() == np.datetime64(file.month.start.replace(tzinfo=None))
            _add_rows(sums, file.month.number - 1, ids[is_first], values[is_first])
            ids, values = ids[~is_first], values[~is_first]
        _add_rows(sums, file.month.number, ids, values)
    return answer_of(question, sums)


def _add_rows(sums: MonthlySums, month: int, ids: IdArray, values: npt.NDArray[np.float32]) -> None:
    """Add hours of one month, (k,): rows of a location are together."""
    if not ids.size:
        return
    starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    is_there = ~np.isnan(values)
    hours = np.add.reduceat(is_there, starts, dtype=np.int32)
    known = values if hours.sum() == values.size else np.where(is_there, values, np.float32(0.0))
    sums.add(month, ids[starts], np.add.reduceat(known, starts, dtype=np.float64), hours)


def answers_of_dask(tasks: Sequence[LakeTask], scheduler: str | None) -> Iterator[pa.Table]:
    """Compute the tasks on the cluster at the address or, without one, by a process for each core of this machine."""
    from distributed import KilledWorker, as_completed  # noqa: PLC0415  # takes half a second
    from distributed.comm.core import CommClosedError  # noqa: PLC0415

    from era5_pipeline.flat.cluster import WorkerWatch, lost_scheduler  # noqa: PLC0415

    with _dask(scheduler) as client:
        address = scheduler or "on this machine"
        watch = WorkerWatch(client, address, "era5 climate --everywhere")
        futures = [client.submit(compute, task, pure=False, retries=2) for task in tasks]
        completed = as_completed(futures, loop=client.loop)  # type: ignore[no-untyped-call]
        done = 0
        while not completed.is_empty():  # type: ignore[no-untyped-call]
            if not completed.has_ready():  # type: ignore[no-untyped-call]
                time.sleep(_LOOK_SECONDS)
                watch.look()
                continue
            future = next(completed)
            try:
                yield future.result()
            except (CancelledError, CommClosedError) as error:
                raise lost_scheduler(address) from error
            except KilledWorker as error:
                raise UsageError(
                    "several Dask workers died, one after another, while they computed the same block",
                    remedy="If their logs name the memory limit: give a worker 1 GB for each thread.",
                ) from error
            future.release()
            done += 1
            progress.report("read", done, len(tasks), "blocks")


@contextmanager
def _dask(scheduler: str | None) -> Iterator[Client]:
    from distributed import Client, LocalCluster  # noqa: PLC0415

    from era5_pipeline.flat.cluster import connected  # noqa: PLC0415

    if scheduler is not None:
        with connected(scheduler) as client:
            yield client
        return
    with (
        # With None it takes port 8787 of every address of the machine, and warns if that is taken.
        LocalCluster(  # type: ignore[no-untyped-call]
            threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster, set_as_default=False) as client,  # type: ignore[no-untyped-call]
    ):
        yield client


_SPARK_GROUP = "era5-climate-everywhere"


def answers_of_spark(tasks: Sequence[LakeTask]) -> Iterator[pa.Table]:
    """Compute the tasks by the executors of Spark, whose master is set in Spark's own ways."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415  # not one of the project's dependencies
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"--engine spark needs pyspark, which is not installed ({error})",
            remedy=f"Install it where era5 is: {pip_install('pyspark==4.0.5')} (and Java 17). The executors need "
            "'era5-pipeline[lake]' of this version.",
        ) from error
    spark = SparkSession.builder.appName("era5 climate --everywhere").getOrCreate()
    context = spark.sparkContext

    def run() -> list[pa.Table | Era5Error]:
        context.setJobGroup(_SPARK_GROUP, "era5 climate --everywhere", interruptOnCancel=True)
        found: list[pa.Table | Era5Error] = context.parallelize(tasks, len(tasks)).map(_compute_or_error).collect()
        return found

    try:
        with ThreadPoolExecutor(1) as executor:
            running = executor.submit(run)
            try:
                while not running.done():
                    threading.Event().wait(1.0)
                    progress.report("read", _finished(context), len(tasks), "blocks")
            except BaseException:
                context.cancelJobGroup(_SPARK_GROUP)
                raise
        answers = running.result()
    except Py4JError as error:
        (*_, line) = str(error).strip().splitlines()
        raise TransientError(
            f"Spark could not compute the blocks ({line.strip()})", remedy="See Spark's log; then run it again."
        ) from error
    finally:
        spark.stop()
    for answer in answers:
        if isinstance(answer, Era5Error):
            raise answer
        yield answer


def _compute_or_error(task: LakeTask) -> pa.Table | Era5Error:
    """Compute a block, returning an error as a value: Spark would send its traceback as text."""
    try:
        return compute(task)
    except Era5Error as error:
        return error


def _finished(context: SparkContext) -> int:
    """The number of tasks that the executors have finished."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_SPARK_GROUP)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


_ROWS_AT_ONCE = 65_536


def read_origin_of(connection: psycopg.Connection[Any], question: EverywhereQuestion) -> DataOrigin:
    """The origin of the hours behind the answer, by the ledger."""
    years = {*range(question.years.first, question.years.last + 1)}
    years |= {*range(question.baseline.first, question.baseline.last + 1)}
    months = frozenset(month for part in question.parts for year in years for month in part.months(year))
    start, end = min(months).start, max(months).end
    places = asked_locations(connection, question.area)
    return read_origin(connection, start, end, places, [question.variable.column], months=months)


def all_rows(question: EverywhereQuestion, blocks: Iterable[pa.Table], origin: DataOrigin = UNKNOWN_ORIGIN) -> pa.Table:
    """Put blocks of the answer together, with the columns of the table `weather_trend`, by part and location.

    Of generated data they have no interval, so that no trend is significant. Versions and credit are in the metadata.
    """
    rows = pa.concat_tables(blocks).unify_dictionaries()
    if not rows.num_rows:
        raise NoDataError(
            f"{question.variable.column}: no place has a complete {question.parts[0].name} of {question.years} or "
            f"{question.baseline}",
            remedy="Load more months, or ask for other years: --from, --to, --baseline.",
        )
    parts = rows.column("part").combine_chunks()
    rows = rows.take(np.lexsort((rows.column("location_id").to_numpy(), parts.indices.to_numpy())))
    row_index, column_index = np.divmod(rows.column("location_id").to_numpy() - 1, question.grid.columns)
    places = {
        "latitude": pa.array(question.grid.latitudes_of(row_index), pa.float32()),
        "longitude": pa.array(question.grid.longitudes_of(column_index), pa.float32()),
    }
    of_all = {
        "variable": pa.scalar(question.variable.column),
        "statistic": pa.scalar(question.statistic),
        "unit": pa.scalar(question.variable.unit),
        "version": pa.scalar(origin.version),
        "method": pa.scalar(METHOD),
        "baseline_first": pa.scalar(question.baseline.first, pa.int16()),
        "baseline_last": pa.scalar(question.baseline.last, pa.int16()),
    }
    repeated = {
        name: pa.DictionaryArray.from_arrays(np.zeros(rows.num_rows, dtype=np.int8), [value.as_py()])
        if pa.types.is_string(value.type)
        else pa.repeat(value, rows.num_rows)
        for name, value in of_all.items()
    }
    columns = {**dict(zip(rows.column_names, rows.columns, strict=True)), **places, **repeated}
    if origin.notice:
        columns |= {name: pa.nulls(rows.num_rows, columns[name].type) for name in _CONCLUSIONS}
    return pa.table(columns).select(COLUMNS).replace_schema_metadata(origin.attributes)


# In the order of the table, but for the time of its writing.
COLUMNS = (
    *("location_id", "latitude", "longitude", "variable", "statistic", "part", "unit"),
    *("first_year", "last_year", "years", "slope", "low", "high", "p", "lag1", "effective_years", "method"),
    *("baseline_first", "baseline_last", "baseline_years", "normal", "version"),
)
# The columns from which follows whether a trend is significant.
_CONCLUSIONS = ("low", "high", "p")


def trend_table(dataset: Dataset) -> str:
    """The name of the table of a data set's saved answers."""
    return f"{dataset.table}_trend"


def ensure_table(connection: psycopg.Connection[Any], *, creates: bool = False) -> sql.Composed:
    """Add the columns that the table `weather_trend` of an earlier version lacks; return its name.

    With `creates`, create it if it is missing. To be called in a transaction.
    """
    name = trend_table(dataset_of(connection))
    table = sql.SQL("{}.{}").format(sql.Identifier(weather_schema(connection)), sql.Identifier(name))
    held = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (table.as_string(connection),),
    ).fetchall()
    if (held or creates) and not set(COLUMNS) <= {name for (name,) in held}:
        try:
            connection.execute(sql.SQL(read_sql("weather_trend", dataset_of(connection))).format(table=table))
        except errors.UndefinedColumn as error:
            raise ServerUnsuitableError(
                f"the table {name} is none of this program: {error.diag.message_primary}",
                remedy="Give it another name: ALTER TABLE ... RENAME TO.",
            ) from None
        transfer_to_table_owner(connection, table, "TABLE")
        grant_to_table_readers(connection, table)
    return table


def save(connection: psycopg.Connection[Any], question: EverywhereQuestion, rows: pa.Table) -> None:
    """Write the rows of an answer into the table `weather_trend`, in place of those of the same question and area."""
    asked = {
        "variable": question.variable.column,
        "statistic": question.statistic,
        "parts": [part.code for part in question.parts],
        "places": None if question.area is None else LocationSet.of_area(question.area).multirange,
    }
    with connection.transaction():
        table = ensure_table(connection, creates=True)
        # Two runs of the same question would both add its rows; readers do not wait.
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))
        connection.execute(
            sql.SQL(
                "DELETE FROM {} WHERE variable = %(variable)s AND statistic = %(statistic)s AND part = ANY(%(parts)s) "
                "AND (%(places)s::int4multirange IS NULL OR location_id <@ %(places)s)"
            ).format(table),
            asked,
        )
        names = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
        copy_in = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, names)
        with connection.cursor() as cursor, cursor.copy(copy_in) as copy:
            for done, batch in enumerate(rows.to_batches(max_chunksize=_ROWS_AT_ONCE)):
                copy.write(csv_of(pa.table(batch), header=False))
                progress.report("load", min((done + 1) * _ROWS_AT_ONCE, rows.num_rows), rows.num_rows, "rows")


def csv_of(rows: pa.Table, *, header: bool) -> bytes:
    """Write the rows as CSV; NULL is an empty field."""
    target = pa.BufferOutputStream()
    plain = [column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column for column in rows]
    options = pyarrow.csv.WriteOptions(include_header=header, quoting_style="needed")
    pyarrow.csv.write_csv(pa.table(plain, names=rows.column_names), target, options)
    return bytes(target.getvalue())


def mean_over_places(rows: pa.Table, column: str, grid: Grid) -> float:
    """The mean of a column over the places that have a value, weighted by their areas; NaN without any."""
    values = rows.column(column).to_numpy()
    row_index = (rows.column("location_id").to_numpy() - 1) // grid.columns
    weights = np.where(np.isnan(values), 0.0, cell_weights(row_index, grid))
    return float(np.nansum(values * weights) / weights.sum()) if weights.any() else float("nan")
