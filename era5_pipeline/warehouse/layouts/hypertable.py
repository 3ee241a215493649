"""TimescaleDB: a hypertable; what a month can be depends on the edition.

Community edition: a chunk for exactly each calendar month, made beforehand. Apache edition: no such function, and chunk
intervals are fixed widths, so chunks of 31 days. Measured on the Apache edition with a month of 10,000 locations,
loading and reading one location's month: 31-day chunks 1.9 million rows/s and 0.95 ms, 7-day 1.9 and 1.4, 1-day 1.7 and
5.2; 85 years are 1,000 chunks instead of 31,000.

A month is replaced by DELETE and COPY in one transaction: readers never wait, and see the old rows until commit.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.warehouse.layouts.protocol import (
    WEATHER,
    CopyInto,
    create_location_index,
    create_weather,
    month_where,
)

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.months import Month

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


class _Hypertable:
    def create(self, connection: psycopg.Connection) -> None:
        """Create the hypertable and its index."""
        with connection.transaction():
            create_weather(connection, sql.SQL(""))
            connection.execute(
                "SELECT create_hypertable('weather', by_range('time', INTERVAL '31 days'), create_default_indexes => false)"
            )
            create_location_index(connection, WEATHER)

    def replace(self, connection: psycopg.Connection, month: Month, copy: CopyInto) -> int:
        """DELETE what is there, COPY what comes."""
        connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(WEATHER, month_where(month)))
        # FREEZE is refused on hypertables.
        return copy(connection, WEATHER, freeze=False)

    def settle(self, connection: psycopg.Connection, month: Month) -> None:
        """Vacuum and analyze the month's chunks: deleted rows become room for the next replacement."""
        for chunk in _chunks(connection, month):
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(chunk))


class ChunkedHypertable(_Hypertable):
    """Apache edition: chunks of 31 days, which neighbouring months share."""

    name: ClassVar[str] = "hypertable"

    def prepare(self, connection: psycopg.Connection, month: Month) -> None:
        """Create the chunks: a load that created its own would lock the hypertable until its commit.

        The Apache edition makes chunks only for rows, so two rows come and go in one transaction. A month is no longer
        than a chunk: its first and last hour are in all chunks that it touches.
        """
        ends = (month.start, month.end - _HOUR)
        held = [_has_chunk(connection, time) for time in ends]
        if all(held):
            return
        with connection.transaction():
            for time in ends:
                # No location: what makes these rows known from all others in the month.
                connection.execute(
                    sql.SQL("INSERT INTO {} (time) VALUES ({})").format(WEATHER, sql.Literal(time))
                )
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE location_id IS NULL AND {}").format(WEATHER, month_where(month))
            )


class CalendarHypertable(_Hypertable):
    """Community edition: a chunk for each calendar month."""

    name: ClassVar[str] = "calendar hypertable"

    def prepare(self, connection: psycopg.Connection, month: Month) -> None:
        """Create the month's chunk in a short transaction; later inserts are routed to it."""
        if _has_chunk(connection, month.start):
            return
        span = {"time": [_microseconds(month.start), _microseconds(month.end)]}
        connection.execute(
            "SELECT _timescaledb_functions.create_chunk('weather'::regclass, %s::jsonb)", (json.dumps(span),)
        )


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _has_chunk(connection: psycopg.Connection, time: datetime) -> bool:
    found = connection.execute(
        "SELECT EXISTS (SELECT FROM timescaledb_information.chunks WHERE hypertable_name = 'weather' "
        "AND hypertable_schema = current_schema() AND range_start <= %(time)s AND range_end > %(time)s)",
        {"time": time},
    ).fetchone()
    return bool(found and found[0])


def _chunks(connection: psycopg.Connection, month: Month) -> list[sql.Identifier]:
    rows: list[Any] = connection.execute(
        "SELECT chunk_schema, chunk_name FROM timescaledb_information.chunks WHERE hypertable_name = 'weather' "
        "AND hypertable_schema = current_schema() AND range_start < %s AND range_end > %s",
        (month.end, month.start),
    ).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]
