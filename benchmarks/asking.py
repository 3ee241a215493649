"""Response time of questions about one place: 85 years of hours, yearly means, a year beside netCDF, climate."""

from __future__ import annotations

import math
import subprocess
import time
import zipfile
from contextlib import closing, contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cells import CannotRunError, PlannedCell, measured, median_of, ratio
from benchmarks.generated import area_of
from benchmarks.processes import ERA5, own_environment
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import Area, Location, location_ids, location_of, nearest_location
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.read.hours import read_place_hours
from era5_pipeline.runtime.prefetch import Prefetched
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import pandas as pd
    import psycopg

    from benchmarks.cells import Entries, Numbers
    from benchmarks.servers import Target
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawMonth

# --- The table for the questions: 1,020 generated months of 100 places, 1,600 in the last year, with its files ---


# The 85 years of the question about climate; with fewer months, the last ones.
MOST_MONTHS = 1020
LAST = Month(2024, 12)
# The north-western corner of the places: Java with Jakarta, on land and at sea.
_NORTH, _WEST, _STEP = -5.0, 105.75, 0.25
_HOURS = 744
# The last year has this many times the places, as in months of a country: reading files must skip the others.
YEAR_SHARE = 16


class AskedTable:
    """`weather` with the last `count` months until 2024-12, of about `rows` rows each; loaded on first use.

    The months of the last year have 16 times the rows, around the same place. Files are made in `folder`. Those of the
    last year are kept: `year_files` as the source makes them, `netcdf_files` once they are unzipped.
    """

    def __init__(self, target: Target, folder: Path, rows: int, count: int) -> None:
        self.target = target
        self.months = tuple(Month.from_number(LAST.number - back) for back in reversed(range(count)))
        side = max(1, round(math.sqrt(rows / _HOURS)))
        self.place: Location = nearest_location(_NORTH - _STEP * (side // 2), _WEST + _STEP * (side // 2))
        self.folder = folder
        self.year_files: list[RawMonth] = []
        self.netcdf_files: list[Path] = []
        self._area, self._year_area = _square(side), _square(round(side * math.sqrt(YEAR_SHARE)))
        self._is_loaded = False

    @property
    def year(self) -> tuple[Month, ...]:
        """The last twelve months, or all if there are fewer."""
        return self.months[-12:]

    @property
    def places(self) -> tuple[Location, ...]:
        """The places in all months."""
        rows, columns = self._area.latitude_indices(), self._area.longitude_indices()
        return tuple(location_of(int(number)) for row in rows for number in location_ids(row, columns))

    def load(self) -> None:
        """Load the months, unless already loaded; each is generated while the one before is loaded."""
        if self._is_loaded:
            return
        self.target.make_table(LAYOUTS[self.target.offered[0]])
        with self.target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
        with closing(Prefetched(self._flat_months())) as flat_months:
            for raw, flat in flat_months:
                load_month(self.target.warehouse, flat)
                flat.path.unlink()
                if flat.month in self.year:
                    self.year_files.append(raw)
                else:
                    for file in raw.files:
                        file.path.unlink()
        with self.target.connect() as connection:
            connection.execute("ANALYZE weather")
        self._is_loaded = True

    def _flat_months(self) -> Iterator[tuple[RawMonth, FlatMonth]]:
        for month in self.months:
            area = self._year_area if month in self.year else self._area
            raw = SampleSource(self.folder / "raw", Request(None, area)).fetch(month)
            yield raw, flatten_month(raw, self.folder / "flat", home=self.folder, flat_format="parquet")


def _square(side: int) -> Area:
    """`side` x `side` grid points."""
    return Area(_NORTH, _WEST, _NORTH - _STEP * (side - 1), _WEST + _STEP * (side - 1))


# --- A year of one place from the month's netCDF files with xarray: the alternative to a warehouse ---


def unpack(months: Iterable[RawMonth], folder: Path) -> list[Path]:
    """Unzip the months' files into `folder`; return the netCDF files, which one call would open."""
    for raw in months:
        for file in raw.files:
            own = folder / str(raw.month)
            own.mkdir(parents=True, exist_ok=True)
            if zipfile.is_zipfile(file.path):
                with zipfile.ZipFile(file.path) as archive:
                    archive.extractall(own)
            else:
                (own / file.path.name).write_bytes(file.path.read_bytes())
    return sorted(folder.rglob("*.nc"))


def read_year(
    paths: Sequence[Path], place: Location, variables: Iterable[Variable]
) -> dict[str, npt.NDArray[np.float32]]:
    """Read the hours of the place, ascending, by column, in the units of the table."""
    import xarray as xr  # not needed to count the cells

    with xr.open_mfdataset(
        paths, combine="by_coords", data_vars="minimal", coords="minimal", compat="override", join="outer"
    ) as dataset:
        hours = dataset.sel(latitude=place.latitude, longitude=place.longitude, method="nearest").load()
    return {
        variable.column: (hours[variable.short_name].to_numpy() * variable.scale + variable.offset).astype(np.float32)
        for variable in variables
    }


# --- The questions about one place, each timed from a new connection: all hours, yearly means, a year ---


# The mean temperature of each year, from the hours and from the monthly summaries.
FROM_HOURS = """
    SELECT extract(year FROM time AT TIME ZONE 'UTC')::integer AS year, avg(temperature_2m)
    FROM weather
    WHERE location_id = %(location_id)s
    GROUP BY year
    ORDER BY year
"""
FROM_SUMMARIES = """
    SELECT extract(year FROM month)::integer AS year,
           sum(temperature_2m_mean * temperature_2m_hours) / sum(temperature_2m_hours)
    FROM weather_monthly
    WHERE location_id = %(location_id)s
    GROUP BY year
    ORDER BY year
"""
_REPEATS = 5
_TOLERANCE = 1e-3  # in any unit; the table computes its float32 in other steps than xarray


def all_hours(table: AskedTable) -> tuple[int, Numbers]:
    """All hours of the place, all variables, as a pandas table; return their number and the times."""
    import pandas as pd  # noqa: F401  # imported before the clock starts, as programs do it once

    table.load()
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        hours = read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, None, None)
        seconds = time.perf_counter() - started
        again = time.perf_counter()
        read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, None, None)
        connected = time.perf_counter() - again
    wanted = sum(month.hours for month in table.months)
    if len(hours) != wanted:
        raise CannotRunError(f"{len(hours):,} hours were read, of {wanted:,}")
    return len(hours), {"seconds": seconds, "connected_seconds": connected}


def year_of_hours(table: AskedTable) -> tuple[int, Numbers]:
    """The last year of the place, all variables; return the number of hours and the times."""
    import pandas as pd  # noqa: F401  # imported before the clock starts

    table.load()
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        hours = _last_year(connection, table)
        seconds = time.perf_counter() - started
        times = []
        for _ in range(_REPEATS):
            again = time.perf_counter()
            _last_year(connection, table)
            times.append(time.perf_counter() - again)
    return len(hours), {"seconds": seconds, "connected_seconds": median(times)}


def year_from_netcdf(table: AskedTable) -> tuple[int, Numbers]:
    """The same year from the months' netCDF files, unzipped in advance and in the page cache.

    Raises:
        CannotRunError: if the values differ from the table's.
    """
    table.load()
    if not table.netcdf_files:
        table.netcdf_files = unpack(table.year_files, table.folder / "netcdf")
    with table.target.warehouse.connect() as connection:
        expected = _last_year(connection, table)
    read_year(table.netcdf_files, table.place, DEFAULT_VARIABLES)
    started = time.perf_counter()
    values = read_year(table.netcdf_files, table.place, DEFAULT_VARIABLES)
    seconds = time.perf_counter() - started
    for column, found in values.items():
        if not np.allclose(found, expected[column].to_numpy(), atol=_TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{column} is not that of the table")
    return len(expected), {"seconds": seconds}


def _last_year(connection: psycopg.Connection[Any], table: AskedTable) -> pd.DataFrame:
    first, end = table.year[0].start, table.year[-1].end
    return read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES, first, end)


def yearly_means(table: AskedTable, statement: str) -> tuple[int, Numbers]:
    """The mean temperature of each year, by one of the statements; return the number of hours and the times.

    Raises:
        CannotRunError: if the means differ from those of the hours.
    """
    table.load()
    parameters = {"location_id": table.place.location_id}
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        means = connection.execute(statement, parameters).fetchall()
        seconds = time.perf_counter() - started
        again = time.perf_counter()
        connection.execute(statement, parameters).fetchall()
        connected = time.perf_counter() - again
        _require_means(connection, table, means)
    return sum(month.hours for month in table.months), {"seconds": seconds, "connected_seconds": connected}


def _require_means(connection: psycopg.Connection[Any], table: AskedTable, found: list[tuple[Any, ...]]) -> None:
    """Require the same means as pandas computes from the hours."""
    hours = read_place_hours(connection, table.place.location_id, DEFAULT_VARIABLES[:1], None, None)
    years = hours.index.to_numpy(dtype="datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    expected = hours.iloc[:, 0].astype(np.float64).groupby(years).mean()
    if [year for year, _ in found] != expected.index.tolist() or not np.allclose(
        [mean for _, mean in found], expected, atol=_TOLERANCE
    ):
        raise CannotRunError("the means are not those of the hours")


# --- `era5 climate` for one place, in a separate process: the total time that a user waits ---


_LIMIT_SECONDS = 600


def run_climate(table: AskedTable) -> tuple[int, Numbers]:
    """Run the command; return the number of hours of the place, and its seconds.

    Raises:
        CannotRunError: if it fails, with the end of its output.
    """
    table.load()
    home = table.folder / "home"
    home.mkdir(exist_ok=True)
    started = time.perf_counter()
    done = subprocess.run(  # noqa: S603  # our own command
        (*ERA5, "climate", "--lat", str(table.place.latitude), "--lon", str(table.place.longitude)),
        env=own_environment(home, {"ERA5_DATABASE_URL": table.target.warehouse.url}),
        cwd=home,  # without the user's .env
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_SECONDS,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        words = [line.strip(" │") for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
        why = words[-1] if words else "it printed nothing"
        raise CannotRunError(f"era5 climate ended with exit code {done.returncode}: {why}")
    return sum(month.hours for month in table.months), {"seconds": seconds}


# --- The cost of monthly summaries: the same month flattened and loaded with and without them ---


# A month of 744 hours that the table of the other cells does not have.
_MONTH = Month.from_number(LAST.number + 1)


def load_with(target: Target, folder: Path, rows: int, *, summaries: bool) -> tuple[int, Numbers]:
    """Flatten and load a month of about `rows` rows into a table that does not have it, and remove it again.

    Returns its rows, and the seconds of both stages together and of each.
    """
    raw = SampleSource(folder / "raw", Request(None, area_of(rows / _MONTH.hours))).fetch(_MONTH)
    target.calm()
    started = time.perf_counter()
    flat = flatten_month(raw, folder / "flat", home=folder, flat_format="parquet", with_summaries=summaries)
    flattened = time.perf_counter()
    load_month(target.warehouse, flat, force=True)
    loaded = time.perf_counter()
    drop_month(target.warehouse, _MONTH)
    return flat.rows, {
        "seconds": loaded - started,
        "flat_seconds": flattened - started,
        "load_seconds": loaded - flattened,
    }


# --- Suite `ask`: the cells of these questions, their figures and ratios ---


ALL_HOURS, YEAR, NETCDF, CLIMATE = "all hours", "a year", "a year, xarray on netCDF", "era5 climate"
MEANS_OF_HOURS, MEANS_OF_MONTHS = "yearly means, from hours", "yearly means, from weather_monthly"
WITH, WITHOUT = "a load with monthly summaries", "a load without monthly summaries"
# The month loaded with and without summaries has this many times the rows of one in the table.
_COST_SHARE = 40


@contextmanager
def ask_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each question; the table is loaded when the first is measured."""
    count = min(MOST_MONTHS, max(context.options.held))
    tables: list[AskedTable] = []

    def asked(question: Callable[[AskedTable], tuple[int, Numbers]]) -> tuple[int, Numbers]:
        if not tables:
            tables.append(AskedTable(context.target, context.folder, context.rows, count))
        return question(tables[0])

    questions: dict[str, Callable[[AskedTable], tuple[int, Numbers]]] = {
        ALL_HOURS: all_hours,
        MEANS_OF_HOURS: partial(yearly_means, statement=FROM_HOURS),
        MEANS_OF_MONTHS: partial(yearly_means, statement=FROM_SUMMARIES),
        YEAR: year_of_hours,
        NETCDF: year_from_netcdf,
        CLIMATE: run_climate,
    }
    cells = [
        PlannedCell(name, context.rows, {"months": count}, partial(lambda one: measured(asked(one)), question))
        for name, question in questions.items()
    ]
    # After the questions, in the same table, to which this month does not belong.
    for name, with_summaries in ((WITH, True), (WITHOUT, False)):

        def load(table: AskedTable, *, with_summaries: bool = with_summaries) -> tuple[int, Numbers]:
            table.load()
            rows = _COST_SHARE * context.rows
            return load_with(context.target, context.folder / "cost", rows, summaries=with_summaries)

        cells.append(
            PlannedCell(
                name, _COST_SHARE * context.rows, {"months": count}, partial(lambda one: measured(asked(one)), load)
            )
        )
    yield cells


def ask_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the additional month."""
    held = min(MOST_MONTHS, max(context.options.held)) + 12 * YEAR_SHARE + 2 * _COST_SHARE
    return context.rows * held * TABLE_ROW_BYTES + _COST_SHARE * context.rows * 2 * FILE_ROW_BYTES


def ask_figures(entries: Entries) -> dict[str, float | None]:
    """Seconds of the questions about 85 years, each from a new connection; None for a table with fewer months."""
    of_months, of_hours = (_seconds(entries, name) for name in (MEANS_OF_MONTHS, MEANS_OF_HOURS))
    return {
        "years85_yearly_means_seconds": of_hours if of_months is None else of_months,
        "years85_yearly_means_from_hours_seconds": of_hours,
        "years85_all_hours_seconds": _seconds(entries, ALL_HOURS),
        "climate_seconds": _seconds(entries, CLIMATE),
        "year_seconds": median_of(entries, YEAR, "seconds"),
        "year_connected_seconds": median_of(entries, YEAR, "connected_seconds"),
    }


def ask_ratios(entries: Entries) -> dict[str, float | None]:
    """How many times longer the year takes from netCDF files, and the share of a load that the summaries take."""
    with_, without = (median_of(entries, name, "seconds") for name in (WITH, WITHOUT))
    return {
        "netcdf_to_table": ratio(median_of(entries, NETCDF, "seconds"), median_of(entries, YEAR, "connected_seconds")),
        "monthly_cost": None if with_ is None or without is None else round(with_ / without - 1, 4),
    }


def _seconds(entries: Entries, name: str) -> float | None:
    entry = entries.get(name)
    is_whole = entry is not None and entry["parameters"]["months"] == MOST_MONTHS
    return median_of(entries, name, "seconds") if is_whole else None
