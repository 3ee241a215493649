"""Query results as numpy arrays, packed by the server or row by row; an empty table is a `NotLoadedError`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.dataset import ERA5, Dataset, load_command
from era5_pipeline.model.derived_variables import DERIVED
from era5_pipeline.model.errors import NotLoadedError
from era5_pipeline.model.times import POSTGRES_EPOCH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt


def fetch_array(
    connection: psycopg.Connection[Any],
    query: sql.Composed,
    parameters: Mapping[str, object],
    dtype: np.dtype[np.void],
) -> npt.NDArray[np.void]:
    """All rows, (n,), of a query whose columns are numbers without NULL and in the order of `dtype`."""
    # Binary numbers, read straight into the array: a global map (a million rows) adds 0.6 s to the server's own time.
    # COPY sends each row in a separate block, and takes four times as long to read in Python.
    with table_required(), connection.cursor(binary=True) as cursor:
        cursor.execute(query, parameters)
        return np.fromiter(cursor, dtype=dtype, count=cursor.rowcount)


# --- Values packed by the server: all of a column as one value of bytes, each number in PostgreSQL's binary form ---
#
# A row for each number would take a message of the server, and a Python object, each.


_MICROSECONDS = 1_000_000


def packed(column: str) -> sql.Composed:
    """The expression that packs all values of a real column, `f4` of `fetch_packed`; NULL becomes NaN."""
    return sql.SQL("string_agg(float4send(coalesce({}, 'NaN')), '')").format(value_of(column))


def fetch_packed(
    connection: psycopg.Connection[Any],
    query: sql.Composed,
    parameters: Mapping[str, object],
    kinds: Sequence[str],
) -> list[npt.NDArray[Any]]:
    """The packed columns of the one row of a query, each (n,) and big-endian; `kinds` are their types, such as `f4`.

    No value at all (NULL) is an empty array.
    """
    with connection.cursor(binary=True) as cursor:
        # Not prepared: the plan must know the parameters, to exclude other months.
        row = cursor.execute(query, parameters, prepare=False).fetchone()
    assert row is not None  # noqa: S101  # an aggregate without GROUP BY has a row
    return [np.frombuffer(data or b"", dtype=f">{kind}") for data, kind in zip(row, kinds, strict=True)]


def since_1970(times: npt.NDArray[np.int64], seconds: int) -> npt.NDArray[np.int64]:
    """Packed times (n,) as whole numbers since 1970, in units of `seconds`."""
    found: npt.NDArray[np.int64] = times // (_MICROSECONDS * seconds)
    found += POSTGRES_EPOCH_SECONDS // seconds
    return found


def value_of(column: str) -> sql.Composable:
    """The expression for a column of the table, or for a derived one."""
    derived = DERIVED.get(column)
    if derived is None:
        return sql.Identifier(column)
    eastward, northward = map(sql.Identifier, derived.parts)
    return sql.SQL("({})").format(sql.SQL(derived.formula).format(u=eastward, v=northward))


@contextmanager
def table_required(dataset: Dataset = ERA5) -> Iterator[None]:
    """Raise `NotLoadedError` instead of `UndefinedTable`."""
    try:
        yield
    except psycopg.errors.UndefinedTable:
        raise nothing_loaded(dataset) from None


def nothing_loaded(dataset: Dataset = ERA5) -> NotLoadedError:
    """The error for a table without rows."""
    return NotLoadedError(
        f"the table {dataset.table} is empty: no month has been loaded yet",
        remedy=f"Load a month first: {load_command(dataset)} --from 2023-01.",
    )
