"""One statistic of many locations and the hours that it is of, from the hours of a day or from monthly summaries."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.fetch import table_required, value_of
from era5_pipeline.query.snapshots import EVERYWHERE, rectangle_parameters
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    import numpy.typing as npt

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.map_question import MapStatistic
    from era5_pipeline.query.maps.year_parts import YearPart

Number = TypeVar("Number", np.float32, np.float64, np.int32)

_AGGREGATES: dict[MapStatistic, str] = {"mean": "avg", "min": "min", "max": "max", "sum": "sum"}
# What adds nothing to a statistic.
_NOTHING: dict[MapStatistic, float] = {"mean": 0.0, "sum": 0.0, "min": np.inf, "max": -np.inf}


@dataclass(frozen=True, eq=False)
class CellValues:
    """Values (n,) float64 at `location_ids` (n,), and of how many hours each is, (n,); NaN where there is no hour.

    The locations ascend.
    """

    location_ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    hours: npt.NDArray[np.int32]

    def where(self, wanted: npt.NDArray[np.bool_]) -> CellValues:
        """Those that are wanted, (n,)."""
        return CellValues(self.location_ids[wanted], self.values[wanted], self.hours[wanted])


@contextmanager
def one_state(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction that reads one state of the table, in however many statements. The connection is in autocommit."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # Compiling expressions takes longer than most of these queries.
        connection.execute("SET LOCAL jit = off")
        yield


def hours_of_day(variable: Variable, day: date) -> tuple[datetime, datetime]:
    """The hours of a day in UTC, from the first to just before the second result.

    Instants are those from 00:00 on; a total, mean or extreme of an hour has the time of its end, 01:00 to 24:00.
    """
    start = datetime.combine(day, time(), tzinfo=UTC)
    if variable.step_type != "instant":
        start += timedelta(hours=1)
    return start, start + timedelta(days=1)


def read_day(
    connection: psycopg.Connection[Any], variable: Variable, day: date, statistic: MapStatistic, area: Area | None
) -> CellValues:
    """A statistic of the hours of a day in UTC, at each location of an area.

    Raises:
        NoDataError: if there is no table.
    """
    start, end = hours_of_day(variable, day)
    query = sql.SQL(read_sql("cells_of_hours")).format(
        aggregate=sql.SQL(_AGGREGATES[statistic]), column=value_of(variable.column)
    )
    with table_required():
        return _read(connection, query, {"start": start, "end": end}, area)


def read_part(
    connection: psycopg.Connection[Any],
    variable: Variable,
    part: YearPart,
    year: int,
    statistic: MapStatistic,
    area: Area | None,
) -> CellValues:
    """A statistic of a part of a year, from monthly summaries, at each location of an area.

    Raises:
        NoDataError: if the database has no summaries, or none of the variable.
    """
    return _together(
        (_read_month(connection, variable, start, statistic, area) for start in part.starts(year)), statistic
    )


def _read_month(
    connection: psycopg.Connection[Any],
    variable: Variable,
    start: date,
    statistic: MapStatistic,
    area: Area | None,
) -> CellValues:
    query = sql.SQL(read_sql("cells_of_month")).format(
        column=sql.Identifier(f"{variable.column}_{statistic}"),
        hours=sql.Identifier(f"{variable.column}_{'sum_hours' if statistic == 'sum' else 'hours'}"),
    )
    try:
        return _read(connection, query, {"month": start}, area)
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        raise NoDataError(
            f"the database has no monthly summaries of {variable.column}: its months were loaded without them",
            remedy="Compute them from the hours: era5 db summaries.",
        ) from None


def _together(months: Iterable[CellValues], statistic: MapStatistic) -> CellValues:
    """The statistic of all hours of several months.

    Put together here: grouping a year of the globe on the server takes twice as long as reading its months.
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
                # The mean of all hours is that of the months' means by their hours.
                values[at] += added * month.hours
            case "sum":
                values[at] += added
            case "min":
                values[at] = np.minimum(values[at], added)
            case "max":
                values[at] = np.maximum(values[at], added)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = values / hours if statistic == "mean" else values
    return CellValues(ids, np.where(hours > 0, values, np.nan), hours)


def spread(
    values: npt.NDArray[Number], ids: npt.NDArray[np.int32], among: npt.NDArray[np.int32], fill: float
) -> npt.NDArray[Number]:
    """Put values (m,) at ids (m,) among others (n,), all ascending; `fill` at these."""
    if ids.size == among.size:
        return values
    filled = np.full(among.size, fill, dtype=values.dtype)
    filled[np.searchsorted(among, ids)] = values
    return filled


def _read(
    connection: psycopg.Connection[Any], cells: sql.Composed, parameters: dict[str, Any], area: Area | None
) -> CellValues:
    query = sql.SQL(read_sql("packed_cells")).format(cells=cells)
    with connection.cursor(binary=True) as cursor:
        # Not prepared: the plan needs the months, to leave out the partitions of others.
        row = cursor.execute(
            query, {**parameters, **rectangle_parameters(area or EVERYWHERE)}, prepare=False
        ).fetchone()
    assert row is not None  # noqa: S101  # an aggregate without GROUP BY has a row
    ids, values, hours = (
        np.frombuffer(packed or b"", dtype=stored).astype(kind)
        for packed, stored, kind in zip(row, (">i4", ">f8", ">i4"), ("i4", "f8", "i4"), strict=True)
    )
    order = np.argsort(ids, kind="stable")
    return CellValues(ids[order], values[order], hours[order])
