"""Values of one column in a box (hours, latitudes, longitudes), read packed, in pieces of bounded size."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.hours import SECONDS_PER_HOUR, hour_of, time_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.query.fetch import table_required, value_of
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import numpy.typing as npt

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.query.api.boxes.grid_window import GridWindow

# Values of a statement: 64 MB of the server, which packs 16 bytes of each; and where two sessions take turns.
_MOST_VALUES = 4_000_000
_MOST_VALUES_BESIDE = 1_000_000
_MICROSECONDS_PER_HOUR = SECONDS_PER_HOUR * 1_000_000
# Hours from 1970 to 2000, from where PostgreSQL counts.
_POSTGRES_EPOCH_HOUR = 946_684_800 // SECONDS_PER_HOUR
# Boxes that are read at once, however many threads Dask has: each has a connection, and memory of the server.
_AT_ONCE = threading.BoundedSemaphore(4)


def read_box(
    warehouse: Warehouse, column: str, hours: range, window: GridWindow, *, by_two: bool = False
) -> npt.NDArray[np.float32]:
    """The values (hours, rows, columns) of the table in its unit; NaN for NULL or no row.

    Opens a connection of its own, so that it can be called by any thread or process that reaches the server; `by_two`,
    for a box that is read alone: a second one for a large box, if the server lets it.

    Raises:
        NoDataError: if there is no table.
        Era5Error: otherwise as `Warehouse.connect` and `server_errors` say.
    """
    values = np.full((len(hours), window.rows, window.columns), np.nan, dtype=np.float32)
    if not values.size:
        return values
    by_two = by_two and values.size > _MOST_VALUES_BESIDE
    waiting = deque(_pieces(*values.shape, _MOST_VALUES_BESIDE if by_two else _MOST_VALUES))

    def fill_from(connection: psycopg.Connection[Any]) -> None:
        while waiting:
            with suppress(IndexError):  # another thread took the last
                some_hours, rows = waiting.popleft()
                own_hours = slice(some_hours.start, some_hours.stop)
                piece = window.part(rows, range(window.columns))
                _fill(connection, column, hours[own_hours], piece, values[own_hours], rows.start)

    with _AT_ONCE, warehouse.connect() as connection, server_errors("reading a box"), connection.transaction():
        # All pieces are of one state of the table, and compiling expressions takes longer than the query.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute("SET LOCAL jit = off")
        with _beside(warehouse, connection) if by_two else nullcontext() as second, ThreadPoolExecutor(1) as pool:
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
def _beside(warehouse: Warehouse, connection: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any] | None]:
    """A second session in the same state of the table; then neither has workers of the server. None if it is refused.

    Two sessions are faster than one with workers, which would pack the values again to hand them over.
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
    """Hours and rows of pieces of at most so many values: bands of latitudes; if one is too much, of hours."""
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
    query = sql.SQL(read_sql("box")).format(column=value_of(column))
    with table_required(), connection.cursor(binary=True) as cursor:
        row = cursor.execute(query, parameters, prepare=False).fetchone()
    assert row is not None  # noqa: S101  # an aggregate without GROUP BY has a row
    ids, times, found = (
        np.frombuffer(packed or b"", dtype=kind) for packed, kind in zip(row, (">i4", ">i8", ">f4"), strict=True)
    )
    _, all_rows, columns = target.shape
    # Rows of the table are location-major, so that places are looked up once for many hours.
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: ids.size])
    place_rows, place_columns = window.positions(ids[starts])
    at = times.astype(np.int64)
    at //= _MICROSECONDS_PER_HOUR
    at += _POSTGRES_EPOCH_HOUR - hours.start
    at *= all_rows * columns
    at += np.repeat((first_row + place_rows) * columns + place_columns, np.diff(starts, append=ids.size))
    target.reshape(-1)[at] = found


def hour_range(start: datetime, end: datetime) -> range:
    """The full hours with `start <= hour < end` (aware)."""
    return range(-(-int(start.timestamp()) // SECONDS_PER_HOUR), max(hour_of(end), hour_of(start)))
