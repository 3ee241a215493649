"""The same year and the same questions for alternatives to the warehouse: load time, bytes, response times."""

from __future__ import annotations

import os
import shutil
import zipfile
from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from psycopg import sql

from benchmarks.cells import CannotRunError, Laps, Measured, Numbers, PlannedCell, median_ms, missing_library
from benchmarks.generated import area_of, fresh_folder, generated_files
from benchmarks.servers import Target, number_of
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import xarray as xr

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.sources.source import RawMonth

# --- Stores that are asked: each question first with an empty page cache, and then several times ---


COLUMN = "temperature_2m"
Answer = npt.NDArray[np.float64]
NOTES = {"cold": "opened again, its files dropped from the page cache"}
_WARM = 3


class Store(ABC):
    """A program that answers questions; `libraries` are modules that it needs but the package does not.

    `reopens`: each question can be asked of one that has just been started. `opened` is what `open` opened.
    """

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ()
    reopens: ClassVar[bool] = True
    place: int
    month: Month
    opened: Any = None

    @classmethod
    def why_missing(cls) -> str | None:
        """Why it cannot be asked here; None if it can."""
        return missing_library(cls.libraries)

    @abstractmethod
    def open(self) -> None:
        """Open the store, as a program does when it starts."""

    def close(self) -> None:
        """Close the opened store, if it is anything that stays open."""
        if hasattr(self.opened, "close"):
            self.opened.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def place_hours(self) -> Answer:
        """The temperatures (n,) of the place, hour by hour, in degrees Celsius; NaN where one is missing."""

    @abstractmethod
    def month_mean(self) -> Answer:
        """The mean temperature (1,) of all places in the month, in degrees Celsius."""


class BySql(Store):
    """A store that is asked in SQL, of a `table`."""

    table = "weather"

    def place_hours(self) -> Answer:
        """Select."""
        return self._ask("SELECT {column} FROM {table} WHERE location_id = {place} ORDER BY time")[:, 0]

    def month_mean(self) -> Answer:
        """Average in float64."""
        return self._ask(
            "SELECT avg(CAST({column} AS double precision)) FROM {table} "
            "WHERE time >= '{month.start}' AND time < '{month.end}'"
        )[:, 0]

    def _ask(self, query: str) -> Answer:
        """The rows of the answer, in float64."""
        rows = self._fetched(query.format(column=COLUMN, table=self.table, place=self.place, month=self.month))
        return np.array(rows, dtype=np.float64)

    def _fetched(self, query: str) -> list[Any]:
        """The rows of the answer, from a connection with `execute`."""
        return list(self.opened.execute(query).fetchall())


class OfPostgres(BySql):
    """PostgreSQL, through psycopg."""

    def _fetched(self, query: str) -> list[Any]:
        rows: list[Any] = self.opened.execute(query.encode(), binary=True).fetchall()
        return rows


class OfClickhouse(BySql):
    """ClickHouse in this process (chdb)."""

    # It has no slope of a regression, and its CAST refuses NULL; in a time that is compared it reads no zone.
    _IN_ITS_WORDS: ClassVar[dict[str, str]] = {
        "regr_slope(mean, month)": "covarPop(mean, toFloat64(month)) / varPop(toFloat64(month))",
        f"CAST({COLUMN} AS double precision)": f"toFloat64({COLUMN})",
        "+00:00'": "'",
    }

    def _fetched(self, query: str) -> list[Any]:
        for text, own in self._IN_ITS_WORDS.items():
            query = query.replace(text, own)
        lines = str(self.opened.query(query, "CSV")).split()
        return [[float("nan") if value == "\\N" else float(value) for value in line.split(",")] for line in lines]


def times_of(
    store: Store,
    questions: Mapping[str, Callable[[], Answer]],
    files: Callable[[], Iterable[Path]],
    answers: dict[str, Answer],
    tolerance: float,
) -> Numbers:
    """The milliseconds of each question, cold and warm; `files` are those that the store reads.

    An answer must be the one in `answers`, where the first store's are kept.
    """
    figures: Numbers = {}
    with nullcontext() if store.reopens else store:
        for name, ask in questions.items():
            if store.reopens:
                forget_cached(files())
            clock = Laps()
            with store if store.reopens else nullcontext():
                answer = ask()
                if store.reopens:
                    figures[f"{name}_cold_ms"] = 1000 * clock.lap()
                known = answers.setdefault(name, answer)
                if answer.shape != known.shape or not np.allclose(answer, known, 1e-6, tolerance, equal_nan=True):
                    raise CannotRunError(f"{name}: it answers otherwise than the first")
                figures[f"{name}_warm_ms"] = median_ms(ask, _WARM)
    return figures


def forget_cached(files: Iterable[Path]) -> None:
    """Ask the kernel to drop these files from its page cache; it may keep some."""
    os.sync()
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def files_below(folder: Path) -> list[Path]:
    """All files in a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def database_files(target: Target) -> list[Path]:
    """The files of the database; none if this user is neither root nor the server's, or it is on another machine."""
    with target.connect() as connection:
        oid = number_of(connection, sql.SQL("SELECT oid FROM pg_database WHERE datname = current_database()"))
        with suppress(OSError):
            return sorted(Path(f"/proc/{connection.info.backend_pid}/cwd/base/{oid}").iterdir())
        return []


# --- The generated year, and the base class of what stores it ---


# Name and offset of the unit in ERA5 files, kelvin.
_SHORT_NAME, _KELVIN = "t2m", 273.15
YEAR = tuple(Month(2023, number) for number in range(1, 13))
MEAN_MONTH = YEAR[6]
_HOURS = 744


@dataclass(frozen=True)
class GeneratedYear:
    """Months, of about `rows` rows each, as netCDF and as Parquet; made on first use."""

    folder: Path
    rows: int
    months: tuple[Month, ...]

    @cached_property
    def raw(self) -> list[RawMonth]:
        """The months as the files that the Climate Data Store would send."""
        return [generated_files(self.folder, month, area_of(self.rows / _HOURS)) for month in self.months]

    @cached_property
    def flat(self) -> list[FlatMonth]:
        """The months as flat files; if a contender starts from these, flattening counts as loading."""
        return self.flatten(self.folder / "flat")

    def flatten(self, folder: Path, *, for_lake: bool = False) -> list[FlatMonth]:
        """Flatten the months into a folder: into one file each, or into the lake's files."""
        options: dict[str, Any] = {"home": self.folder, "flat_format": "parquet", "for_lake": for_lake}
        return [flatten_month(raw, folder, **options) for raw in self.raw]

    @cached_property
    def place(self) -> tuple[int, float, float]:
        """The place of the questions: its number, latitude and longitude."""
        import pyarrow.parquet as pq  # not needed to count the cells

        rows = pq.read_table(self.flat[0].path, columns=["location_id", "latitude", "longitude"])
        middle = rows.slice(rows.num_rows // 2, 1).to_pylist()[0]
        return middle["location_id"], middle["latitude"], middle["longitude"]


def unpack(raw: RawMonth, folder: Path) -> Path:
    """Unzip the month's files into a folder of its own, which is returned."""
    own = folder / str(raw.month)
    own.mkdir(parents=True, exist_ok=True)
    for file in raw.files:
        if zipfile.is_zipfile(file.path):
            with zipfile.ZipFile(file.path) as archive:
                archive.extractall(own)
        else:
            shutil.copy(file.path, own)
    return own


class _Contender(Store):
    """A way to store and query the year, here in `folder`."""

    month = MEAN_MONTH

    def __init__(self, year: GeneratedYear, folder: Path, target: Target) -> None:
        self.year = year
        self.folder = folder
        self.target = target
        self.place, self.latitude, self.longitude = year.place

    @abstractmethod
    def load(self) -> int:
        """Load the year from its netCDF files; return its bytes on disk."""

    def files(self) -> list[Path]:
        """The files that it reads, to drop them from the page cache."""
        return files_below(self.folder)

    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files())


class _WarehouseTable(OfPostgres, _Contender):
    """The table of this project, loaded month by month as in `era5 load`, in the layout of the measured server."""

    name = "era5-pipeline"

    def load(self) -> int:
        self.target.make_table(self.target.layout)
        for flat in self.year.flatten(fresh_folder(self.folder)):
            load_month(self.target.warehouse, flat)
        return self.target.bytes()

    def open(self) -> None:
        self.opened = self.target.warehouse.connect()

    def files(self) -> list[Path]:
        return database_files(self.target)


# --- Columns without a server: DuckDB on the Parquet files, and ClickHouse in this process (chdb) ---


# Flat files, without those of summaries, whose names go on after the digest.
_ROWS = f"*-{'?' * 12}.parquet"


class _DuckdbOnParquet(BySql, _Contender):
    """DuckDB on the flat files."""

    name = "DuckDB on Parquet"
    libraries = ("duckdb",)

    def load(self) -> int:
        self.year.flatten(fresh_folder(self.folder))
        return sum(path.stat().st_size for path in self.folder.glob(_ROWS))

    def open(self) -> None:
        import duckdb  # optional

        self.opened = duckdb.connect()
        self.opened.execute("SET TimeZone = 'UTC'")
        self.opened.execute(f"CREATE VIEW weather AS SELECT * FROM read_parquet('{self.folder}/{_ROWS}')")


class _ClickhouseTable(OfClickhouse, _Contender):
    """ClickHouse with a MergeTree by location and time, filled from the flat files."""

    name = "ClickHouse (chdb)"
    libraries = ("chdb",)

    def load(self) -> int:
        flat = fresh_folder(self.folder.with_name(f"{self.folder.name}-flat"))
        self.year.flatten(flat)
        fresh_folder(self.folder)
        with self:
            self.opened.query(
                "CREATE TABLE weather ENGINE = MergeTree ORDER BY (location_id, time) AS "
                f"SELECT * FROM file('{flat}/{_ROWS}', Parquet) SETTINGS schema_inference_make_columns_nullable = 0"
            )
        return self.bytes()

    def open(self) -> None:
        from chdb import session  # optional

        self.opened = session.Session(str(self.folder))


# --- xarray on the files: netCDF as received, and Zarr in the chunks of ARCO-ERA5, one hour of the grid each ---


class _NetcdfFiles(_Contender):
    """The netCDF files as received, unzipped, opened as one dataset."""

    name = "xarray on netCDF"

    def load(self) -> int:
        fresh_folder(self.folder)
        for raw in self.year.raw:
            unpack(raw, self.folder)
        return self.bytes()

    def open(self) -> None:
        self.opened = _open_netcdf(self.folder)

    def place_hours(self) -> Answer:
        # In the convention of the files: from -180 or from 0.
        turned = self.longitude % 360 if float(self._values["longitude"].max()) > 180 else self.longitude
        values = self._values.sel(latitude=self.latitude, longitude=turned, method="nearest")
        return values.to_numpy().astype(np.float64) - _KELVIN

    def month_mean(self) -> Answer:
        hours = self._values.sel({self._values.dims[0]: f"{self.month}"})
        return np.array([float(hours.astype("float64").mean()) - _KELVIN])

    @property
    def _values(self) -> xr.DataArray:
        values: xr.DataArray = self.opened[_SHORT_NAME]
        return values


class _ZarrFiles(_NetcdfFiles):
    """A Zarr store with a chunk for each hour of the grid, as in ARCO-ERA5."""

    name = "Zarr, an hour a chunk"

    def load(self) -> int:
        netcdf = fresh_folder(self.folder.with_name(f"{self.folder.name}-netcdf"))
        for raw in self.year.raw:
            unpack(raw, netcdf)
        with _open_netcdf(netcdf) as dataset:
            values = dataset[[_SHORT_NAME]].drop_encoding()
            values = values.drop_vars([name for name in values.coords if name not in values.dims])
            chunks = (1, *values[_SHORT_NAME].shape[1:])
            encoding = {_SHORT_NAME: {"chunks": chunks}}
            values.to_zarr(fresh_folder(self.folder), mode="w", consolidated=False, encoding=encoding)
        return self.bytes()

    def open(self) -> None:
        import xarray as xr  # other suites do without it

        self.opened = xr.open_zarr(self.folder, consolidated=False)


def _open_netcdf(folder: Path) -> Any:  # noqa: ANN401  # an xarray dataset; xarray's own function is loosely typed
    """The files with the temperature as one dataset, with hours as the first dimension."""
    import xarray as xr  # other suites do without it

    files = []
    for path in sorted(folder.rglob("*.nc")):
        with xr.open_dataset(path) as dataset:
            if _SHORT_NAME in dataset:
                files.append(path)
    return xr.open_mfdataset(files, combine="by_coords", data_vars="minimal", coords="minimal", compat="override")


# Degrees Celsius: files hold kelvin, the table degrees.
_TOLERANCE = 1e-3


def _others_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each contender."""
    year = GeneratedYear(context.folder / "year", context.rows, YEAR)
    answers: dict[str, Answer] = {}

    def measure(contender: type[_Contender]) -> Measured:
        """Load the year, and ask each question."""
        store = contender(year, context.folder / "contender", context.target)
        rows = sum(flat.rows for flat in year.flat)
        clock = Laps()
        size = store.load()
        figures = {"seconds": clock.lap(), "bytes_per_row": size / rows}
        questions = {"place_year": store.place_hours, "month_mean": store.month_mean}
        figures |= times_of(store, questions, store.files, answers, _TOLERANCE)
        return Measured(rows, figures, notes=NOTES)

    rows = 12 * context.rows
    return [
        PlannedCell(of.name, rows, {"contender": of.name}, partial(measure, of), why_missing=of.why_missing)
        for of in (_WarehouseTable, _NetcdfFiles, _ZarrFiles, _DuckdbOnParquet, _ClickhouseTable)
    ]


OTHERS = Suite(
    name="others",
    summary="xarray, Zarr, DuckDB, ClickHouse on the same year",
    load="12 months of a million rows",
    plan=_others_cells,
    rows=1_000_000,
    repeats=3,
    bytes=disk(12 * 2, 12 * 3),
)
