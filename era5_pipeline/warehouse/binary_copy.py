"""Encode columns as PostgreSQL's binary COPY: by `pgpq`, or by numpy where that is not installed.

pgpq has no wheel for Linux on arm64. Measured on 2026-11-27 with six variables, CPU time a row: without NULL 160 ns by
pgpq and 135 ns by numpy, with NULL in a third of all values 175 and 345 ns. A server takes 500 ns or more.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from era5_pipeline.model.times import POSTGRES_EPOCH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CopyData:
    """The parts of a binary COPY beside its tuples."""

    HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    TRAILER = b"\xff\xff"


# By the type of a column: that of its values as they are sent, and what is subtracted from them.
_SENT: Final = {
    pa.timestamp("us", tz="UTC"): ("i8", POSTGRES_EPOCH_SECONDS * 1_000_000),
    pa.date32(): ("i4", POSTGRES_EPOCH_SECONDS // 86_400),
    pa.int16(): ("i2", 0),
    pa.int32(): ("i4", 0),
    pa.float32(): ("f4", 0),
    pa.float64(): ("f8", 0),
}
_NULL_LENGTH = -1
HAS_PGPQ = find_spec("pgpq") is not None


def binary_copy(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encode the batches, which have this schema, as the data of `COPY ... FROM STDIN (FORMAT binary)`."""
    if HAS_PGPQ:
        import pgpq  # noqa: PLC0415  # not on every system

        by_pgpq = pgpq.ArrowToPostgresBinaryEncoder(schema)
        yield by_pgpq.write_header()
        for batch in batches:
            yield by_pgpq.write_batch(batch)
        yield by_pgpq.finish()
    else:
        encoder = _RowEncoder(schema)
        yield CopyData.HEADER
        for batch in batches:
            yield encoder.encoded(batch)
        yield CopyData.TRAILER


class _RowEncoder:
    """Encodes rows of columns of fixed width; each is as long as with all values, until those that are NULL are cut."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [_SENT[field.type] for field in schema]
        fields = [("fields", ">i2")]
        for number, (kind, _) in enumerate(self._columns):
            fields += [(f"length{number}", ">i4"), (f"value{number}", f">{kind}")]
        self._row = np.dtype(fields)

    def encoded(self, batch: pa.RecordBatch) -> bytes:
        """The rows of the batch."""
        rows = np.empty(batch.num_rows, self._row)
        rows["fields"] = len(self._columns)
        # All fields have an even number of bytes, so rows are cut by pairs of bytes.
        pairs = rows.view(np.uint16).reshape(rows.size, self._row.itemsize // 2)
        is_sent = None
        end = 2
        for number, ((kind, zero), column) in enumerate(zip(self._columns, batch.columns, strict=True)):
            size = np.dtype(kind).itemsize
            start, end = end + 4, end + 4 + size
            # What is in the buffer at a NULL is sent to nobody.
            values = np.frombuffer(column.buffers()[1] or b"", kind)[column.offset : column.offset + rows.size]
            rows[f"value{number}"] = values - zero if zero else values
            if column.null_count == 0:
                rows[f"length{number}"] = size
                continue
            is_there = column.is_valid().to_numpy(zero_copy_only=False)
            rows[f"length{number}"] = np.where(is_there, size, _NULL_LENGTH)
            if is_sent is None:
                is_sent = np.ones(pairs.shape, bool)
            is_sent[:, start // 2 : end // 2] = is_there[:, np.newaxis]
        return (rows if is_sent is None else pairs[is_sent]).tobytes()
