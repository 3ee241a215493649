"""The suite `lake`: what the lake's files cost beside the warehouse, and the same questions to engines on it.

Spark is tried by a test of its own (`era5_pipeline_tests/lake/test_spark.py`), and not measured: on one machine most of
its time would be that of starting.
"""

from __future__ import annotations

import calendar
import importlib
import os
import shutil
import time
from abc import ABC, abstractmethod
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow.parquet as pq

from benchmarks.cells import CannotRunError, Measured, PlannedCell, rate_ratio
from benchmarks.others import COLUMN, MEAN_MONTH, GeneratedYear, database_files, forget_cached, fresh_folder
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.climate import everywhere
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.everywhere import EverywhereQuestion
from era5_pipeline.climate.question import WHOLE_YEAR
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.lake.open_lake import open_lake
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from benchmarks.cells import Entries
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.months import Lake

    Answer = npt.NDArray[np.float64]

ONE_FILE, BANDS = "flatten, one file a month", "flatten, the lake's files"
ALONE, BOTH = "load, warehouse alone", "load, warehouse and lake"
_WARM = 3
_TOLERANCE = 1e-6
# The slope of the monthly means of each place, by month.
_TRENDS = (
    "SELECT location_id, regr_slope(mean, month) FROM (SELECT location_id, extract(month FROM time) AS month, "
    "avg(CAST({column} AS double precision)) AS mean FROM {table} GROUP BY 1, 2) AS months GROUP BY 1 ORDER BY 1"
)
_PLACE = "SELECT {column} FROM {table} WHERE location_id = {place} ORDER BY time"
_MEAN = (
    "SELECT avg(CAST({column} AS double precision)) FROM {table} WHERE time >= '{month.start}' AND time < '{month.end}'"
)


# --- A year in the warehouse and in the lake ---


@dataclass
class _Loaded:
    """The generated year, loaded into table and lake when it is needed and another cell has loaded it otherwise."""

    context: BenchContext
    year: GeneratedYear
    has_lake: bool = False

    @property
    def folder(self) -> Path:
        return self.context.folder / "lake"

    @property
    def lake(self) -> Lake:
        """The lake with the year, which the table has too."""
        if not self.has_lake:
            self.load(for_lake=True)
        return self._open()

    def load(self, *, for_lake: bool) -> Measured:
        """Load the year into a new table, and into a new lake; the flat files are made before."""
        target = self.context.target
        self.has_lake = False
        flats = self.flatten(for_lake=for_lake)[0]
        target.make_table(LAYOUTS[target.offered[0]])
        with target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
            connection.execute("DROP TABLE IF EXISTS public.iceberg_tables, public.iceberg_namespace_properties")
        fresh_folder(self.folder)
        lake = self._open() if for_lake else None
        target.calm()
        started = time.monotonic()
        for flat in flats:
            alongside = None if lake is None else lake.prepared(target.warehouse, flat)
            load_month(target.warehouse, flat, alongside=alongside)
        seconds = time.monotonic() - started
        self.has_lake = for_lake
        with target.connect() as connection:
            size = read_space(connection).bytes
        rows = sum(flat.rows for flat in flats)
        return Measured(rows, {"seconds": seconds, "bytes_per_row": size / rows})

    def flatten(self, *, for_lake: bool) -> tuple[list[FlatMonth], Measured]:
        """Flatten the year into one file a month, or into the lake's files."""
        folder, raws = fresh_folder(self.context.folder / ("bands" if for_lake else "flat")), self.year.raw
        started = time.monotonic()
        flats = [
            flatten_month(raw, folder, home=self.year.folder, flat_format="parquet", for_lake=for_lake) for raw in raws
        ]
        seconds = time.monotonic() - started
        rows = sum(flat.rows for flat in flats)
        return flats, Measured(
            rows, {"seconds": seconds, "bytes_per_row": sum(flat.row_bytes for flat in flats) / rows}
        )

    def _open(self) -> Lake:
        return open_lake(Settings(_env_file=None, home=self.context.folder / "home", lake=str(self.folder)))


# --- Engines ---


class Engine(ABC):
    """A program that answers the three questions; `libraries` are modules that it needs and the package does not."""

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg",)

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded

    @property
    def place(self) -> int:
        """The number of the place that is asked for."""
        return self._loaded.year.place[0]

    def files(self) -> Iterable[Path]:
        """The files that it reads, to drop them from the page cache."""
        return [path for path in self._loaded.folder.rglob("*") if path.is_file()]

    @abstractmethod
    def open(self) -> None:
        """Open the lake, as a program does when it starts."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""

    @abstractmethod
    def place_year(self) -> Answer:
        """The year's temperatures of the place, hour by hour."""

    @abstractmethod
    def month_mean(self) -> Answer:
        """The mean temperature of all places in July."""

    @abstractmethod
    def trends(self) -> Answer:
        """The slope of the monthly means of each place."""

    def table(self) -> Any:  # noqa: ANN401  # pyiceberg may be missing
        """The lake's table as it is now."""
        lake = self._loaded.lake
        with self._loaded.context.target.connect() as connection:
            return lake.open(connection)


class _BySql(Engine):
    def place_year(self) -> Answer:
        return np.array(self._ask(_PLACE))[:, 0]

    def month_mean(self) -> Answer:
        return np.array(self._ask(_MEAN))[:, 0]

    def trends(self) -> Answer:
        return np.array(self._ask(_TRENDS), dtype=np.float64)

    def _ask(self, query: str) -> list[Any]:
        return self._fetched(query.format(column=COLUMN, table=self._table_in_sql, place=self.place, month=MEAN_MONTH))

    @property
    def _table_in_sql(self) -> str:
        return "weather"

    @abstractmethod
    def _fetched(self, query: str) -> list[Any]: ...


class Warehouse(_BySql):
    """The table of the warehouse."""

    name: ClassVar[str] = "warehouse"
    libraries: ClassVar[tuple[str, ...]] = ()

    def open(self) -> None:
        """Connect."""
        self._connection = self._loaded.context.target.warehouse.connect()

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _fetched(self, query: str) -> list[Any]:
        return self._connection.execute(query.encode(), binary=True).fetchall()

    def files(self) -> Iterable[Path]:
        """The files of its database, if this user may read them."""
        return database_files(self._loaded.context.target)


class Duckdb(_BySql):
    """DuckDB with the extensions of its packages."""

    name: ClassVar[str] = "DuckDB on the lake"
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg", "duckdb", "duckdb_extension_iceberg", "duckdb_extension_avro")

    def open(self) -> None:
        """Open a database in memory, and load the extensions."""
        import duckdb  # optional

        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for name in ("avro", "iceberg"):
            package = importlib.import_module(f"duckdb_extension_{name}")
            (path,) = Path(str(package.__file__)).parent.glob("extensions/**/*.duckdb_extension")
            self._connection.execute(f"LOAD '{path}'")
        self._metadata = self.table().metadata_location

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @property
    def _table_in_sql(self) -> str:
        return f"iceberg_scan('{self._metadata}')"

    def _fetched(self, query: str) -> list[Any]:
        return self._connection.execute(query).fetchall()


class Polars(Engine):
    """Polars, whose scans pyiceberg plans."""

    name: ClassVar[str] = "Polars on the lake"
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg", "polars")

    def open(self) -> None:
        """Scan the table lazily."""
        import polars  # optional

        # Its own planner is another package; without this it warns of that.
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
        self._polars = polars
        self._rows = polars.scan_iceberg(self.table())

    def close(self) -> None:
        """Do nothing: each question opens its files."""

    def place_year(self) -> Answer:
        """Filter."""
        found = self._rows.filter(self._polars.col("location_id") == self.place).sort("time").select(COLUMN).collect()
        return np.asarray(found[COLUMN].to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter and average."""
        time_ = self._polars.col("time")
        july = self._rows.filter((time_ >= MEAN_MONTH.start) & (time_ < MEAN_MONTH.end))
        mean = july.select(self._polars.col(COLUMN).cast(self._polars.Float64).mean()).collect().item()
        return np.array([mean])

    def trends(self) -> Answer:
        """Group twice."""
        col = self._polars.col
        months = self._rows.group_by(
            "location_id", col("time").dt.month().cast(self._polars.Float64).alias("month")
        ).agg(col(COLUMN).cast(self._polars.Float64).mean().alias("mean"))
        slopes = months.group_by("location_id").agg(
            (self._polars.cov("month", "mean") / col("month").var()).alias("slope")
        )
        found = slopes.sort("location_id").collect()
        return np.column_stack([found["location_id"].to_numpy(), found["slope"].to_numpy()]).astype(np.float64)


class PyArrow(Engine):
    """pyiceberg, whose answers are tables of PyArrow."""

    name: ClassVar[str] = "PyArrow on the lake"

    def open(self) -> None:
        """Open the table."""
        self._table = self.table()

    def close(self) -> None:
        """Do nothing: each question opens its files."""

    def place_year(self) -> Answer:
        """Filter by the scan."""
        scan = self._table.scan(row_filter=f"location_id = {self.place}", selected_fields=("time", COLUMN))
        return np.asarray(scan.to_arrow().sort_by("time").column(COLUMN).to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter by the scan."""
        july = f"time >= '{MEAN_MONTH.start.isoformat()}' AND time < '{MEAN_MONTH.end.isoformat()}'"
        values = self._table.scan(row_filter=july, selected_fields=(COLUMN,)).to_arrow().column(COLUMN).to_numpy()
        return np.array([values.astype(np.float64).mean()])

    def trends(self) -> Answer:
        """Group by place and month, batch by batch: all rows would not fit into memory."""
        totals: dict[str, npt.NDArray[np.float64]] = {}
        fields = ("time", "location_id", COLUMN)
        for batch in self._table.scan(selected_fields=fields).to_arrow_batch_reader():
            ids = batch.column("location_id").to_numpy()
            months = batch.column("time").to_numpy().astype("datetime64[M]").astype(np.int64) % 12
            key = ids.astype(np.int64) * 12 + months
            first, last = int(key.min()), int(key.max()) + 1
            values = batch.column(COLUMN).to_numpy().astype(np.float64)
            for name, weights in (("sum", values), ("count", np.ones(values.size))):
                known = totals.setdefault(name, np.zeros(0))
                if known.size < last:
                    known = np.concatenate([known, np.zeros(last - known.size)])
                known[first:last] += np.bincount(key - first, weights, last - first)
                totals[name] = known
        size = -(-totals["sum"].size // 12) * 12
        sums, counts = (np.resize(np.append(of, np.zeros(size - of.size)), (size // 12, 12)) for of in totals.values())
        held = np.flatnonzero(counts.sum(axis=1))
        means, month = sums[held] / counts[held], np.arange(12) - 5.5
        return np.column_stack([held, (means * month).sum(axis=1) / (month**2).sum()])


class Clickhouse(_BySql):
    """ClickHouse in this process (chdb)."""

    name: ClassVar[str] = "ClickHouse (chdb) on the lake"
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg", "chdb")

    def open(self) -> None:
        """Open a session."""
        from chdb import session  # optional

        self._session = session.Session()
        self._metadata = self.table().metadata_location.removeprefix(f"{self._loaded.folder}/weather/")

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    @property
    def _table_in_sql(self) -> str:
        return f"icebergLocal('.', SETTINGS iceberg_metadata_file_path = '{self._metadata}')"

    def _fetched(self, query: str) -> list[Any]:
        # It has no slope of a regression, and reads no zone in a time that is compared.
        own = query.replace("regr_slope(mean, month)", _SLOPE).replace("+00:00'", "'")
        # It opens files only below the working directory.
        with chdir(self._loaded.folder / "weather"):
            text = str(self._session.query(own, "CSV"))
        return [[float(value) for value in line.split(",")] for line in text.split()]


# One process reads all of the lake as a worker of Dask or an executor of Spark would; and one for each core do.
ONE_WORKER, ALL_CORES = (
    "era5 climate --everywhere, one worker",
    "era5 climate --everywhere, Dask on all cores, with its start",
)


def _everywhere(loaded: _Loaded, *, on_dask: bool) -> Measured:
    """Compute the trends at all places from the lake's hours; a year gives none, but is read as any other."""
    years = YearSpan(loaded.year.months[0].year, loaded.year.months[0].year)
    question = EverywhereQuestion(BY_COLUMN[COLUMN], "mean", (WHOLE_YEAR,), years, years)
    lake = loaded.lake
    with loaded.context.target.connect() as connection:
        tasks = everywhere.lake_tasks(connection, lake, question)
    forget_cached(path for path in loaded.folder.rglob("*") if path.is_file())
    started = time.monotonic()
    blocks = everywhere.answers_of_dask(tasks, None) if on_dask else map(everywhere.compute, tasks)
    places = everywhere.all_rows(question, blocks).num_rows
    seconds = time.monotonic() - started
    rows = sum(flat.rows for flat in loaded.year.flat)
    if places * _YEAR_HOURS[calendar.isleap(years.first)] != rows:
        raise CannotRunError(f"it has {places:,} places for {rows:,} rows")
    figures = {"seconds": seconds, "blocks": float(len(tasks)), "bytes_per_row": _bytes_read(loaded.folder) / rows}
    return Measured(rows, figures, notes={"cold": "files dropped from the page cache"})


_YEAR_HOURS = {False: 8_760, True: 8_784}


def _bytes_read(folder: Path) -> int:
    """The compressed bytes of the columns that a trend needs, and of the footers."""
    size = 0
    for path in folder.rglob("*.parquet"):
        metadata = pq.read_metadata(path)
        size += metadata.serialized_size
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = (group.column(index) for index in range(group.num_columns))
            size += sum(
                column.total_compressed_size for column in columns if column.path_in_schema in ("location_id", COLUMN)
            )
    return size


_SLOPE = "covarPop(mean, toFloat64(month)) / varPop(toFloat64(month))"
ENGINES: tuple[type[Engine], ...] = (Warehouse, Duckdb, Polars, PyArrow, Clickhouse)


# --- The suite ---


@contextmanager
def lake_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """Cells for writing with and without a lake, and one for each engine."""
    loaded = _Loaded(context, GeneratedYear(context.folder / "year", context.rows))
    answers: dict[str, Answer] = {}
    ways: dict[str, Callable[[], Measured]] = {
        ONE_FILE: lambda: loaded.flatten(for_lake=False)[1],
        BANDS: lambda: loaded.flatten(for_lake=True)[1],
        ALONE: lambda: loaded.load(for_lake=False),
        BOTH: lambda: loaded.load(for_lake=True),
        ONE_WORKER: lambda: _everywhere(loaded, on_dask=False),
        ALL_CORES: lambda: _everywhere(loaded, on_dask=True),
    }
    rows = 12 * context.rows
    yield [
        *(PlannedCell(name, rows, {}, _Needing(("pyiceberg",), measure).measure) for name, measure in ways.items()),
        *(PlannedCell(engine.name, rows, {}, _Asked(engine, loaded, answers).measure) for engine in ENGINES),
    ]
    shutil.rmtree(loaded.folder, ignore_errors=True)


def lake_ratios(entries: Entries) -> dict[str, float | None]:
    """How fast the lake's files are written and loaded, relative to those of a warehouse alone."""
    return {
        "lake_files_to_one_file": rate_ratio(entries, BANDS, ONE_FILE),
        "both_to_warehouse_alone": rate_ratio(entries, BOTH, ALONE),
    }


def lake_bytes(context: BenchContext) -> int:
    """Bytes on disk for the year in each form."""
    return 12 * context.rows * (2 * TABLE_ROW_BYTES + 4 * FILE_ROW_BYTES)


@dataclass(frozen=True)
class _Needing:
    libraries: tuple[str, ...]
    run: Callable[[], Measured]

    def measure(self) -> Measured:
        lacking = [name for name in self.libraries if find_spec(name) is None]
        if lacking:
            raise CannotRunError(f"the library {lacking[0]} is not installed")
        return self.run()


@dataclass(frozen=True)
class _Asked:
    make: type[Engine]
    loaded: _Loaded
    answers: dict[str, Answer] = field(repr=False)

    def measure(self) -> Measured:
        """Ask each question first with an empty page cache and then several times."""
        return _Needing(self.make.libraries, self._asked).measure()

    def _asked(self) -> Measured:
        rows = sum(flat.rows for flat in self.loaded.year.flat)  # made before the clock starts, as the place is
        engine = self.make(self.loaded)
        figures: dict[str, float] = {}
        for name in ("place_year", "month_mean", "trends"):
            assert self.loaded.lake  # noqa: S101  # loaded before the clock starts
            forget_cached(engine.files())
            started = time.monotonic()
            engine.open()
            try:
                ask: Callable[[], Answer] = getattr(engine, name)
                self._check(name, ask())
                figures[f"{name}_cold_ms"] = 1000 * (time.monotonic() - started)
                warm = []
                for _ in range(_WARM):
                    started = time.monotonic()
                    ask()
                    warm.append(time.monotonic() - started)
            finally:
                engine.close()
            figures[f"{name}_warm_ms"] = 1000 * median(warm)
        figures["seconds"] = sum(figures[f"{name}_warm_ms"] for name in ("place_year", "month_mean", "trends")) / 1000
        return Measured(rows, figures, notes={"cold": "opened again, its files dropped from the page cache"})

    def _check(self, name: str, answer: Answer) -> None:
        """Require the same answer from every engine as from the first."""
        known = self.answers.setdefault(name, answer)
        if answer.shape != known.shape or not np.allclose(answer, known, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise CannotRunError(f"{name}: it answers otherwise than the first engine")
