"""Boxes of hours, latitudes and longitudes: their axes, their contents in the table, and their values."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.derived_variables import holds, stored_columns
from era5_pipeline.model.errors import Era5Error, NoDataError
from era5_pipeline.model.land_mask import points_of
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.model.months import Month, month_range, spans
from era5_pipeline.model.times import SECONDS_PER_HOUR, hour_of, time_of
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.read.fetch import fetch_packed, since_1970, table_required, value_of
from era5_pipeline.read.fields import hour_field
from era5_pipeline.read.held import (
    FEWEST_HOURS,
    everywhere,
    locations_at,
    months_held,
    places_held,
    require_columns,
    some_row,
    span_held,
)
from era5_pipeline.read.missing import alike, explain_absence, explain_missing_column, no_location, no_rows
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.read.fields import Field

_SHOWN_SPANS = 6


@dataclass(frozen=True)
class BoxContents:
    """The values that the table holds for a box, and the missing ones.

    `start` and `end` are those requested, or else those of the months held. `missing_months` are, by column, the months
    in which no place of the box has the column; `incomplete_months` are missing hours or values somewhere in the box.
    `points` counts the grid points of the box at which the data set has values, `points_held` those of them that the
    table holds. `left_out` names single hours that were
    ignored in choosing the area or the time, where these were left open.
    """

    window: GridWindow
    area: Area
    variables: tuple[Variable, ...]
    start: datetime
    end: datetime
    missing_months: dict[str, tuple[Month, ...]]
    incomplete_months: tuple[Month, ...]
    points: int
    points_held: int
    left_out: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Sentences that say what is missing."""
        lines = []
        for months, columns in alike(self.missing_months):
            what = "data" if len(columns) == len(self.variables) else ", ".join(columns)
            lines.append(f"no {what} for {spans(months, shown=_SHOWN_SPANS)}")
        if self.incomplete_months:
            lines.append(f"hours or values are missing in {spans(self.incomplete_months, shown=_SHOWN_SPANS)}")
        if self.points_held < self.points:
            absent = self.points - self.points_held
            lines.append(f"no data at {absent:,} of {self.points:,} grid points of {self.area}")
        return [*lines, *self.left_out]


def read_box_contents(
    connection: psycopg.Connection[Any],
    area: Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> BoxContents:
    """Read what the table holds of an area with `start <= time < end` (aware; None: unlimited).

    Without an area, it is the smallest that holds all places with any of the columns in that time. Places and months
    with single hours only do not widen an area or a time that is left open, unless there are no others.
    """
    dataset, held_anywhere = dataset_of(connection), places_held(connection)
    if not held_anywhere:
        some_row(connection)  # raises if the table is empty
        raise NoDataError(
            "the ledger of this database cannot be read, so it is not known which places the table holds",
            remedy="Ask for one place or one hour, or let the owner run: era5 db init --roles.",
        )
    first_month, last_month = Month.of(start) if start else None, Month.before(end) if end else None
    between, with_days = _places_between(connection, first_month, last_month, columns)
    left_out = []
    if area is None and with_days and with_days != between:
        left_out.append(
            f"left out: {len(between - with_days):,} places with single hours only (give an area to include them)"
        )
        between = with_days
    held_anywhere = between or held_anywhere
    asked = LocationSet.of_area(area) if area else held_anywhere
    there = asked & held_anywhere
    if area and not there:
        raise no_location(area, held_anywhere)
    months = months_held(connection, there)
    span = span_held(connection, there)
    if span and (apart := span.apart_between(start, end)):
        left_out.append(apart)
        start, end = start or span.first.start, end or span.last.end
        first_month, last_month = Month.of(start), Month.before(end)
    within = {month: held for month, held in months.items() if (start is None or month.end > start)}
    within = {month: held for month, held in within.items() if (end is None or month.start < end)}
    variables = columns or dataset.catalogue.in_table_order({column for held in within.values() for column in held})
    if not within or not any(holds(held, variable) for variable in variables for held in within.values()):
        why = (
            explain_missing_column(connection, variables, within, None)
            if within
            else explain_absence(months, start, end, dataset)
        )
        what = ", ".join(variable.column for variable in variables) or "row"
        where = f"in {area} " if area else ""
        raise NoDataError(
            f"the table has no {what} {where}at that time; {why.instead.removeprefix('; ')}",
            remedy=why.remedy,
        )
    if end is not None:  # hours in the future are not missing
        end = min(end, max(datetime.now(UTC).replace(minute=0, second=0, microsecond=0), max(months).end))
        last_month = Month.before(end)
    first, last = first_month or min(months), last_month or max(months)
    lacking = {
        variable.column: tuple(
            month for month in month_range(first, last) if not holds(within.get(month, ()), variable)
        )
        for variable in variables
    }
    hull = area or held_anywhere.hull
    parameters = {"first": first.start.date(), "last": last.start.date(), "location_ids": there.multirange}
    incomplete = connection.execute(read_sql("incomplete_months", dataset), parameters).fetchall()
    return BoxContents(
        window=GridWindow.of_area(hull),
        area=hull,
        variables=variables,
        start=start or first.start,
        end=end or last.end,
        missing_months={column: found for column, found in lacking.items() if found},
        incomplete_months=tuple(Month(day.year, day.month) for (day,) in incomplete),
        points=len(points_of(dataset, hull)),
        points_held=len(there),
        left_out=tuple(left_out),
    )


def _places_between(
    connection: psycopg.Connection[Any], first: Month | None, last: Month | None, columns: tuple[Variable, ...] | None
) -> tuple[LocationSet, LocationSet]:
    """The places held in these months with any of the columns: all, and those with more than single hours."""
    parameters = {
        "first": first.start.date() if first else None,
        "last": last.start.date() if last else None,
        "columns": list(stored_columns(one.column for one in columns)) if columns else None,
        "fewest_hours": FEWEST_HOURS,
    }
    dataset = dataset_of(connection)
    found = connection.execute(read_sql("places_between", dataset), parameters).fetchone() or ()
    of_all, with_days = (LocationSet.of_ranges(ranges, dataset.grid) for ranges in found)
    return of_all, with_days


def read_field(
    connection: psycopg.Connection[Any], time: datetime, variable: Variable, area: Area | None = None
) -> Field:
    """One variable at the hour `time` (aware), in `area`, or at all locations of the table.

    The connection is in autocommit mode.
    """
    require_columns(connection, (variable,))
    within = area or everywhere(connection)
    rows = locations_at(connection, time, variable.column, within)
    if not rows.size:
        when = f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        raise no_rows(connection, time, time + timedelta(hours=1), area, when, "that hour")
    return hour_field(time, variable, rows["location_id"], rows["value"], within.grid)


# The most values that one statement reads (the server takes 16 bytes for each: 64 MB), alone and with a second session.
_MOST_VALUES = 4_000_000
_MOST_VALUES_BESIDE = 1_000_000
# Boxes read at the same time, however many threads Dask has: each takes a connection, and memory on the server.
_AT_ONCE = threading.BoundedSemaphore(4)


def read_box(
    warehouse: Warehouse, column: str, hours: range, window: GridWindow, *, by_two: bool = False
) -> npt.NDArray[np.float32]:
    """The values (hours, rows, columns) of the table in its unit; NaN for NULL or no row.

    Opens its own connection, so that any thread or process that reaches the server can call it. With `by_two`, for a
    box that is read alone, a large box gets a second connection, if the server allows one.
    """
    values = np.full((len(hours), window.rows, window.columns), np.nan, dtype=np.float32)
    if not values.size:
        return values
    by_two = by_two and values.size > _MOST_VALUES_BESIDE
    waiting = deque(_pieces(*values.shape, _MOST_VALUES_BESIDE if by_two else _MOST_VALUES))

    def fill_from(connection: psycopg.Connection[Any]) -> None:
        while waiting:
            with suppress(IndexError):  # the other thread took the last piece
                some_hours, rows = waiting.popleft()
                own_hours = slice(some_hours.start, some_hours.stop)
                piece = window.part(rows, range(window.columns))
                _fill(connection, column, hours[own_hours], piece, values[own_hours], rows.start)

    with _AT_ONCE, warehouse.connect() as connection, server_errors("reading a box"), connection.transaction():
        # All pieces must be of one state of the table; compiling expressions takes longer than the query.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL jit = off")
        with (
            _open_second_session(warehouse, connection) if by_two else nullcontext() as second,
            ThreadPoolExecutor(1) as pool,
        ):
            aside = pool.submit(fill_from, second) if second else None
            try:
                fill_from(connection)
            except BaseException:
                # An interrupt must not wait for the other session.
                waiting.clear()
                if second:
                    second.cancel_safe()
                raise
            if aside:
                aside.result()
    return values


@contextmanager
def _open_second_session(
    warehouse: Warehouse, connection: psycopg.Connection[Any]
) -> Iterator[psycopg.Connection[Any] | None]:
    """Open a second session on the same snapshot, without parallel workers in either; yield None if it is refused.

    Two sessions are faster than one with workers, which would have to pack the values again to pass them on.
    """
    with ExitStack() as stack:
        second: psycopg.Connection[Any] | None = None
        with suppress(Era5Error, psycopg.Error):
            row = connection.execute("SELECT pg_export_snapshot()").fetchone()
            other = stack.enter_context(warehouse.connect())
            stack.enter_context(other.transaction())
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            other.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(row[0] if row else "")))
            for session in (other, connection):
                session.execute("SET LOCAL max_parallel_workers_per_gather = 0")
            other.execute("SET LOCAL jit = off")
            second = other
        yield second


def _pieces(hours: int, rows: int, columns: int, most: int) -> Iterator[tuple[range, range]]:
    """Split a box into hours and rows of at most `most` values: bands of latitudes; if one is too large, of hours."""
    row_step = min(max(most // (hours * columns), 1), rows)
    hour_step = min(max(most // (row_step * columns), 1), hours)
    for row in range(0, rows, row_step):
        for hour in range(0, hours, hour_step):
            yield range(hour, min(hour + hour_step, hours)), range(row, min(row + row_step, rows))


def _fill(
    connection: psycopg.Connection[Any],
    column: str,
    hours: range,
    window: GridWindow,
    target: npt.NDArray[np.float32],
    first_row: int,
) -> None:
    """Write the values of a piece into the contiguous `target` (hours, all rows, columns), from `first_row` on."""
    parameters = {"start": time_of(hours.start), "end": time_of(hours.stop), **window.parameters}
    query = sql.SQL(read_sql("box", dataset_of(connection))).format(column=value_of(column))
    with table_required(dataset_of(connection)):
        ids, times, found = fetch_packed(connection, query, parameters, ("i4", "i8", "f4"))
    _, all_rows, columns = target.shape
    # Rows come sorted by location, so each place is looked up only once.
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: ids.size])
    place_rows, place_columns = window.positions(ids[starts])
    at = since_1970(times, SECONDS_PER_HOUR)
    at -= hours.start
    at *= all_rows * columns
    at += np.repeat((first_row + place_rows) * columns + place_columns, np.diff(starts, append=ids.size))
    target.reshape(-1)[at] = found


def hour_range(start: datetime, end: datetime) -> range:
    """The full hours with `start <= hour < end` (aware)."""
    return range(-(-int(start.timestamp()) // SECONDS_PER_HOUR), max(hour_of(end), hour_of(start)))
