"""TimescaleDB, rows as rows: a hypertable of heap chunks, which is all that the Apache edition has.

Chunk intervals are fixed widths there, so chunks are of 31 days. Measured with a month of 10,000 locations, loading and
reading one location's month: 31-day chunks 1.9 million rows/s and 0.95 ms, 7-day 1.9 and 1.4, 1-day 1.7 and 5.2; 85
years are 1,000 chunks instead of 31,000. On the Community edition, a table that was made without a columnstore gets a
chunk for exactly each calendar month.

A month is replaced by DELETE and COPY in one transaction: readers see the old rows until commit, and wait for no lock
but that of the VACUUM afterwards, for milliseconds, where it gives room back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.warehouse.layouts.chunks import (
    chunks_of,
    make_calendar_chunk,
    make_chunks_by_rows,
    tables_of,
)
from era5_pipeline.warehouse.layouts.layout import (
    WEATHER,
    create_location_index,
    create_weather,
    month_where,
)

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Replacement


def create_hypertable(connection: psycopg.Connection[Any]) -> None:
    """Create `weather` as a hypertable without an index.

    The interval is for rows that come without a chunk made for them.
    """
    create_weather(connection, sql.SQL(""))
    connection.execute(
        "SELECT create_hypertable('weather', by_range('time', INTERVAL '31 days'), create_default_indexes => false)"
    )


def delete_and_copy(connection: psycopg.Connection[Any], replacement: Replacement) -> int:
    """Within a transaction: DELETE what is there, COPY what comes; gives the rows copied."""
    connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(WEATHER, month_where(replacement.month)))
    # FREEZE is refused on hypertables.
    return replacement.copy(connection, WEATHER, freeze=False)


def make_room(connection: psycopg.Connection[Any], month: Month) -> None:
    """Turn what failed loads left in the month's chunks into room for the next one.

    A chunk that another session vacuums or analyzes is left to it. Cutting off free pages at the end would wait, for
    five seconds, for other months' loads into the same chunk.
    """
    for chunk in chunks_of(connection, month):
        for table in tables_of(connection, chunk):
            connection.execute(sql.SQL("VACUUM (SKIP_LOCKED, TRUNCATE off) {}").format(table))


class _HeapHypertable:
    shares_months: ClassVar[bool] = False

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the hypertable and its index."""
        with connection.transaction():
            create_hypertable(connection)
            create_location_index(connection, WEATHER)

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """DELETE what is there, COPY what comes."""
        month = replacement.month
        self._make_chunks(connection, month)
        make_room(connection, month)
        with connection.transaction():
            rows = delete_and_copy(connection, replacement)
            _index_new_pages(connection, month)
            replacement.finish(rows)
        return rows

    def settle(self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool) -> tuple[str, ...]:
        """Vacuum and analyze the month's chunks: deleted rows become room for the next replacement."""
        del (
            replaced
        )  # a first load's rows are worth a VACUUM as well: readers then need not look whether they are visible
        for chunk in chunks_of(connection, month):
            connection.execute(sql.SQL("VACUUM (ANALYZE, TRUNCATE off) {}").format(chunk))
        return ()

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        """Create the month's chunks beforehand, in a short transaction of their own."""
        raise NotImplementedError


class ChunkedHypertable(_HeapHypertable):
    """Apache edition: chunks of 31 days, which neighbouring months share."""

    name: ClassVar[str] = "hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        make_chunks_by_rows(connection, month)


class CalendarHypertable(_HeapHypertable):
    """Community edition, a table without a columnstore: a chunk for each calendar month."""

    name: ClassVar[str] = "calendar hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        make_calendar_chunk(connection, month)


def _index_new_pages(connection: psycopg.Connection[Any], month: Month) -> None:
    """Put the pages of this transaction into the BRIN indexes now; VACUUM would, but only after the commit.

    In between, a location's query would read every new page: half a second for a month of 5 million rows.
    """
    for chunk in chunks_of(connection, month):
        connection.execute(
            "SELECT brin_summarize_new_values(indexrelid) FROM pg_index "
            "JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam "
            "WHERE indrelid = %s::regclass AND amname = 'brin'",
            (chunk.as_string(connection),),
        )
