"""Plain PostgreSQL: one partition per month, loaded in a staging table and attached in place of the old one.

The staging table (see `staging`) is filled, by several connections if asked, and committed before any reader has to
wait. Readers wait for the few milliseconds of the exchange. If a reader holds the table, the exchange is tried again
and again, and other readers wait for no more than half a second at a time (see `brief_locks`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import sql

from era5_pipeline.model.errors import WarehouseError
from era5_pipeline.warehouse.layouts.brief_locks import change_when_unused
from era5_pipeline.warehouse.layouts.layout import (
    WEATHER,
    create_location_index,
    create_weather,
    delete_rows,
    index_new_pages,
)
from era5_pipeline.warehouse.layouts.staging import (
    add_missing_columns,
    drop_bounds,
    drop_staging,
    fill_staging,
    move_staging_to,
    partition_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement


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

            _when_unused(connection, replacement, exchange)
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

            _when_unused(connection, removal, drop)
            return
        with connection.transaction():
            delete_rows(connection, month, removal.locations)
            removal.summarise()
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
        replacement.summarise()
        replacement.finish(rows)
    return rows


def _when_unused(
    connection: psycopg.Connection[Any], change: Replacement | Removal, exchange: Callable[[], None]
) -> None:
    # In one transaction, of which the exchange alone is tried again: the summaries wait for no reader, and take longer.
    with connection.transaction():
        change.summarise()
        change_when_unused(
            connection,
            exchange,
            ready=f"{change.month} is ready",
            refused=f"{change.month} cannot be replaced",
            timeout_seconds=change.lock_timeout_seconds,
            on_wait=change.on_wait,
        )


def _exchange(connection: psycopg.Connection[Any], month: Month) -> None:
    schema = _schema_of_weather(connection)
    _drop_partition(connection, month, schema)
    add_missing_columns(connection, month)
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
