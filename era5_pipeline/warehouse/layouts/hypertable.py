"""TimescaleDB without columnstore: a hypertable of heap chunks, the only kind in the Apache edition."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.warehouse.layouts.layout import (
    create_location_index,
    create_weather,
    delete_rows,
    index_new_pages,
    month_where,
    table_of,
    vacuum,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement

# --- Chunks of the hypertable `weather`: list them, and create a month's chunks before it is loaded ---
#
# Created before the load, because a load whose rows create a chunk locks the hypertable until its commit, and every
# other load that needs a new chunk waits for that lock.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


def chunks_of(connection: psycopg.Connection[Any], month: Month) -> list[sql.Identifier]:
    """List the chunks whose ranges include hours of the month, earliest first."""
    return _chunks_between(connection, month.start, month.end)


def tables_of(connection: psycopg.Connection[Any], chunk: sql.Identifier) -> list[sql.Identifier]:
    """List the tables to vacuum for a chunk: itself and the table of its compressed batches.

    Before TimescaleDB 2.28, VACUUM of a chunk skips that table.
    """
    is_older = connection.execute(
        "SELECT FROM pg_attribute WHERE attrelid = '_timescaledb_catalog.chunk'::regclass "
        "AND attname = 'compressed_chunk_id' AND NOT attisdropped"
    ).fetchone()
    if is_older is None:
        return [chunk]
    batches = connection.execute(
        "SELECT b.schema_name, b.table_name FROM _timescaledb_catalog.chunk c "
        "JOIN _timescaledb_catalog.chunk b ON b.id = c.compressed_chunk_id "
        "WHERE format('%%I.%%I', c.schema_name, c.table_name)::regclass = %s::regclass",
        (chunk.as_string(connection),),
    ).fetchall()
    return [chunk, *(sql.Identifier(*names) for names in batches)]


def make_calendar_chunk(connection: psycopg.Connection[Any], month: Month) -> None:
    """Create a chunk for exactly the month, which only the Community edition supports.

    If a chunk already covers part of the month (created under the Apache edition, or by rows inserted by others), the
    rest of the month gets chunks by rows.
    """
    if chunks_of(connection, month):
        make_chunks_by_rows(connection, month)
        return
    span = {"time": [_microseconds(month.start), _microseconds(month.end)]}
    connection.execute(
        dataset_of(connection).sql("SELECT _timescaledb_functions.create_chunk('{weather}'::regclass, %s::jsonb)"),
        (json.dumps(span),),
    )


def make_chunks_by_rows(connection: psycopg.Connection[Any], month: Month) -> None:
    """Create the month's chunks by inserting and deleting two rows in one transaction.

    The Apache edition offers no other way. A month is no longer than a chunk, so its first and last hour together are
    in all chunks that it touches.
    """
    ends = (month.start, month.end - _HOUR)
    if all(_chunks_between(connection, time, time + _HOUR) for time in ends):
        return
    with connection.transaction():
        for time in ends:
            # These rows have no location, which distinguishes them from all others of the month.
            connection.execute(
                sql.SQL("INSERT INTO {} (time) VALUES ({})").format(table_of(connection), sql.Literal(time))
            )
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE location_id IS NULL AND {}").format(table_of(connection), month_where(month))
        )


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _chunks_between(connection: psycopg.Connection[Any], start: datetime, end: datetime) -> list[sql.Identifier]:
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT chunk_schema, chunk_name FROM timescaledb_information.chunks "
            "WHERE (hypertable_schema, hypertable_name) = (SELECT n.nspname, c.relname FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = '{weather}'::regclass) "
            "AND range_start < %(end)s AND range_end > %(start)s ORDER BY range_start"
        ),
        {"start": start, "end": end},
    ).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]


# --- TimescaleDB without columnstore: a hypertable of heap chunks, the only kind in the Apache edition ---
#
# The Apache edition has fixed chunk intervals: 31 days here. Measured with a month of 10,000 locations, loading it and
# reading one location's month: 31-day chunks 1.9 million rows/s and 0.95 ms, 7-day 1.9 and 1.4, 1-day 1.7 and 5.2; 85
# years are 1,000 chunks instead of 31,000. On the Community edition, a table created without a columnstore gets one
# chunk per calendar month.
#
# A month is replaced by DELETE and COPY in one transaction. Readers see the old rows until the commit, and only wait
# for the lock of the VACUUM afterwards, which takes it for milliseconds to return free space.


def create_hypertable(connection: psycopg.Connection[Any]) -> None:
    """Create `weather` as a hypertable without an index.

    The interval applies to rows without a chunk created beforehand.
    """
    create_weather(connection, sql.SQL(""))
    connection.execute(
        dataset_of(connection).sql(
            "SELECT create_hypertable('{weather}', by_range('time', INTERVAL '31 days'), "
            "create_default_indexes => false)"
        )
    )


def vacuum_failed_loads(connection: psycopg.Connection[Any], month: Month) -> None:
    """Reclaim the space of rows left by failed loads in the month's chunks.

    Chunks being vacuumed or analyzed by another session are skipped. Free pages at the end are not truncated: that
    would wait five seconds for other months' loads into the same chunk.
    """
    for chunk in chunks_of(connection, month):
        for table in tables_of(connection, chunk):
            connection.execute(sql.SQL("VACUUM (SKIP_LOCKED, TRUNCATE off) {}").format(table))


@dataclass(frozen=True)
class HeapHypertable:
    """Chunks without columnstore; `make_chunks` makes a month's in a short transaction of its own, before the load."""

    name: str
    make_chunks: Callable[[psycopg.Connection[Any], Month], None]

    shares_months: ClassVar[bool] = False

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the hypertable and its index."""
        with connection.transaction():
            create_hypertable(connection)
            create_location_index(connection, table_of(connection))

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """DELETE the old rows and COPY the new ones in one transaction."""
        month = replacement.month
        self.make_chunks(connection, month)
        vacuum_failed_loads(connection, month)
        with connection.transaction():
            delete_rows(connection, month, replacement.locations)
            rows = replacement.copy(connection, table_of(connection), freeze=False)  # hypertables refuse FREEZE
            for chunk in chunks_of(connection, month):
                index_new_pages(connection, chunk)
            replacement.summarise()
            replacement.finish(rows)
        return rows

    def remove(self, connection: psycopg.Connection[Any], removal: Removal) -> None:
        """DELETE the rows. VACUUM returns the space at the end of the chunk; gaps before it are reused."""
        with connection.transaction():
            removal.delete(connection)
        vacuum(connection, lambda: chunks_of(connection, removal.month))

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """Vacuum and analyze the month's chunks: the next replacement reuses the space of deleted rows."""
        # Also after a first load: VACUUM marks the rows as visible to all, so that readers need not check each one.
        del replaced, is_whole
        for chunk in chunks_of(connection, month):
            connection.execute(sql.SQL("VACUUM (ANALYZE, TRUNCATE off) {}").format(chunk))
        return ()


# Apache edition: chunks of 31 days, shared by adjacent months.
CHUNKED_HYPERTABLE = HeapHypertable("hypertable", make_chunks_by_rows)
# Community edition, a table without columnstore: one chunk per calendar month.
CALENDAR_HYPERTABLE = HeapHypertable("calendar hypertable", make_calendar_chunk)
