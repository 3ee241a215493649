"""The chunks of the hypertable `weather`: listing them, and creating those of a month before it is loaded.

They are created before the load, because a load whose rows create a chunk holds a lock on the hypertable until its
commit, and every other load that needs a new chunk waits for that lock.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.months import Month

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


def chunks_of(connection: psycopg.Connection[Any], month: Month) -> list[sql.Identifier]:
    """List the chunks whose ranges include hours of the month, earliest first."""
    return _chunks_between(connection, month.start, month.end)


def tables_of(connection: psycopg.Connection[Any], chunk: sql.Identifier) -> list[sql.Identifier]:
    """List the tables to vacuum for a chunk: itself, and the table of its compressed batches.

    Before TimescaleDB 2.28, VACUUM of a chunk leaves out that table.
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
    """Create a chunk for exactly the month, which only the Community edition can.

    If a chunk already covers a part of the month (created under the Apache edition, or by rows that others inserted),
    the rest of the month gets chunks by rows.
    """
    if chunks_of(connection, month):
        make_chunks_by_rows(connection, month)
        return
    span = {"time": [_microseconds(month.start), _microseconds(month.end)]}
    connection.execute(
        "SELECT _timescaledb_functions.create_chunk('weather'::regclass, %s::jsonb)", (json.dumps(span),)
    )


def make_chunks_by_rows(connection: psycopg.Connection[Any], month: Month) -> None:
    """Create the month's chunks by inserting and deleting two rows in one transaction.

    The Apache edition offers no other way. A month is no longer than a chunk, so that its first and its last hour are
    in all chunks that it touches.
    """
    ends = (month.start, month.end - _HOUR)
    if all(_chunks_between(connection, time, time + _HOUR) for time in ends):
        return
    with connection.transaction():
        for time in ends:
            # These rows have no location, which tells them from all others of the month.
            connection.execute(sql.SQL("INSERT INTO {} (time) VALUES ({})").format(WEATHER, sql.Literal(time)))
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE location_id IS NULL AND {}").format(WEATHER, month_where(month))
        )


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _chunks_between(connection: psycopg.Connection[Any], start: datetime, end: datetime) -> list[sql.Identifier]:
    rows = connection.execute(
        "SELECT chunk_schema, chunk_name FROM timescaledb_information.chunks "
        "WHERE (hypertable_schema, hypertable_name) = (SELECT n.nspname, c.relname FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'weather'::regclass) "
        "AND range_start < %(end)s AND range_end > %(start)s ORDER BY range_start",
        {"start": start, "end": end},
    ).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]
