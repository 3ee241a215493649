"""A month's rows as batches of the columnstore, and what batches read back from the server hold.

Arrow batches come in, tuples of a binary COPY go out, location by location. Some locations are held back: those with
the extremes of each column, the first with a NULL in it, and the last one. The server compresses these itself, which
shows whether it makes the same batches (`batch_load`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from era5_pipeline.flat.flat_month import FLAT_FORM
from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.flat.statistics import digest_text, hour_weights, location_weights
from era5_pipeline.model.grid import ERA5_GRID, Grid
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import POSTGRES_EPOCH_SECONDS, hours_of_month
from era5_pipeline.warehouse.binary_copy import CopyData
from era5_pipeline.warehouse.layouts import batch_codec as codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from era5_pipeline.model.location_set import LocationSet

    Floats = npt.NDArray[np.float32]
    # A location is held back for the column's "minimum", "maximum" or first "NULL", or as the "last" one.
    Role = tuple[str, int]

# Rows that are encoded in one step: 3 MB of six variables, a few milliseconds.
_BLOCK_ROWS = 1 << 17
# From 1970, as in Arrow, to 2000, as in PostgreSQL.
_EPOCH_MICROSECONDS = POSTGRES_EPOCH_SECONDS * 1_000_000
_HOUR_MICROSECONDS = 3_600_000_000


class BatchError(Exception):
    """Batches cannot be written or read: the message says why, for a note to the user."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of the flat month: times in microseconds since 2000, and the bits of float4.

    `values` has the shape (columns, rows); `valid` too, or (columns, 0) if no value is NULL.
    """

    times: npt.NDArray[np.int64]
    location_ids: npt.NDArray[np.int32]
    latitudes: npt.NDArray[np.uint32]
    longitudes: npt.NDArray[np.uint32]
    values: npt.NDArray[np.uint32]
    valid: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return self.times.size

    @property
    def location_id(self) -> int:
        """The location of rows that are all of one."""
        return int(self.location_ids[0])

    @classmethod
    def joined(cls, batches: Iterable[pa.RecordBatch]) -> Rows:
        """Join batches with the columns of a flat file."""
        table = pa.Table.from_batches(list(batches))
        columns = range(len(KEYS), table.num_columns)
        values = np.empty((len(columns), table.num_rows), dtype=np.uint32)
        has_nulls = any(table.column(number).null_count for number in columns)
        valid = np.ones((len(columns), table.num_rows if has_nulls else 0), dtype=np.bool_)
        for row, number in enumerate(columns):
            column = table.column(number)
            np.concatenate([_floats(chunk).view(np.uint32) for chunk in column.chunks], out=values[row])
            if column.null_count:
                valid[row] = column.is_valid().to_numpy()
        times, ids, latitudes, longitudes = (table.column(name) for name in KEYS)
        return cls(
            np.concatenate([chunk.view(pa.int64()).to_numpy() for chunk in times.chunks]) - _EPOCH_MICROSECONDS,
            _copied(ids),
            _copied(latitudes).view(np.uint32),
            _copied(longitudes).view(np.uint32),
            values,
            valid,
        )

    def copy_of(self, start: int, end: int) -> Rows:
        """Copy these rows, so that the others need not be kept."""
        part = slice(start, end)
        return Rows(
            self.times[part].copy(),
            self.location_ids[part].copy(),
            self.latitudes[part].copy(),
            self.longitudes[part].copy(),
            self.values[:, part].copy(),
            self.valid[:, part].copy(),
        )

    def room(self, batches: int) -> npt.NDArray[np.uint8]:
        """Make room for what `encode` makes of these rows."""
        return np.empty(codec.most_bytes(batches, len(self), len(self.values)), dtype=np.uint8)

    def encode(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
    ) -> memoryview:
        """Make a tuple of each batch of rows, from its start to its end, in `out`."""
        if starts.size and int((ends - starts).max()) > codec.BATCH_ROWS:
            raise BatchError(f"a location has more than {codec.BATCH_ROWS} rows")
        rows = (self.times, self.location_ids, self.latitudes, self.longitudes, self.values, self.valid)
        size = codec.encode(*rows, starts, ends, out)
        return out[:size].data

    def tuple(self) -> bytes:
        """Make the tuple of these rows, which are of one location."""
        return bytes(self.encode(np.array([0]), np.array([len(self)]), self.room(1)))

    def to_arrow(self, columns: Iterable[str]) -> pa.RecordBatch:
        """Convert to the Arrow batch of a flat file with these columns; `joined` is the inverse."""
        valid = self.valid if self.valid.size else np.ones(self.values.shape, dtype=np.bool_)
        return pa.record_batch(
            [
                pa.array(self.times + _EPOCH_MICROSECONDS).view(pa.timestamp("us", tz="UTC")),
                pa.array(self.location_ids),
                pa.array(self.latitudes.view(np.float32)),
                pa.array(self.longitudes.view(np.float32)),
                *(
                    pa.array(values.view(np.float32), mask=~present)
                    for values, present in zip(self.values, valid, strict=True)
                ),
            ],
            schema=schema_of(columns),
        )


def _copied(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of a column without NULL.

    Copied even if they are one chunk, because numba would compile another function for arrays that are read-only.
    """
    return np.concatenate([chunk.to_numpy() for chunk in column.chunks])


def _floats(chunk: pa.Array) -> Floats:
    floats: Floats = chunk.fill_null(np.float32("nan")).to_numpy() if chunk.null_count else chunk.to_numpy()
    return floats


class MonthEncoder:
    """Encodes the rows of a flat month, and holds some locations back.

    `first` is the first location, which is not encoded either; None: there are no rows.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._blocks = _blocks(batches)
        self._held: dict[Role, Rows] = {}
        self._extremes: dict[Role, float] = {}
        self._block = next(self._blocks, None)
        self.first = None if self._block is None else self._block.copy_of(0, int(_ends(self._block)[0]))

    @property
    def held(self) -> list[Rows]:
        """The locations that are held back so far, by their ids."""
        by_id = {rows.location_id: rows for rows in self._held.values()}
        return [by_id[number] for number in sorted(by_id)]

    def tuples(self) -> Iterator[tuple[memoryview, int]]:
        """Yield the tuples of the other locations, valid until the next ones, and how many rows they hold."""
        room = np.empty(0, dtype=np.uint8)
        while self._block is not None:
            block, ends = self._block, _ends(self._block)
            starts = np.concatenate([[0], ends[:-1]])
            for rows in self._hold_back(block, starts, ends):
                yield memoryview(rows.tuple()), len(rows)
            apart = [rows.location_id for rows in self.held]
            if self.first is not None:
                apart.append(self.first.location_id)
            is_sent = ~np.isin(block.location_ids[starts], apart)
            if room.size < codec.most_bytes(starts.size, len(block), len(block.values)):
                room = block.room(starts.size)
            yield block.encode(starts[is_sent], ends[is_sent], room), int((ends - starts)[is_sent].sum())
            self._block = next(self._blocks, None)

    def _hold_back(self, block: Rows, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[Rows]:
        """Choose which locations are held back; return those that no longer are."""
        before = self.held
        chosen = {("last", 0): block.times.size - 1}
        for column, bits in enumerate(block.values):
            values = bits.view(np.float32)
            if block.valid.size:
                if ("NULL", column) not in self._held and not block.valid[column].all():
                    chosen["NULL", column] = int(block.valid[column].argmin())
                values = np.where(block.valid[column], values, np.float32("nan"))
                if not block.valid[column].any():
                    continue
            for name, sign in (("minimum", 1.0), ("maximum", -1.0)):
                extreme = sign * float(np.nanmin(values) if sign > 0 else np.nanmax(values))
                if extreme < self._extremes.get((name, column), np.inf):
                    self._extremes[name, column] = extreme
                    chosen[name, column] = int(np.nanargmin(values) if sign > 0 else np.nanargmax(values))
        for role, row in chosen.items():
            number = int(np.searchsorted(ends, row, side="right"))
            rows = block.copy_of(int(starts[number]), int(ends[number]))
            if self.first is not None and rows.location_id == self.first.location_id:
                self._held.pop(role, None)
            else:
                self._held[role] = rows
        after = {rows.location_id for rows in self.held}
        return [rows for rows in before if rows.location_id not in after]


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """Join batches to blocks of whole locations."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _BLOCK_ROWS:
            table = pa.Table.from_batches(waiting)
            ids = table.column("location_id").to_numpy()
            others = np.flatnonzero(ids != ids[-1])
            if others.size:
                end = int(others[-1]) + 1
                yield Rows.joined(table.slice(0, end).to_batches())
                waiting = table.slice(end).to_batches()
    if waiting:
        yield Rows.joined(waiting)


def _ends(rows: Rows) -> npt.NDArray[np.int64]:
    """The end of each location's rows."""
    return np.append(np.flatnonzero(rows.location_ids[1:] != rows.location_ids[:-1]) + 1, len(rows))


def load_compiled() -> None:
    """Load the functions that encode and decode batches, which the first call would do otherwise."""
    integers, bits = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint32)
    valid = np.empty((1, 0), dtype=np.bool_)
    rows = Rows(integers, np.zeros(1, dtype=np.int32), bits, bits, bits.reshape(1, 1).copy(), valid)
    reader = BatchReader(Month(2000, 1), ["temperature_2m"], ERA5_GRID)
    reader.add(CopyData.HEADER + rows.tuple())
    with suppress(BatchError):  # the batch is of no location
        reader.finish()


@dataclass(frozen=True)
class HeldColumn:
    """The values of one column in all batches: their count, and digest (the same as in `ColumnFacts`)."""

    column: str
    values: int
    digest: str


class BatchReader:
    """Reads the batches of a month back from a binary COPY, checks each, and sums up what they hold."""

    def __init__(self, month: Month, columns: Iterable[str], grid: Grid) -> None:
        self._grid = grid
        hours = np.array(hours_of_month(month), dtype=np.int64)
        self._columns = tuple(columns)
        self._start = int(hours[0]) * _HOUR_MICROSECONDS - _EPOCH_MICROSECONDS
        self._hour_weights = hour_weights(hours)
        self._seen = np.zeros(grid.locations + 1, dtype=np.bool_)
        self._sums = np.zeros(len(self._columns), dtype=np.uint64)
        self._counts = np.zeros(len(self._columns), dtype=np.int64)
        self._rows = np.zeros(1, dtype=np.int64)
        self._data = bytearray()
        self._is_begun = False

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Read the next bytes of the COPY."""
        self._data += data
        if len(self._data) >= _READ_BYTES:
            self._decode()

    def finish(self) -> None:
        """Read to the end of the COPY."""
        self._decode()
        if bytes(self._data) != CopyData.TRAILER:
            raise BatchError("the batches end in the middle of one")

    def _decode(self) -> None:
        if not self._is_begun:
            if not self._data.startswith(CopyData.HEADER):
                raise BatchError("the server does not send a binary COPY")
            del self._data[: len(CopyData.HEADER)]
            self._is_begun = True
        problem = np.zeros(3, dtype=np.int64)
        read = codec.decode(
            np.frombuffer(self._data, dtype=np.uint8),
            len(self._data),
            self._start,
            self._hour_weights,
            _weights_of(self._grid),
            _bits_of(self._grid),
            self._seen,
            self._sums,
            self._counts,
            self._rows,
            problem,
        )
        if read == codec.DAMAGED:
            raise BatchError(self._described(*problem.tolist()))
        del self._data[:read]

    def _described(self, location: int, reason: int, column: int) -> str:
        where = "a batch" if location < 0 else f"the batch of location {location}"
        if reason == codec.WRONG_VALUES:
            return f"{where}: its values of {self._columns[column]} cannot be read"
        return f"{where} {_REASONS[reason]}"

    @property
    def rows(self) -> int:
        """The number of rows read so far."""
        return int(self._rows[0])

    def has_exactly(self, locations: LocationSet) -> bool:
        """Return True if there was a batch for each of these locations, and for no other."""
        wanted = np.zeros_like(self._seen)
        wanted[locations.ids()] = True
        return bool(np.array_equal(wanted, self._seen))

    @property
    def columns(self) -> tuple[HeldColumn, ...]:
        """The count and digest of the values read so far, for each column."""
        return tuple(
            HeldColumn(column, int(values), digest_text(FLAT_FORM + int(digest)))
            for column, values, digest in zip(self._columns, self._counts, self._sums, strict=True)
        )


_READ_BYTES = 1 << 22
_REASONS = {
    codec.UNREADABLE: "has fields of other lengths",
    codec.WRONG_TIMES: "has times that are not hours of the month, in order, or other first and last times",
    codec.WRONG_PLACE: "has another place than its location's",
    codec.TWICE: "is there twice",
}


@cache
def _weights_of(grid: Grid) -> npt.NDArray[np.uint64]:
    return location_weights(np.arange(grid.locations + 1))


@cache
def _bits_of(grid: Grid) -> npt.NDArray[np.uint32]:
    """The bits of the grid's latitudes and longitudes, (2, columns)."""
    degrees = np.zeros((2, grid.columns), dtype=np.float32)
    degrees[0, : grid.rows] = grid.latitudes_of(np.arange(grid.rows))
    degrees[1] = grid.longitudes_of(np.arange(grid.columns))
    return degrees.view(np.uint32)
