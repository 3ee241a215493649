"""Values of a piece of the table, all columns together, as the server packs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql

from era5_pipeline.model.hours import SECONDS_PER_HOUR, time_of
from era5_pipeline.query.fetch import table_required
from era5_pipeline.query.packed_hours import packed
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.query.api.boxes.grid_window import GridWindow

    Values = dict[str, npt.NDArray[np.float32]]

_MICROSECONDS_PER_HOUR = SECONDS_PER_HOUR * 1_000_000
# Hours from 1970 to 2000, from where PostgreSQL counts.
_POSTGRES_EPOCH_HOUR = 946_684_800 // SECONDS_PER_HOUR
# A statement for all latitudes reads what lies between them, too: at most so many locations for each one wanted.
_READ_PER_WANTED = 1.5
# What the server sends at a time is in memory several times, in its form and in ours: latitudes are read one by one
# rather than in more than so many values.
_MOST_VALUES = 1_500_000


def read_piece(
    connection: psycopg.Connection[Any],
    columns: Sequence[str],
    hours: range,
    window: GridWindow,
    held: LocationSet | None,
) -> Values:
    """The values (latitudes, longitudes, hours) of each column, NaN for NULL or no row.

    `held` are the locations that the table has rows of (None: not known).

    Raises:
        NoDataError: if there is no table.
    """
    size = (window.rows, window.columns, len(hours))
    values = {column: np.full(size, np.nan, dtype=np.float32) for column in columns}
    for part in _parts(window, held, max(_MOST_VALUES // (len(hours) * len(columns) * window.columns), 1)):
        _fill(connection, hours, part, window, values)
    return values


def _parts(window: GridWindow, held: LocationSet | None, most_rows: int) -> list[GridWindow]:
    """The window as rectangles of at most `most_rows` latitudes, between whose first and last location is little else.

    Rows of the table that are not wanted would be read, and filtered out one by one.
    """
    first, last = window.ids
    between = last - first + 1 if held is None else held.count_between(first, last)
    step = most_rows if between <= _READ_PER_WANTED * window.rows * window.columns else 1
    return [
        window.part(range(row, min(row + step, window.rows)), range(window.columns))
        for row in range(0, window.rows, step)
    ]


def _fill(
    connection: psycopg.Connection[Any], hours: range, part: GridWindow, window: GridWindow, values: Values
) -> None:
    """Write the values of a part of the window into `values`."""
    parameters = {"start": time_of(hours.start), "end": time_of(hours.stop), **part.parameters}
    query = sql.SQL(read_sql("export_rows")).format(columns=sql.SQL(", ").join(map(packed, values)))
    with table_required(), connection.cursor(binary=True) as cursor:
        row = cursor.execute(query, parameters, prepare=False).fetchone()
    assert row is not None  # noqa: S101  # an aggregate without GROUP BY has a row
    ids = np.frombuffer(row[0] or b"", dtype=">i4")
    if not ids.size:
        return
    rows, columns = window.positions(ids)
    at = np.frombuffer(row[1], dtype=">i8") // _MICROSECONDS_PER_HOUR + (_POSTGRES_EPOCH_HOUR - hours.start)
    at += (rows * window.columns + columns) * len(hours)
    for target, found in zip(values.values(), row[2:], strict=True):
        target.reshape(-1)[at] = np.frombuffer(found, dtype=">f4")
