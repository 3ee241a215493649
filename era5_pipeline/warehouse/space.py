"""What the table `weather` takes on the server's disk: in all, and each month of it.

Here: asking the server, in a few queries however many chunks there are, and giving each month the chunks that it lies
in. Partitions of plain PostgreSQL are chunks here too. Not here: files under `ERA5_HOME`, or the words for all this
(`cli/status.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.schema import existing_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg

# Measuring a chunk waits for whoever has locked it for themselves, as VACUUM FULL does for long.
_LOCK_TIMEOUT = "2s"


@dataclass(frozen=True)
class Chunk:
    """A chunk or partition: from `start` to before `end`, in seconds since 1970, which may be infinite.

    Without them it is one that no month lies in. `bytes` are all: table, indexes, TOAST and columnstore.
    """

    start: float | None
    end: float | None
    bytes: int
    in_columnstore: bool


@dataclass(frozen=True)
class MonthSpace:
    """What a month takes: its rows by the ledger, how many chunks it lies in, and their bytes.

    `bytes` is None where one of these chunks holds another month too, or where there is none.
    """

    rows: int
    chunks: int
    bytes: int | None

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes a row; None where it cannot be said."""
        return _bytes_per_row(self.bytes, self.rows)

    @property
    def is_sharing(self) -> bool:
        """Whether one of its chunks holds another month too."""
        return self.chunks > 0 and self.bytes is None


@dataclass(frozen=True)
class Space:
    """What the table takes, with indexes, TOAST and columnstore; `layout` is None where there is no table.

    `rows` and `months` are those of the ledger. `bytes_before_columnstore` and `bytes_after_columnstore` are of the
    chunks that were converted to the columnstore after they had been loaded: of rows that were compressed on their way
    in, the server knows no size before; None where it knows of none.
    """

    layout: str | None = None
    chunks: int = 0
    chunks_in_columnstore: int = 0
    bytes: int = 0
    rows: int = 0
    bytes_before_columnstore: int | None = None
    bytes_after_columnstore: int | None = None
    months: Mapping[Month, MonthSpace] = field(default_factory=dict)

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes a row; None where it cannot be said."""
        return _bytes_per_row(self.bytes if self.chunks else None, self.rows)


def read_space(connection: psycopg.Connection[Any]) -> Space:
    """Measure the table. A user who may read the ledger may do this too; nothing is created.

    Raises:
        MonthLockedError: if a chunk is locked, by an ALTER TABLE or VACUUM FULL, for more than two seconds.
        ServerUnsuitableError: if `weather` is another table of that name.
        Era5Error: otherwise as `server_errors` says.
    """
    with server_errors("measuring the table weather"), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
        layout = existing_layout(connection)
        if layout is None:
            return Space()
        query = "space_partitions" if layout.name == MonthPartitions.name else "space_chunks"
        chunks = [Chunk(*row) for row in connection.execute(read_sql(query))]
        in_columnstore = sum(chunk.in_columnstore for chunk in chunks)
        before, after = _converted(connection) if in_columnstore else (None, None)
        rows = _rows_of_ledger(connection)
        return Space(
            layout=layout.name,
            chunks=len(chunks),
            chunks_in_columnstore=in_columnstore,
            # A hypertable's own indexes take some pages, although no row is in them.
            bytes=_own_bytes(connection) + sum(chunk.bytes for chunk in chunks),
            rows=sum(rows.values()),
            bytes_before_columnstore=before,
            bytes_after_columnstore=after,
            months=share_out(chunks, rows),
        )


def share_out(chunks: Iterable[Chunk], rows: Mapping[Month, int]) -> dict[Month, MonthSpace]:
    """Which chunks each of the months (with their rows) lies in, and what these take; in the order of months."""
    months = sorted(rows)
    starts = [month.start.timestamp() for month in months]
    ends = [month.end.timestamp() for month in months]
    count: dict[Month, int] = defaultdict(int)
    own: dict[Month, int] = defaultdict(int)
    sharing: set[Month] = set()
    for chunk in chunks:
        if chunk.start is None or chunk.end is None:
            continue
        inside = months[bisect_right(ends, chunk.start) : bisect_left(starts, chunk.end)]
        if len(inside) > 1:
            sharing.update(inside)
        for month in inside:
            count[month] += 1
            own[month] += chunk.bytes
    return {
        month: MonthSpace(rows[month], count[month], own[month] if count[month] and month not in sharing else None)
        for month in months
    }


def _own_bytes(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_total_relation_size('weather')").fetchone()
    return int(row[0]) if row is not None else 0


def _converted(connection: psycopg.Connection[Any]) -> tuple[int | None, int | None]:
    """Bytes before and after, of chunks that were converted to the columnstore when they had been loaded."""
    # Since TimescaleDB 2.18 also called hypertable_columnstore_stats, which earlier versions have not.
    row = connection.execute(
        "SELECT before_compression_total_bytes, after_compression_total_bytes "
        "FROM hypertable_compression_stats('weather')"
    ).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def _rows_of_ledger(connection: psycopg.Connection[Any]) -> dict[Month, int]:
    if connection.execute("SELECT to_regclass('era5.ledger')").fetchone() == (None,):
        return {}
    return {Month(day.year, day.month): rows for day, rows in connection.execute("SELECT month, rows FROM era5.ledger")}


def _bytes_per_row(size: int | None, rows: int) -> float | None:
    return None if size is None or rows == 0 else size / rows
