"""Expressions for columns, and query results as numpy arrays; an empty table is a `NoDataError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.derived_variables import DERIVED
from era5_pipeline.model.errors import NoDataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt


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
    # Binary numbers, read straight into the array: a global map (a million rows) adds 0.6 s to the server's own time.
    # COPY sends each row in a separate block, and takes four times as long to read in Python.
    with table_required(), connection.cursor(binary=True) as cursor:
        cursor.execute(query, parameters)
        return np.fromiter(cursor, dtype=dtype, count=cursor.rowcount)


def value_of(column: str) -> sql.Composable:
    """The expression for a column of the table, or for a derived one."""
    derived = DERIVED.get(column)
    if derived is None:
        return sql.Identifier(column)
    eastward, northward = map(sql.Identifier, derived.parts)
    return sql.SQL("({})").format(sql.SQL(derived.formula).format(u=eastward, v=northward))


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
