"""Plain PostgreSQL: one partition per month, loaded in a staging table and attached in place of the old one.

The staging table (see `staging`) is filled, by several connections if asked, and committed before any reader has to
wait. Readers wait for the few milliseconds of the exchange. If a reader holds the table, the exchange is tried again
and again, and other readers wait for no more than `_EXCHANGE_LOCK_SECONDS` at a time.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import errors as pg
from psycopg import sql

from era5_pipeline.model.errors import MonthLockedError, WarehouseError
from era5_pipeline.warehouse.layouts.layout import (
    WEATHER,
    create_location_index,
    create_weather,
    delete_rows,
    index_new_pages,
)
from era5_pipeline.warehouse.layouts.staging import (
    drop_bounds,
    drop_staging,
    fill_staging,
    move_staging_to,
    partition_of,
)
from era5_pipeline.warehouse.locks import holder_of_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement

# While the exchange waits for the lock on the table, every later reader waits behind it: so it waits briefly, and lets
# them pass in between.
_EXCHANGE_LOCK_SECONDS = 0.5
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)


class MonthPartitions:
    """One partition per month."""

    name: ClassVar[str] = "partitions"
    shares_months: ClassVar[bool] = True

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the partitioned table and its index, which every partition inherits."""
        with connection.transaction():
            create_weather(connection, sql.SQL("PARTITION BY RANGE (time)"))
            create_location_index(connection, WEATHER)

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Exchange the month's partition for a filled staging table; where other locations stay, add to it instead."""
        if replacement.locations is not None and _has_partition(connection, replacement.month):
            return _replace_within(connection, replacement)
        drop_staging(connection, replacement.month)
        try:
            rows = fill_staging(connection, replacement)

            def exchange() -> None:
                _exchange(connection, replacement.month)
                replacement.finish(rows)

            _with_retries(connection, replacement, exchange)
        except BaseException:
            with suppress(psycopg.Error):
                drop_staging(connection, replacement.month)
            raise
        return rows

    def remove(self, connection: psycopg.Connection[Any], removal: Removal) -> None:
        """Drop the month's partition, or DELETE the locations' rows from it."""
        month = removal.month
        if removal.locations is None:

            def drop() -> None:
                _drop_partition(connection, month, _schema_of_weather(connection))
                removal.finish()

            _with_retries(connection, removal, drop)
            return
        with connection.transaction():
            delete_rows(connection, month, removal.locations)
            removal.finish()
        # The rows are gone whether or not this succeeds; autovacuum does the same later.
        with suppress(psycopg.Error):
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_partition(connection, month)))

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """Vacuum and analyze a partition that was added to.

        A partition that was exchanged is frozen and analyzed already, and dropping the old one freed its space.
        """
        del replaced
        if not is_whole:
            connection.execute(sql.SQL("VACUUM (ANALYZE, TRUNCATE off) {}").format(_partition(connection, month)))
        return ()


def _replace_within(connection: psycopg.Connection[Any], replacement: Replacement) -> int:
    """DELETE the locations' old rows and COPY the new ones in one transaction, for which no reader waits.

    Rows are appended. They are location-major in themselves, so that the BRIN index finds a location as fast as before:
    it reads one range of pages for each load that the location's neighbours came with.
    """
    partition = _partition(connection, replacement.month)
    with connection.transaction():
        delete_rows(connection, replacement.month, replacement.locations)
        rows = replacement.copy(connection, partition, freeze=False)
        index_new_pages(connection, partition)
        replacement.finish(rows)
    return rows


def _with_retries(
    connection: psycopg.Connection[Any], change: Replacement | Removal, exchange: Callable[[], None]
) -> None:
    """Call `exchange`, which locks the whole table, in a transaction; again and again while readers hold the table."""
    month, timeout = change.month, change.lock_timeout_seconds
    deadline = time.monotonic() + timeout
    for pause in _pauses():
        reader = _try_exchange(connection, exchange)
        if reader is None:
            return
        if time.monotonic() + pause > deadline:
            raise MonthLockedError(
                f"{month} cannot be replaced while the table weather is in use by {reader}",
                remedy="Wait until that session ends its transaction, or end it; then run this again. "
                "The month is unchanged.",
            )
        if pause == _PAUSES_SECONDS[0]:
            change.on_wait(
                f"{month} is ready, but the table weather is in use by {reader}: waiting up to {timeout:g} s"
            )
        time.sleep(pause)


def _pauses() -> Iterator[float]:
    yield from _PAUSES_SECONDS
    while True:
        yield _PAUSES_SECONDS[-1]


def _try_exchange(connection: psycopg.Connection[Any], exchange: Callable[[], None]) -> str | None:
    """Call `exchange` in one transaction; return the session that prevents it, None if it is done."""
    try:
        with connection.transaction():
            connection.execute(
                "SELECT set_config('lock_timeout', %s, true)", (f"{round(_EXCHANGE_LOCK_SECONDS * 1000)}ms",)
            )
            exchange()
    except pg.LockNotAvailable:
        return holder_of_tables(connection)
    return None


def _exchange(connection: psycopg.Connection[Any], month: Month) -> None:
    schema = _schema_of_weather(connection)
    _drop_partition(connection, month, schema)
    move_staging_to(connection, month, schema)
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            WEATHER,
            sql.Identifier(schema, partition_of(month)),
            sql.Literal(month.start),
            sql.Literal(month.end),
        )
    )
    drop_bounds(connection, month, schema)


def _partition(connection: psycopg.Connection[Any], month: Month) -> sql.Identifier:
    return sql.Identifier(_schema_of_weather(connection), partition_of(month))


def _has_partition(connection: psycopg.Connection[Any], month: Month) -> bool:
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'weather'::regclass AND inhrelid = to_regclass(%s))",
        (_partition(connection, month).as_string(connection),),
    ).fetchone()
    return row == (True,)


def _drop_partition(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Drop the month's partition if there is one; raise if a table of its name is no partition of weather."""
    partition = partition_of(month)
    found = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'weather'::regclass) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = %s AND n.nspname = %s",
        (partition, schema),
    ).fetchone()
    if found == (False,):
        raise WarehouseError(
            f"{month} cannot be loaded: there is a table {partition} that is no partition of weather",
            remedy=f"Rename it: ALTER TABLE {partition} RENAME TO ...; then run this again. The month is unchanged.",
        )
    if found is not None:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, partition)))


def _schema_of_weather(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute(
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = 'weather'::regclass"
    ).fetchone()
    return str(row[0]) if row else "public"
