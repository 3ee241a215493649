"""Disk space of the table `weather` on the server: in total and per month.

Queries the server, with a number of queries that does not depend on the number of chunks, and assigns chunks to
months. Partitions of plain PostgreSQL are called chunks here too. For the display and files under `ERA5_HOME` see
`cli/status.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.months import Month
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.schema import existing_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg

# Measuring a chunk waits for exclusive locks on it, which VACUUM FULL holds for long.
_LOCK_TIMEOUT = "2s"


@dataclass(frozen=True)
class Chunk:
    """A chunk or partition from `start` to `end` (excluded), in seconds since 1970, which may be infinite.

    Bounds of None mean a partition without a range of times, which holds no month. `bytes` includes indexes, TOAST and
    columnstore.
    """

    start: float | None
    end: float | None
    bytes: int
    in_columnstore: bool


@dataclass(frozen=True)
class MonthSpace:
    """A month's row count from the ledger, the number of its chunks, and their bytes.

    `bytes` is None if one of these chunks is shared with another month, or without chunks.
    """

    rows: int
    chunks: int
    bytes: int | None

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes per row; None if the month has no separate size, or no rows."""
        return _bytes_per_row(self.bytes, self.rows)

    @property
    def is_sharing(self) -> bool:
        """True if one of its chunks is shared with another month."""
        return self.chunks > 0 and self.bytes is None


@dataclass(frozen=True)
class Space:
    """The disk space of the table, with indexes, TOAST and columnstore; `layout` is None without a table.

    `rows` and `months` come from the ledger. `bytes_before_columnstore` and `bytes_after_columnstore` are sizes of the
    chunks converted to the columnstore after loading; None without any. Rows compressed during loading have no size
    before. `summary_bytes` is the size of the monthly summaries, which are not in `bytes`.
    """

    layout: str | None = None
    chunks: int = 0
    chunks_in_columnstore: int = 0
    bytes: int = 0
    rows: int = 0
    bytes_before_columnstore: int | None = None
    bytes_after_columnstore: int | None = None
    months: Mapping[Month, MonthSpace] = field(default_factory=dict)
    summary_bytes: int = 0

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes per row; None without chunks or rows."""
        return _bytes_per_row(self.bytes if self.chunks else None, self.rows)


def read_space(connection: psycopg.Connection[Any]) -> Space:
    """Measure the table, with no more privileges than reading the ledger needs; creates nothing."""
    with server_errors(f"measuring the table {dataset_of(connection).table}"), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
        layout = existing_layout(connection)
        if layout is None:
            return Space()
        query = "space_partitions" if layout.name == MonthPartitions.name else "space_chunks"
        chunks = [Chunk(*row) for row in connection.execute(read_sql(query, dataset_of(connection)))]
        in_columnstore = sum(chunk.in_columnstore for chunk in chunks)
        before, after = _conversion_bytes(connection) if in_columnstore else (None, None)
        rows = _ledger_rows(connection)
        own_bytes, summary_bytes = _own_and_summary_bytes(connection)
        return Space(
            layout=layout.name,
            chunks=len(chunks),
            chunks_in_columnstore=in_columnstore,
            # The hypertable's own indexes have some pages, although it holds no rows.
            bytes=own_bytes + sum(chunk.bytes for chunk in chunks),
            rows=sum(rows.values()),
            bytes_before_columnstore=before,
            bytes_after_columnstore=after,
            months=share_out(chunks, rows),
            summary_bytes=summary_bytes,
        )


def share_out(chunks: Iterable[Chunk], rows: Mapping[Month, int]) -> dict[Month, MonthSpace]:
    """Assign chunks to the months in `rows` (row counts by month) that they hold; the result is in month order."""
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


def _own_and_summary_bytes(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT pg_total_relation_size('{weather}'), coalesce(sum(pg_total_relation_size(relid)), 0)::bigint "
            "+ coalesce(pg_total_relation_size(to_regclass('{schema}.monthly_last_hour')), 0) "
            "FROM pg_partition_tree(to_regclass('{schema}.monthly_summary'))"
        )
    ).fetchone()
    return row if row is not None else (0, 0)


def _conversion_bytes(connection: psycopg.Connection[Any]) -> tuple[int | None, int | None]:
    """Bytes, before and after, of the chunks converted to the columnstore after loading."""
    # Since TimescaleDB 2.18 also named hypertable_columnstore_stats, but not in older versions.
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT before_compression_total_bytes, after_compression_total_bytes "
            "FROM hypertable_compression_stats('{weather}')"
        )
    ).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def _ledger_rows(connection: psycopg.Connection[Any]) -> dict[Month, int]:
    if connection.execute(dataset_of(connection).sql("SELECT to_regclass('{schema}.ledger')")).fetchone() == (None,):
        return {}
    found = connection.execute(
        dataset_of(connection).sql(
            "SELECT month, sum(rows)::bigint FROM {schema}.ledger WHERE dropped_at IS NULL "
            "GROUP BY month ORDER BY month"
        )
    )
    return {Month(day.year, day.month): rows for day, rows in found}


def _bytes_per_row(size: int | None, rows: int) -> float | None:
    return None if size is None or rows == 0 else size / rows
