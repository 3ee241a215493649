"""Response time of questions about one place: 85 years of hours, yearly means, a year beside netCDF, climate."""

from __future__ import annotations

import math
import subprocess
from contextlib import closing
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.cells import CannotRunError, Laps, Measured, median_ms, median_of, planned, ratio, seconds_of
from benchmarks.generated import LAST, STEP, area_of, flattened, generated_files, last_months, square
from benchmarks.others import unpack
from benchmarks.processes import ERA5, own_environment
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.model.grid import ERA5_GRID, Location
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.read.hours import read_place_hours
from era5_pipeline.runtime.prefetch import Prefetched
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt
    import pandas as pd
    import psycopg

    from benchmarks.cells import Entries, Numbers, PlannedCell
    from benchmarks.servers import Target
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.sources.source import RawMonth

# --- The table for the questions: 1,020 generated months of 100 places, 1,600 in the last year, with its files ---


# The 85 years of the question about climate; with fewer months, the last ones.
MOST_MONTHS = 1020
# The north-western corner of the places: Java with Jakarta, on land and at sea.
_NORTH, _WEST = -5.0, 105.75
_HOURS = 744
# The last year has this many times the places, as in months of a country: reading files must skip the others.
# Four times as many in each direction.
YEAR_SHARE = 16


class AskedTable:
    """`weather` with the last `count` months until 2024-12, of about `rows` rows each; loaded on first use.

    The months of the last year have 16 times the rows, around the same place. Files are made in `folder`. Those of the
    last year are kept: `year_files` as the source makes them, `netcdf_files` unzipped.
    """

    def __init__(self, target: Target, folder: Path, rows: int, count: int) -> None:
        self.target = target
        self.months = last_months(count)
        side = max(1, round(math.sqrt(rows / _HOURS)))
        self.place: Location = ERA5_GRID.nearest_location(_NORTH - STEP * (side // 2), _WEST + STEP * (side // 2))
        self.folder = folder
        self.year_files: list[RawMonth] = []
        self._area, self._year_area = (square(_NORTH, _WEST, size) for size in (side, 4 * side))

    @classmethod
    def loaded(cls, context: BenchContext, count: int) -> Self:
        """The table with its months loaded."""
        table = cls(context.target, context.folder, context.rows, count)
        table.load()
        return table

    @property
    def year(self) -> tuple[Month, ...]:
        """The last twelve months, or all if there are fewer."""
        return self.months[-12:]

    @property
    def places(self) -> tuple[Location, ...]:
        """The places in all months."""
        rows, columns = self._area.latitude_indices(), self._area.longitude_indices()
        return tuple(ERA5_GRID.location(int(number)) for row in rows for number in ERA5_GRID.location_ids(row, columns))

    def load(self) -> None:
        """Load the months; each is generated while the one before is loaded."""
        self.target.make_table(self.target.layout)
        with closing(Prefetched(self._flat_months())) as flat_months:
            for raw, flat in flat_months:
                load_month(self.target.warehouse, flat)
                if flat.month in self.year:
                    self.year_files.append(raw)
                for path in (flat.path, *(file.path for file in raw.files if raw not in self.year_files)):
                    path.unlink()
        with self.target.connect() as connection:
            connection.execute("ANALYZE weather")

    def _flat_months(self) -> Iterator[tuple[RawMonth, FlatMonth]]:
        for month in self.months:
            area = self._year_area if month in self.year else self._area
            raw = generated_files(self.folder, month, area)
            yield raw, flattened(raw, self.folder)

    @property
    def hours(self) -> int:
        """The hours of the place in all months."""
        return sum(month.hours for month in self.months)

    def last_year(self, connection: psycopg.Connection[Any]) -> pd.DataFrame:
        """The hours of the place in the last year, all variables."""
        first, end = self.year[0].start, self.year[-1].end
        return read_place_hours(connection, self.place, DEFAULT_VARIABLES, first, end)

    @cached_property
    def netcdf_files(self) -> list[Path]:
        """The netCDF files of the last year, which one call would open."""
        return [path for raw in self.year_files for path in sorted(unpack(raw, self.folder / "netcdf").rglob("*.nc"))]


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


def _from_connecting(
    table: AskedTable, read: Callable[[psycopg.Connection[Any]], Any], times: int = 1
) -> tuple[Any, Numbers]:
    """Read; return the answer, the seconds with a new connection, and the median of `times` reads on the same one."""
    import pandas as pd  # noqa: F401  # imported before the clock starts, as programs do it once

    clock = Laps()
    with table.target.warehouse.connect() as connection:
        found, seconds = read(connection), clock.lap()
        again = median_ms(lambda: read(connection), times) / 1000
    return found, {"seconds": seconds, "connected_seconds": again}


def all_hours(table: AskedTable) -> Measured:
    """All hours of the place, all variables, as a pandas table."""
    place = table.place
    hours, figures = _from_connecting(table, lambda of: read_place_hours(of, place, DEFAULT_VARIABLES, None, None))
    if len(hours) != table.hours:
        raise CannotRunError(f"{len(hours):,} hours were read, of {table.hours:,}")
    return Measured(len(hours), figures)


def year_of_hours(table: AskedTable) -> Measured:
    """The last year of the place, all variables."""
    hours, figures = _from_connecting(table, table.last_year, _REPEATS)
    return Measured(len(hours), figures)


def year_from_netcdf(table: AskedTable) -> Measured:
    """The same year by xarray from the months' netCDF files, unzipped in advance and in the page cache."""
    import xarray as xr  # not needed to count the cells

    def read() -> dict[str, npt.NDArray[np.float32]]:
        """The hours of the place by column, in the units of the table."""
        place, paths = table.place, table.netcdf_files
        with xr.open_mfdataset(
            paths, combine="by_coords", data_vars="minimal", coords="minimal", compat="override", join="outer"
        ) as dataset:
            hours = dataset.sel(latitude=place.latitude, longitude=place.longitude, method="nearest").load()
        return {
            of.column: (hours[of.short_name].to_numpy() * of.scale + of.offset).astype(np.float32)
            for of in DEFAULT_VARIABLES
        }

    with table.target.warehouse.connect() as connection:
        expected = table.last_year(connection)
    values = read()
    seconds = seconds_of(read)
    for column, found in values.items():
        if not np.allclose(found, expected[column].to_numpy(), atol=_TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{column} is not that of the table")
    return Measured(len(expected), {"seconds": seconds})


def yearly_means(table: AskedTable, statement: str) -> Measured:
    """The mean temperature of each year, by one of the statements."""
    place = {"location_id": table.place.location_id}
    found, figures = _from_connecting(table, lambda of: of.execute(statement.encode(), place).fetchall())
    with table.target.warehouse.connect() as connection:
        hours = read_place_hours(connection, table.place, DEFAULT_VARIABLES[:1], None, None)
    years = hours.index.to_numpy(dtype="datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    expected = hours.iloc[:, 0].astype(np.float64).groupby(years).mean()
    if [year for year, _ in found] != expected.index.tolist() or not np.allclose(
        [mean for _, mean in found], expected, atol=_TOLERANCE
    ):
        raise CannotRunError("the means are not those of the hours")
    return Measured(table.hours, figures)


# --- `era5 climate` for one place, in a separate process: the total time that a user waits ---


_LIMIT_SECONDS = 600


def run_climate(table: AskedTable) -> Measured:
    """Run the command."""
    home = table.folder / "home"
    home.mkdir(exist_ok=True)
    clock = Laps()
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
    seconds = clock.lap()
    if done.returncode:
        words = [line.strip(" │") for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
        why = words[-1] if words else "it printed nothing"
        raise CannotRunError(f"era5 climate ended with exit code {done.returncode}: {why}")
    return Measured(table.hours, {"seconds": seconds})


# --- The cost of monthly summaries: the same month flattened and loaded with and without them ---


# A month of 744 hours that the table of the other cells does not have.
_MONTH = Month.from_number(LAST.number + 1)
# It has this many times the rows of one in the table.
_COST_SHARE = 40


def load_with(table: AskedTable, rows: int, *, summaries: bool) -> Measured:
    """Flatten and load a month of about `rows` rows into a table that does not have it, and remove it again."""
    target, folder = table.target, table.folder / "cost"
    raw = generated_files(folder, _MONTH, area_of(rows / _MONTH.hours))
    target.calm()
    clock = Laps()
    flat = flattened(raw, folder, with_summaries=summaries)
    flat_seconds = clock.lap()
    load_month(target.warehouse, flat, force=True)
    load_seconds = clock.lap()
    drop_month(target.warehouse, _MONTH)
    figures = {"seconds": flat_seconds + load_seconds, "flat_seconds": flat_seconds, "load_seconds": load_seconds}
    return Measured(flat.rows, figures)


ALL_HOURS, YEAR, NETCDF, CLIMATE = "all hours", "a year", "a year, xarray on netCDF", "era5 climate"
MEANS_OF_HOURS, MEANS_OF_MONTHS = "yearly means, from hours", "yearly means, from weather_monthly"
WITH, WITHOUT = "a load with monthly summaries", "a load without monthly summaries"


def months_asked(context: BenchContext) -> int:
    """The months of the table."""
    return min(MOST_MONTHS, max(context.options.held))


def _ask_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each question; the table is loaded when the first is measured."""
    count, cost_rows = months_asked(context), _COST_SHARE * context.rows
    table = cache(partial(AskedTable.loaded, context, count))
    questions: dict[str, Callable[[], Measured]] = {
        ALL_HOURS: lambda: all_hours(table()),
        MEANS_OF_HOURS: lambda: yearly_means(table(), FROM_HOURS),
        MEANS_OF_MONTHS: lambda: yearly_means(table(), FROM_SUMMARIES),
        YEAR: lambda: year_of_hours(table()),
        NETCDF: lambda: year_from_netcdf(table()),
        CLIMATE: lambda: run_climate(table()),
    }
    # After the questions, in the same table, to which this month does not belong.
    costs: dict[str, Callable[[], Measured]] = {
        WITH: lambda: load_with(table(), cost_rows, summaries=True),
        WITHOUT: lambda: load_with(table(), cost_rows, summaries=False),
    }
    return planned(questions, context.rows, months=count) + planned(costs, cost_rows, months=count)


def _ask_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the additional month."""
    held = months_asked(context) + 12 * YEAR_SHARE + 2 * _COST_SHARE
    return disk(held, _COST_SHARE * 2)(context)


def of_85_years(entries: Entries) -> Entries:
    """The cells that were asked of a table with all months."""
    return {name: entry for name, entry in entries.items() if entry["parameters"]["months"] == MOST_MONTHS}


def _ask_figures(entries: Entries) -> dict[str, float | None]:
    """Seconds of the questions, each from a new connection."""
    whole = of_85_years(entries)
    of_months, of_hours = median_of(whole, MEANS_OF_MONTHS), median_of(whole, MEANS_OF_HOURS)
    return {
        "years85_yearly_means_seconds": of_hours if of_months is None else of_months,
        "years85_yearly_means_from_hours_seconds": of_hours,
        "years85_all_hours_seconds": median_of(whole, ALL_HOURS),
        "climate_seconds": median_of(whole, CLIMATE),
        "year_seconds": median_of(entries, YEAR),
        "year_connected_seconds": median_of(entries, YEAR, "connected_seconds"),
    }


def _ask_ratios(entries: Entries) -> dict[str, float | None]:
    """How many times longer the year takes from netCDF files, and the share of a load that the summaries take."""
    times = ratio(median_of(entries, WITH), median_of(entries, WITHOUT), 4)
    return {
        "netcdf_to_table": ratio(median_of(entries, NETCDF), median_of(entries, YEAR, "connected_seconds")),
        "monthly_cost": None if times is None else round(times - 1, 4),
    }


ASK = Suite(
    name="ask",
    summary="85 years of a place, and a year beside netCDF",
    load="1,020 months of 74,400 rows (`--held`), asked about one place",
    plan=_ask_cells,
    rows=74_400,
    repeats=5,
    bytes=_ask_bytes,
    ratios=_ask_ratios,
    figures=_ask_figures,
    at_least={"netcdf_to_table": 100},
    at_most={
        "years85_yearly_means_seconds": 0.6,
        "years85_all_hours_seconds": 1.2,
        "climate_seconds": 3,
        "monthly_cost": 0.03,
    },
)
