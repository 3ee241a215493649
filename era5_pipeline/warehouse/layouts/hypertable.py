"""TimescaleDB: a hypertable; what a month can be depends on the edition.

Community edition: a chunk for exactly each calendar month, made beforehand. Apache edition: no such function, and chunk
intervals are fixed widths, so chunks of 31 days. Measured on the Apache edition with a month of 10,000 locations,
loading and reading one location's month: 31-day chunks 1.9 million rows/s and 0.95 ms, 7-day 1.9 and 1.4, 1-day 1.7 and
5.2; 85 years are 1,000 chunks instead of 31,000.

A month is replaced by DELETE and COPY in one transaction: readers see the old rows until commit. They wait for no lock
but that of the VACUUM afterwards, for milliseconds, where it gives room back; and until that VACUUM, which puts new
pages into the index, a location takes longer to find.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.warehouse.layouts.protocol import (
    WEATHER,
    create_location_index,
    create_weather,
    month_where,
)

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.months import Month
    from era5_pipeline.warehouse.layouts.protocol import Replacement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


class _Hypertable:
    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the hypertable and its index."""
        with connection.transaction():
            create_weather(connection, sql.SQL(""))
            connection.execute(
                "SELECT create_hypertable('weather', by_range('time', INTERVAL '31 days'), "
                "create_default_indexes => false)"
            )
            create_location_index(connection, WEATHER)

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """DELETE what is there, COPY what comes."""
        month = replacement.month
        self._make_chunks(connection, month)
        with connection.transaction():
            connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(WEATHER, month_where(month)))
            # FREEZE is refused on hypertables.
            rows = replacement.copy(connection, WEATHER, freeze=False)
            replacement.finish(rows)
        return rows

    def settle(self, connection: psycopg.Connection[Any], month: Month) -> None:
        """Vacuum and analyze the month's chunks: deleted rows become room for the next replacement."""
        for chunk in _chunks(connection, month):
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(chunk))

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        """Create the month's chunks beforehand: a load that did so would lock the hypertable until its commit."""
        raise NotImplementedError


class ChunkedHypertable(_Hypertable):
    """Apache edition: chunks of 31 days, which neighbouring months share."""

    name: ClassVar[str] = "hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        _make_chunks_by_rows(connection, month)


class CalendarHypertable(_Hypertable):
    """Community edition: a chunk for each calendar month."""

    name: ClassVar[str] = "calendar hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        if _chunks(connection, month):
            # One that is not the month's alone is in the way (made under the Apache edition, or by rows from
            # elsewhere): what it leaves free of the month gets chunks as there.
            _make_chunks_by_rows(connection, month)
            return
        span = {"time": [_microseconds(month.start), _microseconds(month.end)]}
        connection.execute(
            "SELECT _timescaledb_functions.create_chunk('weather'::regclass, %s::jsonb)", (json.dumps(span),)
        )


def _make_chunks_by_rows(connection: psycopg.Connection[Any], month: Month) -> None:
    """Create the chunks by two rows, which come and go in one transaction: all that the Apache edition offers.

    A month is no longer than a chunk, so its first and last hour are in all chunks that it touches.
    """
    ends = (month.start, month.end - _HOUR)
    if all(_has_chunk(connection, time) for time in ends):
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


def _has_chunk(connection: psycopg.Connection[Any], time: datetime) -> bool:
    return bool(_chunks_between(connection, time, time + _HOUR))


def _chunks(connection: psycopg.Connection[Any], month: Month) -> list[sql.Identifier]:
    return _chunks_between(connection, month.start, month.end)


def _chunks_between(connection: psycopg.Connection[Any], start: datetime, end: datetime) -> list[sql.Identifier]:
    """The chunks that hold any time from `start` to before `end`."""
    rows = connection.execute(
        "SELECT chunk_schema, chunk_name FROM timescaledb_information.chunks "
        "WHERE format('%%I.%%I', hypertable_schema, hypertable_name)::regclass = 'weather'::regclass "
        "AND range_start < %(end)s AND range_end > %(start)s",
        {"start": start, "end": end},
    ).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]
