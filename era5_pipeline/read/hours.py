"""Hours of one location: as numpy arrays, read as packed columns, and as a pandas table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.postgres.dataset_connection import connect_for, dataset_of
from era5_pipeline.read.fetch import fetch_packed, packed, since_1970, table_required
from era5_pipeline.read.fields import Series
from era5_pipeline.read.held import ledger_rows, require_columns
from era5_pipeline.read.missing import no_series
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy.typing as npt
    import pandas as pd

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable

    Hours = tuple[npt.NDArray[np.datetime64], dict[str, npt.NDArray[np.float32]]]

# --- Hours of one location, read as fast as the server can: one packed value per column, long ranges in two halves ---
#
# Reading row by row takes twice the server's own time again in Python, and a new session spends two fifths of its time
# on planning for a thousand chunks (docs/performance.md). So the columns come packed, and for many months a second
# session reads the earlier half at the same time.


# The server packs 85 years of this many columns in 100 MB.
_COLUMNS_AT_ONCE = 32
# For fewer months than this, opening a second session takes longer than it saves.
_MONTHS_FOR_TWO = 240
_SHORTEST_MONTH = timedelta(days=28)
# Query plans that cost more for a thousand chunks than they gain here, where the server knows the setting; `jit`
# compiles the expressions of each chunk, which takes longer than the query.
_SETTINGS = {
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "timescaledb.enable_chunkwise_aggregation": "off",
}


def read_hours(
    connection: psycopg.Connection[Any],
    location_id: int,
    columns: Sequence[str],
    start: datetime | None,
    end: datetime | None,
) -> Hours:
    """Read times (n,), ascending, in UTC, and values (n,) by column, with `start <= time < end`; n may be 0.

    The connection is in autocommit mode. Each month is read in one transaction.
    """
    middle = _middle_month(connection, start, end)
    if middle is None:
        return read_packed(connection, location_id, columns, start, end)
    sessions: list[psycopg.Connection[Any]] = []
    with ThreadPoolExecutor(1) as pool:
        earlier = pool.submit(_read_aside, connection, sessions, location_id, columns, start, middle)
        try:
            later = read_packed(connection, location_id, columns, middle, end)
        except BaseException:
            # An interrupt must not wait for the other half.
            for session in sessions:
                session.cancel_safe()
            raise
    first = earlier.result()
    if first is None:
        first = read_packed(connection, location_id, columns, start, middle)
    times = np.concatenate([first[0], later[0]])
    return times, {column: np.concatenate([first[1][column], later[1][column]]) for column in columns}


def _middle_month(connection: psycopg.Connection[Any], start: datetime | None, end: datetime | None) -> datetime | None:
    """The start of the month that halves the range; None if there are too few months, or the ledger cannot be read."""
    if start is not None and end is not None and end - start < _MONTHS_FOR_TWO * _SHORTEST_MONTH:
        return None
    rows = ledger_rows(connection, "middle_month", {"start": start, "end": end})
    return next((middle for months, middle in rows if months >= _MONTHS_FOR_TWO), None)


def _read_aside(
    connection: psycopg.Connection[Any],
    sessions: list[psycopg.Connection[Any]],
    location_id: int,
    columns: Sequence[str],
    start: datetime | None,
    end: datetime | None,
) -> Hours | None:
    """Read the hours in a second session like `connection`, added to `sessions`; None if it is refused or fails."""
    parameters = connection.info.get_parameters()
    if connection.info.password:
        parameters["password"] = connection.info.password
    # Without the first session's settings it may not find the table, or not be allowed to read it.
    with (
        suppress(psycopg.Error, NoDataError),
        connect_for(dataset_of(connection), make_conninfo(**parameters), autocommit=True) as second,
    ):
        sessions.append(second)
        return read_packed(second, location_id, columns, start, end)
    return None


@lru_cache(256)
def _statement(dataset: Dataset, columns: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(read_sql("series", dataset)).format(columns=sql.SQL(", ").join(map(packed, columns)))


def prepare_for_reading(connection: psycopg.Connection[Any]) -> None:
    """Apply to a kept session, once, the settings that `read_packed` otherwise applies in each transaction."""
    _set_settings(connection, lasting=True)


def _set_settings(connection: psycopg.Connection[Any], *, lasting: bool) -> None:
    connection.execute(
        "SELECT set_config(name, value, %s) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value) "
        "WHERE current_setting(name, true) IS NOT NULL",
        (not lasting, list(_SETTINGS), list(_SETTINGS.values())),
    )


def read_packed(
    connection: psycopg.Connection[Any],
    location_id: int,
    columns: Sequence[str],
    start: datetime | None,
    end: datetime | None,
    *,
    is_prepared: bool = False,
) -> Hours:
    """Read the hours in this session alone; otherwise as `read_hours`.

    `is_prepared`: `prepare_for_reading` was called; a few columns are then one statement, without a transaction.
    """
    parameters = {"location_id": location_id, "start": start, "end": end}
    groups = [columns[first : first + _COLUMNS_AT_ONCE] for first in range(0, len(columns), _COLUMNS_AT_ONCE)]
    values: dict[str, npt.NDArray[np.float32]] = {}
    needs_transaction = len(groups) > 1 or not is_prepared
    with (
        table_required(dataset_of(connection)),
        connection.transaction() if needs_transaction else nullcontext(),
    ):
        if len(groups) > 1:  # all groups must see the same rows
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if not is_prepared:
            _set_settings(connection, lasting=False)
        for group in groups:
            query = _statement(dataset_of(connection), tuple(group))
            times, *found = fetch_packed(connection, query, parameters, ("i8", *["f4"] * len(group)))
            assert all(column.size == times.size for column in found)  # noqa: S101  # NaN stands for NULL
            order = slice(None) if (np.diff(times) > 0).all() else np.argsort(times, kind="stable")
            values |= {name: column[order].astype(np.float32) for name, column in zip(group, found, strict=True)}
    return since_1970(times[order], 1).astype("datetime64[s]"), values


def read_series(
    connection: psycopg.Connection[Any],
    location: Location,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> Series:
    """Read the rows of a location with `start <= time < end` (aware; None: unlimited); `columns` None: all.

    The connection is in autocommit mode.
    """
    require_columns(connection, columns or ())
    columns = columns or variables_in_table(connection)
    names = [variable.column for variable in columns]
    times, values = read_hours(connection, location.location_id, names, start, end)
    if not times.size:
        raise no_series(connection, location, start, end)
    return Series(times, values)


def read_place_hours(
    connection: psycopg.Connection[Any],
    location: Location,
    columns: tuple[Variable, ...],
    start: datetime | None,
    end: datetime | None,
) -> pd.DataFrame:
    """Read the hours of a location with `start <= time < end` (aware; None: unlimited), as `read_series` does.

    The index `time` is in UTC and ascends, to the second. Each variable is a float32 column, with the table's name and
    unit; NULL is NaN. Hours without a row are left out.
    """
    import pandas as pd  # noqa: PLC0415  # takes half a second; plots and lists of hours do not need it

    series = read_series(connection, location, columns, start, end)
    index = pd.DatetimeIndex(series.times, tz="UTC", name="time")
    return pd.DataFrame(dict(series.values), index=index, copy=False)
