"""Cutting an export into pieces that are read and written one after another, and reading the values of a piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql

from era5_pipeline.model.months import Month
from era5_pipeline.model.times import SECONDS_PER_HOUR, hours_of_month, time_of
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.fetch import fetch_packed, packed, since_1970, table_required
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.location_set import GridWindow, LocationSet

    Values = dict[str, npt.NDArray[np.float32]]

# A piece is hours x latitudes x longitudes, with all columns, and at most some tens of megabytes as sent by the server.
# Rows of the table are sorted by location, so a piece has as many hours of a location as possible: those of one month,
# or of many months for few locations. Chunks of files (netCDF, Zarr) fill pieces exactly, so that none is written
# twice.


# Bytes that the server sends for a piece.
PIECE_BYTES = 24_000_000
_HOURS_OF_MONTH = 744
# The server sends a row as location, time, and 4 bytes for each column.
_KEY_BYTES = 12
_DAY = 24
# Values of a chunk: 2 MB.
_CHUNK_VALUES = 1 << 19


@dataclass(frozen=True)
class ExportPiece:
    """A part of the box: its hours, its latitudes counted from the north, and its longitudes from the west."""

    hours: range
    rows: range
    columns: range

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of hours, latitudes and longitudes."""
        return len(self.hours), len(self.rows), len(self.columns)


@dataclass(frozen=True)
class Cut:
    """The pieces of a box of `hours` (since 1970), `rows` latitudes and `columns` longitudes.

    `chunk` is the hours, latitudes and longitudes of a chunk; the corner of the first piece is that of a chunk, and
    each piece holds whole chunks, except at the far ends of the box.
    """

    hours: range
    rows: int
    columns: int
    slabs: tuple[range, ...]
    row_step: int
    column_step: int
    chunk: tuple[int, int, int]

    def pieces(self) -> Iterator[ExportPiece]:
        """The pieces: by time, within that from north to south, then from west to east."""
        for slab in self.slabs:
            for row in range(0, self.rows, self.row_step):
                rows = range(row, min(row + self.row_step, self.rows))
                for column in range(0, self.columns, self.column_step):
                    yield ExportPiece(slab, rows, range(column, min(column + self.column_step, self.columns)))


def cut(
    hours: range, rows: int, columns: int, variables: int, most_bytes: int = PIECE_BYTES, chunk_days: int = 1
) -> Cut:
    """Cut a box (no size is 0) of `variables` variables into pieces that the server sends in `most_bytes`.

    Where pieces are months, chunks have `chunk_days`; with one day, the pieces of a box that begins at 00:00 are
    exactly months.
    """
    most = most_bytes // (_KEY_BYTES + 4 * variables)  # hours x locations
    whole = rows * columns
    if most // whole >= 2 * _HOURS_OF_MONTH:
        row_step, column_step = rows, columns
        chunk = _chunk(min(most // whole, len(hours)), len(hours), row_step, column_step)
        step = max(most // whole // chunk[0], 1) * chunk[0]
        slabs = tuple(hours[first : first + step] for first in range(0, len(hours), step))
        return Cut(hours, rows, columns, slabs, row_step, column_step, chunk)
    locations = max(most // _HOURS_OF_MONTH, 1)
    column_step = min(columns, locations)
    row_step = min(max(locations // column_step, 1), rows)
    chunk = _chunk(chunk_days * _DAY, len(hours), row_step, column_step)
    row_step = max(row_step // chunk[1], 1) * chunk[1]
    return Cut(hours, rows, columns, _months(hours, chunk[0]), row_step, column_step, chunk)


def _chunk(most_hours: int, all_hours: int, rows: int, columns: int) -> tuple[int, int, int]:
    """Hours, latitudes and longitudes of a chunk: whole days, unless the box has fewer hours."""
    days_of = max(most_hours // _DAY, 1)
    few_rows = min(rows, max(_CHUNK_VALUES // (_DAY * columns), 1))
    days = max(min(_CHUNK_VALUES // (_DAY * few_rows * columns), days_of), 1)
    return min(days * _DAY, all_hours), few_rows, columns


def _months(hours: range, chunk_hours: int) -> tuple[range, ...]:
    """The hours by months, as closely as whole chunks allow."""
    slabs, first = [], 0
    month = Month.of(time_of(hours.start))
    while first < len(hours):
        end = min(hours_of_month(month).stop - hours.start, len(hours))
        if end < len(hours):
            end -= end % chunk_hours
        if end > first:
            slabs.append(hours[first:end])
            first = end
        month = Month.from_number(month.number + 1)
    return tuple(slabs)


# A statement for all latitudes also reads the locations between them: at most this many for each one wanted.
_READ_PER_WANTED = 1.5
# The server's answer is in memory several times, in its form and in ours: beyond this many values, latitudes are read
# one by one.
_MOST_VALUES = 1_500_000


def read_piece(
    connection: psycopg.Connection[Any],
    columns: Sequence[str],
    hours: range,
    window: GridWindow,
    held: LocationSet | None,
) -> Values:
    """Read the values (latitudes, longitudes, hours) of each column, NaN for NULL or no row.

    `held` are the locations with rows in the table (None: unknown).
    """
    size = (window.rows, window.columns, len(hours))
    values = {column: np.full(size, np.nan, dtype=np.float32) for column in columns}
    for part in _parts(window, held, max(_MOST_VALUES // (len(hours) * len(columns) * window.columns), 1)):
        _fill(connection, hours, part, window, values)
    return values


def _parts(window: GridWindow, held: LocationSet | None, most_rows: int) -> list[GridWindow]:
    """The window as rectangles of at most `most_rows` latitudes, with few other locations between first and last.

    Rows of other locations would be read, and filtered out one by one.
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
    query = sql.SQL(read_sql("export_rows", dataset_of(connection))).format(
        columns=sql.SQL(", ").join(map(packed, values))
    )
    with table_required(dataset_of(connection)):
        ids, times, *found = fetch_packed(connection, query, parameters, ("i4", "i8", *["f4"] * len(values)))
    rows, columns = window.positions(ids)
    at = since_1970(times, SECONDS_PER_HOUR)
    at += (rows * window.columns + columns) * len(hours) - hours.start
    for target, of_column in zip(values.values(), found, strict=True):
        target.reshape(-1)[at] = of_column
