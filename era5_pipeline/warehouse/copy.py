"""Copy flat files into a table: Parquet by binary COPY, CSV by text COPY.

Binary COPY from a columnar source is nearly as fast as the server can accept rows, and ten times as fast as COPY row by
row (`era5 bench run limit`), because columns are encoded at far more rows a second. A background thread reads the file.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import sql

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.runtime.compiled import pays_off
from era5_pipeline.runtime.prefetch import Prefetched
from era5_pipeline.warehouse.binary_copy import binary_copy
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, LocationSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatFile, FlatMonth
    from era5_pipeline.model.location_set import LocationSet

    # Shape (row groups, 3): first location, last location and row count.
    Groups = npt.NDArray[np.int64]

# Rows per encoding step. A step takes a millisecond, during which the socket's buffer keeps the server supplied. The
# batches read ahead cover the time to read a page of the file; a column has one page per quarter of a million rows.
_BATCH_ROWS = 16_384
_BATCHES_AHEAD = 32
_ROWS_PER_REPORT = 65_536
_SEND_BUFFER_BYTES = 1 << 22  # the system may apply a lower limit
_CSV_BYTES = 1 << 20
# Smaller shares are not worth their own connection.
_SHARE_ROWS = 50_000
_LOCATION_ID = KEYS.index("location_id")
# Seconds a value: a load stage of six variables takes 0.16 us a row instead of 0.61 (`era5 bench run limit`).
_SAVED_BY_BATCHES = 75e-9
# The server does not take batches: its tables are others, or the user may not write into them.
_REFUSED = (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError, psycopg.NotSupportedError)


class _StoppedError(Exception):
    """Stop: another connection's share of the month has failed."""


class FlatCopy:
    """Copies a flat month into a table (a `CopyInto`); must be closed.

    Reading the file starts at once, for each of the `spans`. `on_rows` is called from time to time with the number of
    rows sent since the last call; an exception in it ends the COPY.
    """

    def __init__(
        self,
        flat: FlatMonth,
        spans: tuple[LocationSpan, ...] = (EVERYWHERE,),
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._flat = flat
        self._on_rows = on_rows
        self._stopped = threading.Event()
        is_binary = flat.format == "parquet"
        self._options = ["FORMAT binary"] if is_binary else ["FORMAT csv", "HEADER true"]
        self._spans = spans if is_binary else ()
        self._batches = self._reading()

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """COPY the rows of the locations in `span` into `table`; return the number of accepted rows."""
        options = [*self._options, *(["FREEZE true"] if freeze else [])]
        columns = (*KEYS, *self._flat.column_names)
        statement = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(
            table, sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.SQL, options))
        )
        schema = schema_of(self._flat.column_names)
        chunks = binary_copy(schema, self._reported(self._batches[span])) if self._batches else self._csv()
        _enlarge_send_buffer(connection)
        with connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for chunk in chunks:
                    copy.write(chunk)
            return cursor.rowcount

    @property
    def arrow(self) -> Iterable[pa.RecordBatch] | None:
        """The file's rows, which are read ahead already; None if it is no Parquet file."""
        return self._batches.get(EVERYWHERE)

    def restart(self) -> None:
        """Read the file again from its beginning."""
        self.close()
        self._batches = self._reading()

    def _reading(self) -> dict[LocationSpan, Prefetched[pa.RecordBatch]]:
        return {span: Prefetched(_batches(self._flat, span), _BATCHES_AHEAD) for span in self._spans}

    def stop(self) -> None:
        """Make every connection's COPY fail at its next rows."""
        self._stopped.set()

    def close(self) -> None:
        """Stop reading the file."""
        for batches in self._batches.values():
            batches.close()

    def _reported(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unreported = 0
        for batch in batches:
            yield batch
            unreported += batch.num_rows
            if unreported >= _ROWS_PER_REPORT:
                self._report(unreported)
                unreported = 0
        self._report(unreported)

    def _csv(self) -> Iterator[bytes]:
        sent = reported = 0
        try:
            with self._flat.path.open("rb") as file:
                while chunk := file.read(_CSV_BYTES):
                    yield chunk
                    sent += len(chunk)
                    rows = round(self._flat.rows * sent / self._flat.bytes)
                    self._report(rows - reported)
                    reported = rows
        except OSError as error:
            raise _damaged(self._flat, error) from error

    def _report(self, rows: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._on_rows(rows)


class BatchCopy:
    """Loads a flat month as finished batches, where the server takes them (an `AsBatches`).

    Afterwards, `is_read_back` says whether all batches were read back and hold what the flat month holds, or `reason`
    why its rows must be copied instead (None: this machine cannot make batches, or not in less time).
    """

    def __init__(self, copy: FlatCopy, flat: FlatMonth, on_rows: Callable[[int], None]) -> None:
        self._copy = copy
        self._flat = flat
        self._on_rows = on_rows
        self.is_read_back = False
        self.reason: str | None = None

    def __call__(self, connection: psycopg.Connection[Any], locations: LocationSet | None) -> int | None:
        """Load the month within a savepoint; return the number of rows, or None if they must be copied."""
        if self._copy.arrow is None or not pays_off(_SAVED_BY_BATCHES * self._flat.rows * len(self._flat.columns)):
            return None
        from era5_pipeline.warehouse.layouts import batch_load, batches  # noqa: PLC0415  # slow to import, optional

        sent = 0

        def on_rows(rows: int) -> None:
            nonlocal sent
            sent += rows
            self._on_rows(rows)

        try:
            self.reason = batch_load.why_untested(connection)
            if self.reason is not None:
                return None
            with connection.transaction():
                rows = batch_load.load_batches(
                    connection, self._flat, self._copy.arrow, locations=locations, on_rows=on_rows
                )
        except (batches.BatchError, *_REFUSED) as error:
            self.reason = " ".join(str(error).split())
            self._on_rows(-sent)
            self._copy.restart()
            return None
        self.is_read_back = True
        return rows


def _enlarge_send_buffer(connection: psycopg.Connection[Any]) -> None:
    """Enlarge a Unix socket's send buffer of 200 kB, to keep the server supplied during encoding.

    Measured in one run, relative to the rate at which the server reads a file of its own: 0.89 with the default, 0.96
    with 1 MB. TCP adapts its buffer by itself, unless a size is set.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as sending:
        if sending.family == socket.AF_UNIX:
            with suppress(OSError):  # more than macOS allows
                sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)


def location_spans(flat: FlatMonth, shares: int) -> tuple[LocationSpan, ...]:
    """Split the month's locations into up to `shares` spans with similar row counts; fewer if the month is small.

    A CSV file is one span: it has no index of its locations.
    """
    shares = min(shares, flat.rows // _SHARE_ROWS)
    if shares < 2 or flat.format != "parquet":
        return (EVERYWHERE,)
    try:
        groups = np.concatenate([_groups(pq.read_metadata(file.path)) for file in flat.row_files])
    except (OSError, ValueError) as error:
        raise _damaged(flat, error) from error
    return spans_of(groups, shares)


def spans_of(groups: Groups, shares: int) -> tuple[LocationSpan, ...]:
    """Split the locations of these row groups into up to `shares` spans with similar row counts."""
    first, last = groups[:, 0].min(), groups[:, 1].max()
    ids = np.arange(first, last + 1)
    # Assumes a group's rows are spread evenly over its locations, as row groups may share locations.
    cumulative_rows = np.zeros(ids.size)
    for low, high, rows in groups:
        cumulative_rows += rows * np.clip((ids - low + 1) / (high - low + 1), 0.0, 1.0)
    wanted = cumulative_rows[-1] * np.arange(1, shares) / shares
    bounds = np.unique(ids[np.searchsorted(cumulative_rows, wanted)] + 1)
    ends = [int(bound) for bound in bounds if bound <= last]
    return tuple(LocationSpan(*span) for span in zip([None, *ends], [*ends, None], strict=True))


def _groups(metadata: pq.FileMetaData) -> Groups:
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(_LOCATION_ID).statistics
        found.append((statistics.min, statistics.max, group.num_rows))
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _batches(flat: FlatMonth, span: LocationSpan) -> Iterator[pa.RecordBatch]:
    for file in flat.row_files:
        yield from _batches_of_file(file, flat.column_names, span)


def _batches_of_file(row_file: FlatFile, columns: tuple[str, ...], span: LocationSpan) -> Iterator[pa.RecordBatch]:
    try:
        # Without pre_buffer, which keeps every row group read in memory: 2.6 GB for a global month.
        with pq.ParquetFile(row_file.path, pre_buffer=False) as file:
            if not file.schema_arrow.equals(schema_of(columns)):
                raise ValueError(f"its columns are {', '.join(file.schema_arrow.names)}")  # noqa: TRY301
            for batch in file.iter_batches(
                batch_size=_BATCH_ROWS,
                row_groups=_groups_within(file.metadata, span),
                use_threads=False,  # one thread keeps up with the server; more would compete with it for CPU
            ):
                rows_within = _within(batch, span)
                if rows_within.num_rows:
                    yield rows_within
    except (OSError, ValueError) as error:
        raise _damaged(row_file, error) from error


def _groups_within(metadata: pq.FileMetaData, span: LocationSpan) -> list[int]:
    if span == EVERYWHERE:
        return list(range(metadata.num_row_groups))
    return [
        number
        for number, (low, high, _) in enumerate(_groups(metadata))
        if (span.end is None or low < span.end) and (span.first is None or high >= span.first)
    ]


def _within(batch: pa.RecordBatch, span: LocationSpan) -> pa.RecordBatch:
    if span.first is not None:
        batch = batch.filter(pc.greater_equal(batch.column(_LOCATION_ID), span.first))
    if span.end is not None:
        batch = batch.filter(pc.less(batch.column(_LOCATION_ID), span.end))
    return batch


def _damaged(file: FlatMonth | FlatFile, error: Exception) -> BadFileError:
    return BadFileError(file.path, f"is damaged ({error})", remedy="Run the month again with --force.")
