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
from era5_pipeline.warehouse.layouts.layout import WEATHER, create_location_index, create_weather
from era5_pipeline.warehouse.layouts.staging import (
    drop_bounds,
    drop_staging,
    fill_staging,
    move_staging_to,
    partition_of,
)
from era5_pipeline.warehouse.locks import holder_of_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Replacement

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
        """Fill the staging table, then exchange it for the month's partition."""
        drop_staging(connection, replacement.month)
        try:
            rows = fill_staging(connection, replacement)
            _exchange_with_retries(connection, replacement, rows)
        except BaseException:
            with suppress(psycopg.Error):
                drop_staging(connection, replacement.month)
            raise
        return rows

    def settle(self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool) -> tuple[str, ...]:
        """Do nothing: the rows are frozen and analyzed already, and dropping the old partition freed its space."""
        del connection, month, replaced
        return ()


def _exchange_with_retries(connection: psycopg.Connection[Any], replacement: Replacement, rows: int) -> None:
    month, timeout = replacement.month, replacement.lock_timeout_seconds
    deadline = time.monotonic() + timeout
    for pause in _pauses():
        reader = _try_exchange(connection, replacement, rows)
        if reader is None:
            return
        if time.monotonic() + pause > deadline:
            raise MonthLockedError(
                f"{month} cannot be replaced while the table weather is in use by {reader}",
                remedy="Wait until that session ends its transaction, or end it; then run this again. "
                "The month is unchanged.",
            )
        if pause == _PAUSES_SECONDS[0]:
            replacement.on_wait(
                f"{month} is ready, but the table weather is in use by {reader}: waiting up to {timeout:g} s"
            )
        time.sleep(pause)


def _pauses() -> Iterator[float]:
    yield from _PAUSES_SECONDS
    while True:
        yield _PAUSES_SECONDS[-1]


def _try_exchange(connection: psycopg.Connection[Any], replacement: Replacement, rows: int) -> str | None:
    """Exchange staging table and partition in one transaction; return the session that prevents it, None if done."""
    try:
        with connection.transaction():
            connection.execute(
                "SELECT set_config('lock_timeout', %s, true)", (f"{round(_EXCHANGE_LOCK_SECONDS * 1000)}ms",)
            )
            _exchange(connection, replacement.month)
            replacement.finish(rows)
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
