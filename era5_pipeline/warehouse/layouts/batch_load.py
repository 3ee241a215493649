"""Load a month into the columnstore as finished batches, which the server only stores.

The server believes what is written into a chunk's table of batches. So a few locations go through the server first and
last, and its batches of them must be the same bytes as ours; and before the commit all batches are read back, and must
hold what the flat month holds, to the bit. Whatever is not as expected, the rows are sent instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.binary_copy import CopyData, binary_copy
from era5_pipeline.warehouse.layouts.batch_codec import BATCH_COLUMNS
from era5_pipeline.warehouse.layouts.batches import BatchError, BatchReader, MonthEncoder
from era5_pipeline.warehouse.layouts.columnstore import apply_settings
from era5_pipeline.warehouse.layouts.hypertable import chunks_of
from era5_pipeline.warehouse.layouts.layout import WEATHER, locations_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.batches import Rows

# The versions of TimescaleDB whose batches the tests have compared with ours (docs/decisions.md).
TESTED_VERSIONS = frozenset({"2.28", "2.29", "2.30.0-dev"})
# From 2.31 times may be compressed in another way, which batches of ours do not have.
_SETTINGS = {"enable_aic_compression": "off"}
# 1: has batches; 8: has rows beside them. Others (unordered batches, a frozen chunk) are for the server to load.
_KNOWN_STATUS = frozenset({1, 9})
_COMPRESSED = "_timescaledb_internal.compressed_data"
_TIME = "timestamp with time zone"
_KEY_COLUMNS = {
    *("_ts_meta_count integer", "location_id integer", "latitude real", "longitude real", f"time {_COMPRESSED}"),
    *(f"{name} {_TIME}" for name in BATCH_COLUMNS if name.startswith("_ts_meta") and name != "_ts_meta_count"),
}
# Columns of others may mean anything, so their months are loaded as rows.
_VALUE_COLUMNS = {f"{column} {_COMPRESSED}" for column in BY_COLUMN}


@dataclass(frozen=True)
class BatchTable:
    """A chunk, and its table of batches."""

    name: sql.Identifier
    chunk: sql.Identifier


def load_batches(
    connection: psycopg.Connection[Any],
    flat: FlatMonth,
    batches: Iterable[pa.RecordBatch],
    *,
    locations: LocationSet | None,
    on_rows: Callable[[int], None],
) -> int:
    """Load the month as batches within the caller's transaction, and read them back; return the number of rows.

    Old rows are deleted already: those of `locations`, or of the whole month (None). After a `BatchError`, which is
    raised if anything is not as expected, the caller must roll back, and load rows.
    """
    apply_settings(connection, _SETTINGS)
    encoder = MonthEncoder(batches)
    if encoder.first is None:
        raise BatchError("there are no rows")
    copy_rows(connection, flat.column_names, [encoder.first])
    table = batch_table(connection, flat.month)
    require_same(connection, table, flat.column_names, [encoder.first])
    rows = len(encoder.first)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        table.name, _names((*BATCH_COLUMNS, *flat.column_names))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(CopyData.HEADER)
        for tuples, count in encoder.tuples():
            copy.write(tuples)
            on_rows(count)
            rows += count
        copy.write(CopyData.TRAILER)
    copy_rows(connection, flat.column_names, encoder.held)
    require_same(connection, table, flat.column_names, encoder.held)
    rows += sum(map(len, encoder.held))
    grid = flat.location_ids.grid
    _require_equal(read_batches(connection, table, flat.month, flat.column_names, locations, grid), flat)
    # ONLY: the rows beside the batches.
    beside = sql.SQL("SELECT 1 FROM ONLY {} WHERE {} LIMIT 1").format(table.chunk, _of(locations))
    if connection.execute(beside).fetchone() is not None:
        raise BatchError("its chunk has rows that were inserted beside its batches")
    return rows


def why_untested(connection: psycopg.Connection[Any]) -> str | None:
    """Return None if batches of the server's TimescaleDB are known to be the same as ours, else the reason."""
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchone()
    version = str(row[0] if row else "?")
    if {version, version.rpartition(".")[0]} & TESTED_VERSIONS:
        return None
    compared = ", ".join(sorted(TESTED_VERSIONS))
    return f"TimescaleDB {version} is not among those whose batches were compared ({compared})"


def read_batches(
    connection: psycopg.Connection[Any],
    table: BatchTable,
    month: Month,
    columns: Sequence[str],
    locations: LocationSet | None,
    grid: Grid,
) -> BatchReader:
    """Read the batches of the month, or of these locations, as the transaction sees them."""
    reader = BatchReader(month, columns, grid)
    with connection.cursor() as cursor, cursor.copy(_copied_out(table, columns, _of(locations))) as copy:
        for data in copy:
            reader.add(data)
    reader.finish()
    return reader


def batch_table(connection: psycopg.Connection[Any], month: Month) -> BatchTable:
    """Find the month's table of batches."""
    chunks = chunks_of(connection, month)
    if len(chunks) != 1:
        raise BatchError(f"the month has {len(chunks)} chunks")
    row = connection.execute(read_sql("batch_table"), {"chunk": chunks[0].as_string(connection)}).fetchone()
    if row is None:
        raise BatchError("its chunk is gone")
    schema, name, status, columns, segment_by, order_by, descends, starts, ends, obstacles = row
    if obstacles:
        raise BatchError(f"batches would pass by {obstacles}")
    if name is None:
        raise BatchError("its chunk has no batches")
    if (starts, ends) != (month.start, month.end):
        raise BatchError("its chunk is not that of the month")
    if status not in _KNOWN_STATUS:
        raise BatchError(f"its chunk has the status {status}")
    if (segment_by, order_by, descends) != ("location_id,latitude,longitude", "time", False):
        raise BatchError(f"its batches are by {segment_by}, in the order of {order_by}{' DESC' if descends else ''}")
    if unknown := sorted({*columns} - _KEY_COLUMNS - _VALUE_COLUMNS):
        raise BatchError(f"its table of batches has unknown columns: {', '.join(unknown)}")
    if missing := sorted(_KEY_COLUMNS - {*columns}):
        raise BatchError(f"its table of batches lacks columns: {', '.join(missing)}")
    return BatchTable(sql.Identifier(schema, name), chunks[0])


def copy_rows(connection: psycopg.Connection[Any], columns: Sequence[str], locations: Iterable[Rows]) -> None:
    """Send rows with these columns, for the server to compress."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)")
    with (
        connection.cursor() as cursor,
        cursor.copy(statement.format(WEATHER, _names((*KEYS, *columns)))) as copy,
    ):
        for chunk in binary_copy(schema_of(columns), (rows.to_arrow(columns) for rows in locations)):
            copy.write(chunk)


def require_same(
    connection: psycopg.Connection[Any], table: BatchTable, columns: Sequence[str], locations: Iterable[Rows]
) -> None:
    """Require that the server made the same batches of these locations as we do."""
    ours = {rows.location_id: rows.tuple() for rows in locations}
    theirs: dict[int, bytes] = {}
    for made in batches_of(connection, table, columns, list(ours)):
        location = int.from_bytes(made[14:18], "big")
        if location in theirs:
            raise BatchError(f"the server makes several batches of location {location}")
        theirs[location] = made
    for location, own in ours.items():
        if theirs.get(location) != own:
            raise BatchError(f"the server makes another batch of location {location}")


def batches_of(
    connection: psycopg.Connection[Any], table: BatchTable, columns: Sequence[str], location_ids: list[int]
) -> list[bytes]:
    """Read the batches of these locations, as tuples of a binary COPY."""
    where = sql.SQL("location_id = ANY({})").format(sql.Literal(location_ids))
    with connection.cursor() as cursor, cursor.copy(_copied_out(table, columns, where)) as copy:
        return list(_split(b"".join(bytes(part) for part in copy)))


def _split(data: bytes) -> Iterator[bytes]:
    """Split a binary COPY into its tuples."""
    at = len(CopyData.HEADER)
    while data[at : at + 2] != CopyData.TRAILER:
        start, fields, at = at, int.from_bytes(data[at : at + 2], "big"), at + 2
        for _ in range(fields):
            at += 4 + max(0, int.from_bytes(data[at : at + 4], "big", signed=True))
        yield data[start:at]


def _require_equal(reader: BatchReader, flat: FlatMonth) -> None:
    """Require that the batches that were read back hold exactly what the flat month holds."""
    if reader.rows != flat.rows or not reader.has_exactly(flat.location_ids):
        raise BatchError(f"{reader.rows} rows were read back, of {flat.rows}")
    for held, facts in zip(reader.columns, flat.columns, strict=True):
        if (held.values, held.digest) != (facts.values, facts.digest):
            raise BatchError(f"other values of {facts.column} were read back")


def _copied_out(table: BatchTable, columns: Sequence[str], where: sql.Composable) -> sql.Composed:
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT binary)").format(
        _names((*BATCH_COLUMNS, *columns)), table.name, where
    )


def _of(locations: LocationSet | None) -> sql.Composable:
    return sql.SQL("true") if locations is None else locations_where(locations)


def _names(columns: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
