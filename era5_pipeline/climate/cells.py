"""Statistics of many locations at once, from days and months: complete years, and their trends."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.climate.regression import Coefficients
from era5_pipeline.climate.trends import trends_of_years
from era5_pipeline.climate.years import MOST_MISSING_HOURS
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import GridWindow
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.fetch import fetch_packed, table_required, value_of
from era5_pipeline.read.held import everywhere
from era5_pipeline.read.missing import SUMMARIES_REMEDY
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    import numpy.typing as npt

    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.question import CellStatistic, YearPart
    from era5_pipeline.model.grid import Area, Grid
    from era5_pipeline.model.variables import Variable

    IdArray = npt.NDArray[np.int32]
    FloatArray = npt.NDArray[np.float32]

# --- One statistic of many locations with its number of hours, from the hours of a day or from monthly summaries ---


Number = TypeVar("Number", np.float32, np.float64, np.int32)

_AGGREGATES: dict[CellStatistic, str] = {"mean": "avg", "min": "min", "max": "max", "sum": "sum"}
# The neutral value of each statistic.
_NOTHING: dict[CellStatistic, float] = {"mean": 0.0, "sum": 0.0, "min": np.inf, "max": -np.inf}


@dataclass(frozen=True, eq=False)
class CellValues:
    """Values (n,) float64 at `location_ids` (n,), with their numbers of hours, (n,); NaN without an hour.

    The locations ascend.
    """

    location_ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    hours: npt.NDArray[np.int32]
    grid: Grid

    def where(self, wanted: npt.NDArray[np.bool_]) -> CellValues:
        """The locations selected by the mask `wanted`, (n,)."""
        return CellValues(self.location_ids[wanted], self.values[wanted], self.hours[wanted], self.grid)


@contextmanager
def one_state(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction on one snapshot of the table, however many statements it runs. The connection is in autocommit."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # Compiling expressions takes longer than most of these queries.
        connection.execute("SET LOCAL jit = off")
        yield


def hours_of_day(variable: Variable, day: date) -> tuple[datetime, datetime]:
    """The hours of a day in UTC, from the first result to just before the second.

    Instants are those from 00:00 on; a total, mean or extreme over an hour has the time of its end, 01:00 to 24:00.
    """
    start = datetime.combine(day, time(), tzinfo=UTC)
    if variable.step_type != "instant":
        start += timedelta(hours=1)
    return start, start + timedelta(days=1)


def read_day(
    connection: psycopg.Connection[Any], variable: Variable, day: date, statistic: CellStatistic, area: Area | None
) -> CellValues:
    """A statistic of the hours of a day in UTC, at each location of an area."""
    start, end = hours_of_day(variable, day)
    query = sql.SQL(read_sql("cells_of_hours", dataset_of(connection))).format(
        aggregate=sql.SQL(_AGGREGATES[statistic]), column=value_of(variable.column)
    )
    with table_required(dataset_of(connection)):
        return _read(connection, query, {"start": start, "end": end}, area)


def read_part(
    connection: psycopg.Connection[Any],
    variable: Variable,
    part: YearPart,
    year: int,
    statistic: CellStatistic,
    area: Area | None,
) -> CellValues:
    """A statistic of a part of a year, from monthly summaries, at each location of an area."""
    months = (_read_month(connection, variable, start, statistic, area) for start in part.starts(year))
    return _together(months, statistic, (area or everywhere(connection)).grid)


def _read_month(
    connection: psycopg.Connection[Any],
    variable: Variable,
    start: date,
    statistic: CellStatistic,
    area: Area | None,
) -> CellValues:
    query = sql.SQL(read_sql("cells_of_month", dataset_of(connection))).format(
        column=sql.Identifier(f"{variable.column}_{statistic}"),
        hours=sql.Identifier(f"{variable.column}_{'sum_hours' if statistic == 'sum' else 'hours'}"),
    )
    with summaries_required(variable):
        return _read(connection, query, {"month": start}, area)


@contextmanager
def summaries_required(variable: Variable) -> Iterator[None]:
    """Raise `NoDataError` if the database has no monthly summaries of the variable."""
    try:
        yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        raise NoDataError(
            f"the database has no monthly summaries of {variable.column}: its months were loaded without them",
            remedy=SUMMARIES_REMEDY,
        ) from None


def _together(months: Iterable[CellValues], statistic: CellStatistic, grid: Grid) -> CellValues:
    """The statistic of all hours of several months.

    Combined here: grouping a year of the globe on the server takes twice as long as reading its months.
    """
    ids, values, hours = np.empty(0, dtype=np.int32), np.empty(0), np.empty(0, dtype=np.int32)
    for month in months:
        if not np.array_equal(ids, month.location_ids):
            found = np.union1d(ids, month.location_ids)
            values, hours = spread(values, ids, found, _NOTHING[statistic]), spread(hours, ids, found, 0)
            ids = found
        at = np.searchsorted(ids, month.location_ids) if ids.size > month.location_ids.size else slice(None)
        is_there = np.isfinite(month.values)
        added = np.where(is_there, month.values, _NOTHING[statistic])
        hours[at] += np.where(is_there, month.hours, 0).astype(np.int32)
        match statistic:
            case "mean":
                # The overall mean is that of the monthly means, weighted by their hours.
                values[at] += added * month.hours
            case "sum":
                values[at] += added
            case "min":
                values[at] = np.minimum(values[at], added)
            case "max":
                values[at] = np.maximum(values[at], added)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = values / hours if statistic == "mean" else values
    return CellValues(ids, np.where(hours > 0, values, np.nan), hours, grid)


def spread(
    values: npt.NDArray[Number], ids: npt.NDArray[np.int32], among: npt.NDArray[np.int32], fill: float
) -> npt.NDArray[Number]:
    """Place values (m,) of ids (m,) among the ids `among` (n,), all ascending, with `fill` for the rest."""
    if ids.size == among.size:
        return values
    filled = np.full(among.size, fill, dtype=values.dtype)
    filled[np.searchsorted(among, ids)] = values
    return filled


def _read(
    connection: psycopg.Connection[Any], cells: sql.Composed, parameters: dict[str, Any], area: Area | None
) -> CellValues:
    query = sql.SQL(read_sql("packed_cells")).format(cells=cells)
    window = GridWindow.of_area(area or everywhere(connection))
    parameters = {**parameters, **window.parameters}
    found = fetch_packed(connection, query, parameters, ("i4", "f8", "i4"))
    ids, values, hours = (one.astype(one.dtype.newbyteorder("=")) for one in found)
    order = np.argsort(ids, kind="stable")
    return CellValues(ids[order], values[order], hours[order], window.grid)


@dataclass(frozen=True, eq=False)
class YearlyCells:
    """Values of `years` (k,) at `location_ids` (n,), both ascending: k rows (n,) float32, NaN for incomplete years.

    The rows are separate arrays, since 30 years of the globe are 125 MB. `has_values`: whether any year has a value,
    complete or not.
    """

    years: tuple[int, ...]
    location_ids: IdArray
    rows: tuple[FloatArray, ...]
    has_values: bool
    grid: Grid

    @property
    def complete_years(self) -> list[int]:
        """The years that are complete at any location."""
        return [year for year, row in zip(self.years, self.rows, strict=True) if np.isfinite(row).any()]

    def block(self, cells: slice) -> npt.NDArray[np.float64]:
        """The values (k, m) of some of the locations."""
        return np.stack([row[cells] for row in self.rows]).astype(np.float64)


def is_complete(cells: CellValues, expected_hours: int) -> npt.NDArray[np.bool_]:
    """Where a month or year is missing no more than a day of hours, (n,): the rule of `climate.years`."""
    return np.isfinite(cells.values) & (expected_hours - cells.hours <= MOST_MISSING_HOURS)


def read_years(
    connection: psycopg.Connection[Any],
    variable: Variable,
    part: YearPart,
    years: YearSpan,
    statistic: CellStatistic,
    area: Area | None,
) -> YearlyCells:
    """Read a part of each of these years where it is complete; locations without any are left out."""
    numbers = tuple(range(years.first, years.last + 1))
    ids = np.empty(0, dtype=np.int32)
    rows: list[FloatArray] = []
    has_values = False
    for year in numbers:
        cells = read_part(connection, variable, part, year, statistic, area)
        has_values = has_values or bool(np.isfinite(cells.values).any())
        cells = cells.where(is_complete(cells, part.hours(year)))
        if not np.array_equal(cells.location_ids, ids):
            found = np.union1d(ids, cells.location_ids)
            if found.size > ids.size:
                rows = [spread(row, ids, found, np.nan) for row in rows]
                ids = found
        rows.append(spread(cells.values.astype(np.float32), cells.location_ids, ids, np.nan))
    return YearlyCells(numbers, ids, tuple(rows), has_values, (area or everywhere(connection)).grid)


# Locations per block: 30 years of them are 16 MB.
_BLOCK = 65_536


def trends_of_cells(cells: YearlyCells, unit: str) -> Coefficients:
    """The trend per decade of each location, of values in `unit`; NaN without enough complete years."""
    years = np.asarray(cells.years, dtype=np.float64)
    starts = range(0, max(cells.location_ids.size, 1), _BLOCK)
    found = [trends_of_years(years, cells.block(slice(start, start + _BLOCK)), unit) for start in starts]
    return Coefficients(
        *(np.concatenate([getattr(one, field.name) for one in found]) for field in fields(Coefficients))
    )
