"""Cutting an export into pieces that are read and written one after another, and files into chunks.

A piece is hours x latitudes x longitudes, of all columns, and at most some tens of megabytes as the server sends it.
Rows of the table are location by location, so that a piece has as many hours of a location as it can: those of a month,
or of many months of few locations. Chunks of files (netCDF, Zarr) fill pieces exactly, so that none is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.hours import hours_of_month, time_of
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the server sends of a piece.
PIECE_BYTES = 24_000_000
_HOURS_OF_MONTH = 744
# As the server sends it, a row is its location and time, and then 4 bytes for each column.
_KEY_BYTES = 12
_DAY = 24
# Values of a chunk: 2 MB.
_CHUNK_VALUES = 1 << 19


@dataclass(frozen=True)
class ExportPiece:
    """A part of the box: its hours, and which latitudes from the north and longitudes from the west."""

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

    `chunk` are hours, latitudes and longitudes of a chunk; the first piece's corner is a chunk's, and each piece holds
    whole chunks, except at the far ends of the box.
    """

    hours: range
    rows: int
    columns: int
    slabs: tuple[range, ...]
    row_step: int
    column_step: int
    chunk: tuple[int, int, int]

    def pieces(self) -> Iterator[ExportPiece]:
        """The pieces: slabs of time in their order, in each from north to south, in each row from west to east."""
        for slab in self.slabs:
            for row in range(0, self.rows, self.row_step):
                rows = range(row, min(row + self.row_step, self.rows))
                for column in range(0, self.columns, self.column_step):
                    yield ExportPiece(slab, rows, range(column, min(column + self.column_step, self.columns)))


def cut(
    hours: range, rows: int, columns: int, variables: int, most_bytes: int = PIECE_BYTES, chunk_days: int = 1
) -> Cut:
    """Cut a box (none of the sizes is 0) of so many variables into pieces that the server sends in `most_bytes`.

    Where pieces are months, chunks are of `chunk_days`; with one day, the pieces of a box that begins at 00:00 are
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
    """Hours, latitudes and longitudes of a chunk: whole days, except where the box has fewer hours."""
    days_of = max(most_hours // _DAY, 1)
    few_rows = min(rows, max(_CHUNK_VALUES // (_DAY * columns), 1))
    days = max(min(_CHUNK_VALUES // (_DAY * few_rows * columns), days_of), 1)
    return min(days * _DAY, all_hours), few_rows, columns


def _months(hours: range, chunk_hours: int) -> tuple[range, ...]:
    """The hours by months, as nearly as whole chunks allow."""
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
