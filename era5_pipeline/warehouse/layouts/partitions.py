"""Plain PostgreSQL: a partition a month, loaded aside and attached in the old one's place.

The new partition is filled aside (`aside`), by several connections if asked. That is committed, and the rows are on
disk, before readers are asked to wait: that they do for the few milliseconds in which the two partitions change places,
and for no more than `_READERS_WAIT_SECONDS` at a time where a reader holds the table and the exchange has to be tried
again.
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
    drop_borders,
    fill_aside,
    move_aside_to,
    partition_of,
    remove_aside,
)
from era5_pipeline.warehouse.locks import holder_of_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Replacement

# Whoever asks for the table after us waits behind us: so we wait for those before us a little at a time, and let the
# others pass in between.
_READERS_WAIT_SECONDS = 0.5
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)


class MonthPartitions:
    """A partition a month."""

    name: ClassVar[str] = "partitions"
    shares_months: ClassVar[bool] = True

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the partitioned table and its index, which every partition then gets."""
        with connection.transaction():
            create_weather(connection, sql.SQL("PARTITION BY RANGE (time)"))
            create_location_index(connection, WEATHER)

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Load aside, in the ledger's schema; then let the two change places."""
        remove_aside(connection, replacement.month)
        try:
            rows = fill_aside(connection, replacement)
            _exchange_patiently(connection, replacement, rows)
        except BaseException:
            with suppress(psycopg.Error):
                remove_aside(connection, replacement.month)
            raise
        return rows

    def settle(self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool) -> tuple[str, ...]:
        """Nothing is left to do: the rows are frozen and analyzed, and the old partition's space was given back."""
        del connection, month, replaced
        return ()


def _exchange_patiently(connection: psycopg.Connection[Any], replacement: Replacement, rows: int) -> None:
    month, patience = replacement.month, replacement.patience_seconds
    deadline = time.monotonic() + patience
    for pause in _pauses():
        try:
            with connection.transaction():
                connection.execute(
                    "SELECT set_config('lock_timeout', %s, true)", (f"{round(_READERS_WAIT_SECONDS * 1000)}ms",)
                )
                _exchange(connection, month)
                replacement.finish(rows)
        except pg.LockNotAvailable:
            reader = holder_of_tables(connection)
        else:
            return
        if time.monotonic() + pause > deadline:
            raise MonthLockedError(
                f"{month} cannot be replaced while the table weather is in use by {reader}",
                remedy="Wait until that session ends its transaction, or end it; then run this again. "
                "The month is as it was.",
            )
        if pause == _PAUSES_SECONDS[0]:
            replacement.on_wait(
                f"{month} is ready, and the table weather in use by {reader}: waiting up to {patience:g} s"
            )
        time.sleep(pause)


def _pauses() -> Iterator[float]:
    yield from _PAUSES_SECONDS
    while True:
        yield _PAUSES_SECONDS[-1]


def _exchange(connection: psycopg.Connection[Any], month: Month) -> None:
    partition = partition_of(month)
    schema = _schema_of_weather(connection)
    within = sql.Identifier(schema, partition)
    found = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'weather'::regclass) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = %s AND n.nspname = %s",
        (partition, schema),
    ).fetchone()
    if found == (False,):
        raise WarehouseError(
            f"{month}: a table {partition} that is no partition of weather is in the way",
            remedy=f"Rename it: ALTER TABLE {partition} RENAME TO ...; (the month is as it was before).",
        )
    if found is not None:
        connection.execute(sql.SQL("DROP TABLE {}").format(within))
    move_aside_to(connection, month, schema)
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            WEATHER, within, sql.Literal(month.start), sql.Literal(month.end)
        )
    )
    drop_borders(connection, month, schema)


def _schema_of_weather(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute(
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = 'weather'::regclass"
    ).fetchone()
    return str(row[0]) if row else "public"
