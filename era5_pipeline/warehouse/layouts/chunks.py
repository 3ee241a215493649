"""The chunks of the hypertable `weather`: which there are, and making a month's beforehand.

Beforehand, because a load whose rows make a chunk holds a lock on the hypertable until its commit: every other load
that needs a chunk of its own waits for it.
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
    """The chunks that hold, or would hold, hours of the month; earliest first."""
    return _chunks_between(connection, month.start, month.end)


def tables_of(connection: psycopg.Connection[Any], chunk: sql.Identifier) -> list[sql.Identifier]:
    """What to vacuum for a chunk: itself, and the table of its batches, which versions before 2.28 leave out."""
    is_before = connection.execute(
        "SELECT FROM pg_attribute WHERE attrelid = '_timescaledb_catalog.chunk'::regclass "
        "AND attname = 'compressed_chunk_id' AND NOT attisdropped"
    ).fetchone()
    if is_before is None:
        return [chunk]
    batches = connection.execute(
        "SELECT b.schema_name, b.table_name FROM _timescaledb_catalog.chunk c "
        "JOIN _timescaledb_catalog.chunk b ON b.id = c.compressed_chunk_id "
        "WHERE format('%%I.%%I', c.schema_name, c.table_name)::regclass = %s::regclass",
        (chunk.as_string(connection),),
    ).fetchall()
    return [chunk, *(sql.Identifier(*names) for names in batches)]


def make_calendar_chunk(connection: psycopg.Connection[Any], month: Month) -> None:
    """Make a chunk for exactly the month: the Community edition alone can.

    Where a chunk that is not the month's alone is in the way (made under the Apache edition, or by rows from
    elsewhere), what it leaves free of the month gets chunks as there.
    """
    if chunks_of(connection, month):
        make_chunks_by_rows(connection, month)
        return
    span = {"time": [_microseconds(month.start), _microseconds(month.end)]}
    connection.execute(
        "SELECT _timescaledb_functions.create_chunk('weather'::regclass, %s::jsonb)", (json.dumps(span),)
    )


def make_chunks_by_rows(connection: psycopg.Connection[Any], month: Month) -> None:
    """Make the chunks by two rows, which come and go in one transaction: all that the Apache edition offers.

    A month is no longer than a chunk, so its first and last hour are in all chunks that it touches.
    """
    ends = (month.start, month.end - _HOUR)
    if all(_chunks_between(connection, time, time + _HOUR) for time in ends):
        return
    with connection.transaction():
        for time in ends:
            # No location: what makes these rows known from all others in the month.
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
