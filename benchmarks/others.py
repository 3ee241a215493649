"""The same year and the same questions for alternatives to the warehouse: load time, bytes, response times."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from benchmarks.cells import CannotRunError, Measured, PlannedCell
from benchmarks.generated import area_of
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import psycopg
    import xarray as xr

    from benchmarks.servers import Target
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.sources.source import RawMonth

# --- The base class of alternatives to the warehouse, the generated year that they store, and dropping cached files ---


COLUMN = "temperature_2m"
# Name and offset of the unit in ERA5 files, kelvin.
SHORT_NAME, KELVIN = "t2m", 273.15
YEAR = 2023
MEAN_MONTH = Month(YEAR, 7)
_HOURS = 744


@dataclass(frozen=True)
class GeneratedYear:
    """The twelve months of a year, of about `rows` rows each, as netCDF and as Parquet; made on first use."""

    folder: Path
    rows: int

    @property
    def months(self) -> tuple[Month, ...]:
        """Its months."""
        return tuple(Month(YEAR, number) for number in range(1, 13))

    @cached_property
    def raw(self) -> list[RawMonth]:
        """The months as the files that the Climate Data Store would send."""
        source = SampleSource(self.folder / "raw", Request(None, area_of(self.rows / _HOURS)))
        return [source.fetch(month) for month in self.months]

    @cached_property
    def flat(self) -> list[FlatMonth]:
        """The months as flat files; if a contender starts from these, flattening counts as loading."""
        return self.flatten(self.folder / "flat")

    def flatten(self, folder: Path) -> list[FlatMonth]:
        """Flatten the months into a folder."""
        return [flatten_month(raw, folder, home=self.folder, flat_format="parquet") for raw in self.raw]

    @cached_property
    def place(self) -> tuple[int, float, float]:
        """The place of the questions: its number, latitude and longitude."""
        import pyarrow.parquet as pq  # not needed to count the cells

        rows = pq.read_table(self.flat[0].path, columns=["location_id", "latitude", "longitude"])
        middle = rows.slice(rows.num_rows // 2, 1).to_pylist()[0]
        return middle["location_id"], middle["latitude"], middle["longitude"]


class Contender(ABC):
    """A way to store and query the year; `libraries` are modules that it needs but the package does not."""

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ()

    def why_missing(self) -> str | None:
        """Why this contender cannot be used here; None if it can."""
        lacking = [name for name in self.libraries if find_spec(name) is None]
        return f"the library {lacking[0]} is not installed" if lacking else None

    @abstractmethod
    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Load the year from its netCDF files; return its bytes on disk."""

    @abstractmethod
    def open(self) -> None:
        """Open the store, as a program does when it starts."""

    @abstractmethod
    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """The year's temperatures of a place, hour by hour, in degrees Celsius."""

    @abstractmethod
    def month_mean(self) -> float:
        """The mean temperature of all places and hours of July, in degrees Celsius."""

    @abstractmethod
    def files(self) -> Iterable[Path]:
        """The files that it reads, to drop them from the page cache."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, if it was opened."""


class FolderContender(Contender):
    """A contender that keeps the year in a folder, and reads it through an object to open and close."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._opened: Any = None

    @property
    def _at(self) -> Path:
        assert self._folder is not None  # noqa: S101  # set by `load`
        return self._folder

    def files(self) -> Iterable[Path]:
        """All files of its folder."""
        return [path for path in self._at.rglob("*") if path.is_file()]

    def close(self) -> None:
        """Close the opened object."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def folder_bytes(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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


def fresh_folder(folder: Path) -> Path:
    """The folder, emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# --- Columns without a server: DuckDB on the Parquet files, and ClickHouse in this process (chdb) ---


_FROM, _TO = MEAN_MONTH.start, MEAN_MONTH.end
# Flat files, without those of summaries, whose names go on after the digest.
_ROWS = f"*-{'?' * 12}.parquet"


class DuckdbOnParquet(FolderContender):
    """DuckDB on the flat files."""

    name: ClassVar[str] = "DuckDB on Parquet"
    libraries: ClassVar[tuple[str, ...]] = ("duckdb",)

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten the months."""
        self._folder = fresh_folder(folder)
        year.flatten(self._folder)
        return sum(path.stat().st_size for path in self._folder.glob(_ROWS))

    def open(self) -> None:
        """Connect to a database in memory."""
        import duckdb  # optional

        self._opened = duckdb.connect()
        self._opened.execute("SET TimeZone = 'UTC'")
        self._opened.execute(f"CREATE VIEW weather AS SELECT * FROM read_parquet('{self._at}/{_ROWS}')")

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Query in SQL."""
        query = f"SELECT {COLUMN} FROM weather WHERE location_id = ? ORDER BY time"
        return [row[0] for row in self._opened.execute(query, [place[0]]).fetchall()]

    def month_mean(self) -> float:
        """Query in SQL."""
        query = f"SELECT avg({COLUMN}::double) FROM weather WHERE time >= ? AND time < ?"
        return float(self._opened.execute(query, [_FROM, _TO]).fetchone()[0])


class ClickhouseTable(FolderContender):
    """ClickHouse in this process, with a MergeTree by location and time, filled from the flat files."""

    name: ClassVar[str] = "ClickHouse (chdb)"
    libraries: ClassVar[tuple[str, ...]] = ("chdb",)

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten the months, and insert them."""
        self._folder = fresh_folder(folder)
        flat = fresh_folder(folder.with_name(f"{folder.name}-flat"))
        year.flatten(flat)
        self.open()
        self._opened.query(
            "CREATE TABLE weather ENGINE = MergeTree ORDER BY (location_id, time) AS "
            f"SELECT * FROM file('{flat}/{_ROWS}', Parquet) SETTINGS schema_inference_make_columns_nullable = 0"
        )
        self.close()
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open the session in its folder."""
        from chdb import session  # optional

        self._opened = session.Session(str(self._at))

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Query in SQL."""
        answer = self._opened.query(f"SELECT {COLUMN} FROM weather WHERE location_id = {place[0]} ORDER BY time", "CSV")
        return [float(line) for line in str(answer).split()]

    def month_mean(self) -> float:
        """Query in SQL."""
        first, end = (f"toDateTime64('{time:%Y-%m-%d %H:%M:%S}', 6, 'UTC')" for time in (_FROM, _TO))
        query = f"SELECT avg(toFloat64({COLUMN})) FROM weather WHERE time >= {first} AND time < {end}"
        return float(str(self._opened.query(query, "CSV")))


# --- xarray on the files: netCDF as received, and Zarr in the chunks of ARCO-ERA5, one hour of the grid each ---


# Hours since the first, in separate chunks: otherwise appended months would be rounded to the unit of the first one.
_TIMES = {"units": "hours since 1940-01-01", "dtype": "int64", "chunks": (8784,)}


class _GridFiles(FolderContender):
    """Questions to an xarray dataset."""

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Select the nearest point."""
        _, latitude, longitude = place
        values = self._values.sel(latitude=latitude, longitude=_turned(self._values, longitude), method="nearest")
        return [float(value) - KELVIN for value in values.to_numpy()]

    def month_mean(self) -> float:
        """Select the month."""
        hours = self._values.sel({self._time: f"{MEAN_MONTH}"})
        return float(hours.astype("float64").mean()) - KELVIN

    @property
    def _values(self) -> xr.DataArray:
        values: xr.DataArray = self._opened[SHORT_NAME]
        return values

    @property
    def _time(self) -> str:
        return "valid_time" if "valid_time" in self._values.dims else "time"


class NetcdfFiles(_GridFiles):
    """The netCDF files as received, unzipped, opened as one dataset."""

    name: ClassVar[str] = "xarray on netCDF"

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Unzip the files."""
        self._folder = fresh_folder(folder)
        for raw in year.raw:
            for file in raw.files:
                _unpack(file.path, self._folder / str(raw.month))
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open the files with the variable."""
        self._opened = _open_netcdf(self._at)


class ZarrFiles(_GridFiles):
    """A Zarr store with a chunk for each hour of the grid, as in ARCO-ERA5."""

    name: ClassVar[str] = "Zarr, an hour a chunk"

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Unzip the netCDF files, and convert them."""
        self._folder = fresh_folder(folder)
        netcdf = fresh_folder(folder.with_name(f"{folder.name}-netcdf"))
        for raw in year.raw:
            for file in raw.files:
                _unpack(file.path, netcdf / str(raw.month))
        for number, raw in enumerate(year.raw):
            with _open_netcdf(netcdf / str(raw.month)) as dataset:
                values = dataset[[SHORT_NAME]].load().drop_encoding()
            values = values.drop_vars([name for name in values.coords if name not in values.dims])
            dimension = next(str(name) for name in values[SHORT_NAME].dims if "time" in str(name))
            if number:
                values.to_zarr(self._folder, append_dim=dimension, consolidated=False)
                continue
            sizes = tuple(1 if name == dimension else size for name, size in values[SHORT_NAME].sizes.items())
            encoding = {SHORT_NAME: {"chunks": sizes}, dimension: _TIMES}
            values.to_zarr(self._folder, mode="w", consolidated=False, encoding=encoding)
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open the store."""
        import xarray as xr  # other suites do without it

        self._opened = xr.open_zarr(self._at, consolidated=False)


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        (folder / archive.name).write_bytes(archive.read_bytes())


def _open_netcdf(folder: Path) -> Any:  # noqa: ANN401  # an xarray dataset; xarray's own function is loosely typed
    import xarray as xr  # other suites do without it

    files = []
    for path in sorted(folder.rglob("*.nc")):
        with xr.open_dataset(path) as dataset:
            if SHORT_NAME in dataset:
                files.append(path)
    return xr.open_mfdataset(files, combine="by_coords", data_vars="minimal", coords="minimal", compat="override")


def _turned(values: xr.DataArray, longitude: float) -> float:
    """The longitude in the convention of the files: from -180 or from 0."""
    return longitude % 360 if float(values["longitude"].max()) > 180 else longitude


# --- This project: the table `weather`, in the layout of the measured server ---


_SERIES = f"SELECT {COLUMN} FROM weather WHERE location_id = %s ORDER BY time".encode()
_MEAN = f"SELECT avg({COLUMN}::float8) FROM weather WHERE time >= %s AND time < %s".encode()


class WarehouseTable(Contender):
    """The table of the warehouse, loaded month by month as in `era5 load`."""

    name: ClassVar[str] = "era5-pipeline"

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: psycopg.Connection[Any] | None = None

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten and load each month."""
        self._target.make_table(LAYOUTS[self._target.offered[0]])
        with self._target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
        for flat in year.flatten(fresh_folder(folder)):
            load_month(self._target.warehouse, flat)
        with self._target.connect() as connection:
            return read_space(connection).bytes

    def open(self) -> None:
        """Connect to the database."""
        self._connection = self._target.warehouse.connect()

    def close(self) -> None:
        """Disconnect from the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _opened(self) -> psycopg.Connection[Any]:
        assert self._connection is not None  # noqa: S101  # set by `open`
        return self._connection

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Query in SQL."""
        return [row[0] for row in self._opened.execute(_SERIES, (place[0],), binary=True).fetchall()]

    def month_mean(self) -> float:
        """Query in SQL."""
        row = self._opened.execute(_MEAN, (MEAN_MONTH.start, MEAN_MONTH.end)).fetchone()
        assert row is not None  # noqa: S101  # an aggregate is one row
        return float(row[0])

    def files(self) -> Iterable[Path]:
        """The files of its database, if this user may read them."""
        return database_files(self._target)


def database_files(target: Target) -> list[Path]:
    """The files of the database; none if this user is neither root nor the server's, or it is on another machine."""
    with target.connect() as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
        folder = Path(f"/proc/{connection.info.backend_pid}/cwd/base/{row[0] if row else 0}")
        try:
            return sorted(folder.iterdir())
        except OSError:
            return []


# --- Suite `others`: the same year and the same questions for each contender: load time, bytes, response times ---


_WARM = 3
_TOLERANCE = 1e-3  # degrees Celsius: files hold kelvin, the table degrees


@contextmanager
def others_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each contender."""
    year = GeneratedYear(context.folder / "year", context.rows)
    answers: dict[str, np.ndarray] = {}
    contenders: list[Callable[[], Contender]] = [
        lambda: WarehouseTable(context.target),
        NetcdfFiles,
        ZarrFiles,
        DuckdbOnParquet,
        ClickhouseTable,
    ]
    names = [WarehouseTable.name, NetcdfFiles.name, ZarrFiles.name, DuckdbOnParquet.name, ClickhouseTable.name]
    yield [
        PlannedCell(name, 12 * context.rows, {"contender": name}, _Asked(make, year, context.folder, answers).measure)
        for name, make in zip(names, contenders, strict=True)
    ]


def others_bytes(context: BenchContext) -> int:
    """Bytes on disk for the year in each form."""
    return 12 * context.rows * (2 * TABLE_ROW_BYTES + 3 * FILE_ROW_BYTES)


@dataclass(frozen=True)
class _Asked:
    make: Callable[[], Contender]
    year: GeneratedYear
    folder: Path
    answers: dict[str, np.ndarray] = field(repr=False)

    def measure(self) -> Measured:
        """Load the year, and ask each question first with an empty page cache and then several times."""
        contender = self.make()
        reason = contender.why_missing()
        if reason is not None:
            raise CannotRunError(reason)
        place, rows = self.year.place, sum(flat.rows for flat in self.year.flat)
        started = time.monotonic()
        size = contender.load(self.year, self.folder / "contender")
        figures = {"seconds": time.monotonic() - started, "bytes_per_row": size / rows}
        try:
            questions: dict[str, Callable[[], list[float]]] = {
                "place_year": lambda: contender.place_year(place),
                "month_mean": lambda: [contender.month_mean()],
            }
            for name, ask in questions.items():
                figures |= self._ask(contender, name, ask)
        finally:
            contender.close()
        return Measured(rows, figures, notes={"cold": "opened again, its files dropped from the page cache"})

    def _ask(self, contender: Contender, name: str, ask: Callable[[], list[float]]) -> dict[str, float]:
        contender.close()
        forget_cached(contender.files())
        started = time.monotonic()
        contender.open()
        self._check(name, ask())
        cold = time.monotonic() - started
        warm = []
        for _ in range(_WARM):
            started = time.monotonic()
            ask()
            warm.append(time.monotonic() - started)
        return {f"{name}_cold_ms": cold * 1000, f"{name}_warm_ms": median(warm) * 1000}

    def _check(self, name: str, answer: list[float]) -> None:
        """Require the same answer from every contender as from the first."""
        found = np.array(answer, dtype=np.float64)
        known = self.answers.setdefault(name, found)
        if found.shape != known.shape or not np.allclose(found, known, atol=_TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{name}: it answers otherwise than the first contender")
