"""TimescaleDB without columnstore: a hypertable of heap chunks, the only kind that the Apache edition has.

The Apache edition's chunk intervals have a fixed width: 31 days here. Measured with a month of 10,000 locations,
loading it and reading one location's month: 31-day chunks 1.9 million rows/s and 0.95 ms, 7-day 1.9 and 1.4, 1-day 1.7
and 5.2; 85 years are 1,000 chunks instead of 31,000. On the Community edition, a table that was created without a
columnstore gets one chunk for each calendar month.

A month is replaced by DELETE and COPY in one transaction. Readers see the old rows until the commit, and wait for no
lock except that of the VACUUM afterwards, which takes it for milliseconds to return free space.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
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
    delete_rows,
    index_new_pages,
)

if TYPE_CHECKING:
    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement


def create_hypertable(connection: psycopg.Connection[Any]) -> None:
    """Create `weather` as a hypertable without an index.

    The interval applies to rows for which no chunk was created beforehand.
    """
    create_weather(connection, sql.SQL(""))
    connection.execute(
        "SELECT create_hypertable('weather', by_range('time', INTERVAL '31 days'), create_default_indexes => false)"
    )


def delete_and_copy(connection: psycopg.Connection[Any], replacement: Replacement, *, by_ids: bool = False) -> int:
    """Within a transaction, DELETE the old rows and COPY the new ones; return the number of rows copied."""
    delete_rows(connection, replacement.month, replacement.locations, by_ids=by_ids)
    # Hypertables refuse FREEZE.
    return replacement.copy(connection, WEATHER, freeze=False)


def vacuum_failed_loads(connection: psycopg.Connection[Any], month: Month) -> None:
    """Make the space of rows that failed loads left in the month's chunks available again.

    Chunks that another session vacuums or analyzes are skipped. Truncating free pages at the end is off: it would wait
    five seconds for other months' loads into the same chunk.
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
        """DELETE the old rows and COPY the new ones in one transaction."""
        month = replacement.month
        self._make_chunks(connection, month)
        vacuum_failed_loads(connection, month)
        with connection.transaction():
            rows = delete_and_copy(connection, replacement)
            for chunk in chunks_of(connection, month):
                index_new_pages(connection, chunk)
            replacement.summarise()
            replacement.finish(rows)
        return rows

    def remove(self, connection: psycopg.Connection[Any], removal: Removal) -> None:
        """DELETE the rows. VACUUM returns the space at the end of the chunk; what lies between is reused."""
        with connection.transaction():
            delete_rows(connection, removal.month, removal.locations)
            removal.summarise()
            removal.finish()
        # The rows are gone whether or not this succeeds; autovacuum does the same later.
        with suppress(psycopg.Error):
            for chunk in chunks_of(connection, removal.month):
                connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(chunk))

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """Vacuum and analyze the month's chunks: the next replacement reuses the space of deleted rows."""
        # Also after a first load: VACUUM marks the rows as visible to all, which saves readers from checking each one.
        del replaced, is_whole
        for chunk in chunks_of(connection, month):
            connection.execute(sql.SQL("VACUUM (ANALYZE, TRUNCATE off) {}").format(chunk))
        return ()

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        """Create the month's chunks in a short transaction of their own, before the load."""
        raise NotImplementedError


class ChunkedHypertable(_HeapHypertable):
    """Apache edition: chunks of 31 days, which adjacent months share."""

    name: ClassVar[str] = "hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        make_chunks_by_rows(connection, month)


class CalendarHypertable(_HeapHypertable):
    """Community edition, a table without a columnstore: one chunk for each calendar month."""

    name: ClassVar[str] = "calendar hypertable"

    def _make_chunks(self, connection: psycopg.Connection[Any], month: Month) -> None:
        make_calendar_chunk(connection, month)
