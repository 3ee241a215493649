"""Query results as numpy arrays; an empty table is a `NoDataError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.errors import NoDataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

# The instant from which PostgreSQL counts microseconds, 2000-01-01 00:00 UTC, in seconds since 1970.
_POSTGRES_EPOCH = 946_684_800


def fetch_array(
    connection: psycopg.Connection[Any],
    query: sql.Composed,
    parameters: Mapping[str, object],
    dtype: np.dtype[np.void],
) -> npt.NDArray[np.void]:
    """All rows, (n,), of a query whose columns are numbers without NULL and in the order of `dtype`.

    Raises:
        NoDataError: if there is no table.
    """
    # Binary numbers, read straight into the array: a global map (a million rows) takes 0.6 s in addition to the
    # server's own time. COPY sends each row in a block of its own, and takes four times as long to read in Python.
    with table_required(), connection.cursor(binary=True) as cursor:
        cursor.execute(query, parameters)
        return np.fromiter(cursor, dtype=dtype, count=cursor.rowcount)


def packed(column: str) -> sql.Composed:
    """The expression for all values of a column of reals, as `fetch_packed` reads them; NULL is NaN."""
    return sql.SQL("string_agg(float4send(coalesce({}, 'NaN')), '')").format(sql.Identifier(column))


def fetch_packed(
    connection: psycopg.Connection[Any], query: sql.Composed, parameters: Mapping[str, object]
) -> tuple[npt.NDArray[np.datetime64], list[npt.NDArray[np.float32]]]:
    """Times (n,), ascending, in UTC, and values (n,) of each column, of a query such as `sql/series.sql`.

    The query gives one row: the times packed by `timestamptz_send`, then the columns, each as `packed` makes it. All
    have the same order.

    Raises:
        NoDataError: if there is no table.
    """
    with table_required(), connection.cursor(binary=True) as cursor:
        row = cursor.execute(query, parameters, prepare=False).fetchone()
    assert row is not None  # noqa: S101  # an aggregate without GROUP BY has a row
    times = np.frombuffer(row[0] or b"", dtype=">i8")
    values = [np.frombuffer(column or b"", dtype=">f4") for column in row[1:]]
    assert all(column.size == times.size for column in values)  # noqa: S101  # NaN stands for NULL
    order = slice(None) if (np.diff(times) > 0).all() else np.argsort(times, kind="stable")
    seconds = (times[order] // 1_000_000 + _POSTGRES_EPOCH).astype("datetime64[s]")
    return seconds, [column[order].astype(np.float32) for column in values]


@contextmanager
def table_required() -> Iterator[None]:
    """Raise `NoDataError` instead of `UndefinedTable`."""
    try:
        yield
    except psycopg.errors.UndefinedTable:
        raise nothing_loaded() from None


def nothing_loaded() -> NoDataError:
    """The error for a table without rows."""
    return NoDataError(
        "the table weather is empty: no month has been loaded yet",
        remedy="Load a month first: era5 load --from 2023-01.",
    )
