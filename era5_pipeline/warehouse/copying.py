"""Flat files into a table by COPY: binary from Parquet, text from CSV.

Binary COPY from a columnar source takes the server 95 % of the way to what it can do, 10 times what row-by-row COPY
reached; `pgpq` encodes 24 million rows/s, the server takes 2. So reading and encoding the next group hide behind it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pgpq
import pyarrow.parquet as pq
from psycopg import sql

from era5_pipeline import progress
from era5_pipeline.errors import BadFileError
from era5_pipeline.formats import COLUMNS, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from era5_pipeline.facts import FlatMonth

# Rows encoded at a time: 5 MB of COPY data, which stay in a core's cache.
_BATCH_ROWS = 65_536
_CSV_BYTES = 1 << 20


def copy_flat(flat: FlatMonth, connection: psycopg.Connection[Any], table: sql.Identifier, *, freeze: bool) -> int:
    """COPY the flat month's rows into `table`; gives the rows that the server took.

    Raises:
        BadFileError: if the flat file is damaged.
        psycopg.Error: whatever the server says.
    """
    options = [sql.SQL("FORMAT binary" if flat.format == "parquet" else "FORMAT csv, HEADER true")]
    if freeze:
        options.append(sql.SQL("FREEZE true"))
    statement = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(
        table, sql.SQL(", ").join(map(sql.Identifier, COLUMNS)), sql.SQL(", ").join(options)
    )
    chunks = _binary(flat) if flat.format == "parquet" else _csv(flat)
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for chunk in chunks:
                copy.write(chunk)
        return cursor.rowcount


def _binary(flat: FlatMonth) -> Iterator[bytes]:
    encoder = pgpq.ArrowToPostgresBinaryEncoder(SCHEMA)
    yield encoder.write_header()
    done = 0
    for batch in _batches(flat):
        yield encoder.write_batch(batch)
        done += batch.num_rows
        progress.report("load", done, flat.rows, "rows")
    yield encoder.finish()


def _batches(flat: FlatMonth) -> Iterator[Any]:
    """Record batches of the Parquet file; the next row group is read while the server takes this one."""
    try:
        with pq.ParquetFile(flat.path) as file, ThreadPoolExecutor(max_workers=1) as reader:
            ahead = reader.submit(file.read_row_group, 0) if file.num_row_groups else None
            for group in range(1, file.num_row_groups + 1):
                if ahead is None:
                    break
                table = ahead.result()
                ahead = reader.submit(file.read_row_group, group) if group < file.num_row_groups else None
                # One batch list a group: a column that is all NULL reads back as float32 NULLs, as in the schema.
                yield from table.cast(SCHEMA).to_batches(max_chunksize=_BATCH_ROWS)
    except (OSError, ValueError) as error:
        raise _damaged(flat, error) from error


def _csv(flat: FlatMonth) -> Iterator[bytes]:
    sent = 0
    try:
        with flat.path.open("rb") as file:
            while chunk := file.read(_CSV_BYTES):
                yield chunk
                sent += len(chunk)
                progress.report("load", round(flat.rows * sent / flat.bytes), flat.rows, "rows")
    except OSError as error:
        raise _damaged(flat, error) from error


def _damaged(flat: FlatMonth, error: Exception) -> BadFileError:
    return BadFileError(flat.path, f"is damaged ({error})", remedy="Run the month again with --force.")
