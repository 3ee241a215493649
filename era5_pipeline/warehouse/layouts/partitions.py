"""Plain PostgreSQL: one partition per month, loaded as a staging table and attached in place of the old one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import sql

from era5_pipeline.model.errors import WarehouseError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import transfer_to_table_owner, weather_schema
from era5_pipeline.warehouse.layouts.layout import (
    EVERYWHERE,
    LocationSpan,
    create_location_index,
    create_weather,
    delete_rows,
    index_new_pages,
    loads_schema,
    month_where,
    table_of,
    vacuum,
)
from era5_pipeline.warehouse.layouts.variable_columns import with_short_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement, Shares

# --- Staging tables: a month is loaded in a schema of loads, unseen by readers, as one table or several shares ---
#
# COPY FREEZE works only in the transaction that empties the table: with `wal_level=minimal` it writes no WAL, and its
# rows never need vacuuming. Several connections cannot do that to one table. So each fills its own table, with its
# index, and these tables become partitions of the month by `location_id`: the slow part runs in parallel, and readers
# see the month as a whole.


# Suffix of the constraint that saves ATTACH PARTITION a scan of all rows; dropped once attached.
_BOUNDS = "bounds"
# These commits need not be synced: that of the exchange is, which includes all before it.
_NO_WAIT = sql.SQL("SET LOCAL synchronous_commit = off")


def partition_of(connection: psycopg.Connection[Any], month: Month) -> str:
    """Name the month's partition, such as `weather_2023_07`; its shares are `weather_2023_07_1` and so on."""
    return f"{dataset_of(connection).table}_{month.year:04d}_{month.month:02d}"


def drop_staging(connection: psycopg.Connection[Any], month: Month) -> None:
    """Drop the month's staging tables, left behind by loads that are killed before attaching them."""
    dataset = dataset_of(connection)
    rows = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'p') AND c.relname ~ %s",
        # Loads of older versions left theirs in the first.
        ([dataset.schema, dataset.loads_schema], f"^{partition_of(connection, month)}(_[0-9]+)?$"),
    ).fetchall()
    for names in rows:
        # Dropping the month's table drops its shares.
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(*names)))


def fill_staging(connection: psycopg.Connection[Any], replacement: Replacement, schema: str) -> int:
    """Copy the month into staging tables in `schema` and commit them; return the number of rows."""
    month = replacement.month
    if replacement.shares is None:
        whole = sql.Identifier(schema, partition_of(connection, month))
        _create_table(connection, month, whole, EVERYWHERE)
        return _fill(connection, replacement, whole, EVERYWHERE)
    spans = [
        (sql.Identifier(schema, f"{partition_of(connection, month)}_{n}"), span)
        for n, span in enumerate(replacement.shares.spans, start=1)
    ]
    for share, span in spans:
        _create_table(connection, month, share, span)
    rows = _fill_shares(replacement, replacement.shares, spans)
    _join_shares(connection, sql.Identifier(schema, partition_of(connection, month)), spans)
    return rows


def _add_missing_columns(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Within a transaction, add columns to a staging table that `weather` got in the meantime.

    Another month's load may have introduced a variable; a partition needs all columns.
    """
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute a "
            "WHERE attrelid = '{weather}'::regclass AND attnum > 0 AND NOT attisdropped "
            "AND NOT EXISTS (SELECT FROM pg_attribute s "
            "WHERE s.attrelid = %s::regclass AND s.attname = a.attname AND NOT s.attisdropped) ORDER BY attnum"
        ),
        (table.as_string(connection),),
    ).fetchall()
    for name, kind in rows:
        connection.execute(
            sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(table, sql.Identifier(name), sql.SQL(kind))
        )


def move_staging_to(connection: psycopg.Connection[Any], month: Month, staging: str, schema: str) -> None:
    """Within a transaction, move the month and any shares from the schema `staging` into `schema`."""
    for name in _members(connection, staging, month):
        connection.execute(
            sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(sql.Identifier(staging, name), sql.Identifier(schema))
        )


def drop_bounds(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Within a transaction, drop the constraints that only ATTACH PARTITION needed."""
    names = _members(connection, schema, month)
    for name in names[1:] or names:
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                sql.Identifier(schema, name), sql.Identifier(f"{name}_{_BOUNDS}")
            )
        )


def _members(connection: psycopg.Connection[Any], schema: str, month: Month) -> list[str]:
    """List the month's table, then its shares."""
    rows = connection.execute(
        "SELECT relname FROM pg_partition_tree(%s::regclass) t JOIN pg_class c ON c.oid = t.relid ORDER BY level, 1",
        (sql.Identifier(schema, partition_of(connection, month)).as_string(connection),),
    ).fetchall()
    # The tree of a table that is not a partition and has no partitions is empty.
    return [name for (name,) in rows] or [partition_of(connection, month)]


def _like_weather(connection: psycopg.Connection[Any]) -> sql.Composable:
    return sql.SQL("LIKE {} INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY").format(table_of(connection))


def _create_table(connection: psycopg.Connection[Any], month: Month, table: sql.Identifier, span: LocationSpan) -> None:
    # In its own transaction: LIKE locks weather until the transaction ends. Replacing another month would wait for that
    # lock, and all readers behind it.
    with connection.transaction():
        connection.execute(_NO_WAIT)
        connection.execute(
            sql.SQL("CREATE TABLE {} ({}, CONSTRAINT {} CHECK ({}))").format(
                table,
                _like_weather(connection),
                sql.Identifier(f"{_name_of(table)}_{_BOUNDS}"),
                sql.SQL(" AND ").join([month_where(month), *_span_where(span)]),
            )
        )
        transfer_to_table_owner(connection, table, "TABLE")


def _name_of(table: sql.Identifier) -> str:
    return table.as_string().rpartition(".")[2].strip('"')


def _span_where(span: LocationSpan) -> Iterable[sql.Composable]:
    if span == EVERYWHERE:
        return
    yield sql.SQL("location_id IS NOT NULL")
    if span.first is not None:
        yield sql.SQL("location_id >= {}").format(sql.Literal(span.first))
    if span.end is not None:
        yield sql.SQL("location_id < {}").format(sql.Literal(span.end))


def _fill(
    connection: psycopg.Connection[Any], replacement: Replacement, table: sql.Identifier, span: LocationSpan
) -> int:
    with connection.transaction():
        connection.execute(_NO_WAIT)
        connection.execute(sql.SQL("TRUNCATE {}").format(table))  # required by FREEZE in the same transaction
        rows = replacement.copy(connection, table, freeze=True, span=span)
        create_location_index(connection, table)
        connection.execute(sql.SQL("ANALYZE {}").format(table))
    return rows


def _fill_shares(replacement: Replacement, shares: Shares, spans: list[tuple[sql.Identifier, LocationSpan]]) -> int:
    """Fill the staging tables, one per span, from one connection each; return the number of rows."""

    def fill(number: int, table: sql.Identifier, span: LocationSpan) -> int:
        with shares.connect(f"worker {number}") as connection:
            return _fill(connection, replacement, table, span)

    with ThreadPoolExecutor(max_workers=len(spans)) as pool:
        fills = [pool.submit(fill, number, *table) for number, table in enumerate(spans, start=1)]
        try:
            return sum(one.result() for one in as_completed(fills))
        except BaseException:
            shares.stop()
            raise


def _join_shares(
    connection: psycopg.Connection[Any], whole: sql.Identifier, spans: list[tuple[sql.Identifier, LocationSpan]]
) -> None:
    """Make the filled tables partitions of one staging table of the month."""
    with connection.transaction():
        connection.execute(
            sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (location_id)").format(whole, _like_weather(connection))
        )
        transfer_to_table_owner(connection, whole, "TABLE")
        create_location_index(connection, whole)
        for share, span in spans:
            _add_missing_columns(connection, share)
            connection.execute(
                sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    whole,
                    share,
                    sql.SQL("MINVALUE") if span.first is None else sql.Literal(span.first),
                    sql.SQL("MAXVALUE") if span.end is None else sql.Literal(span.end),
                )
            )


# --- Plain PostgreSQL: one partition per month, loaded as a staging table and attached in place of the old one ---
#
# The staging table is filled, by several connections if requested, and committed before any reader has to wait. Readers
# wait for the few milliseconds of the exchange. If a reader holds the table, the exchange is retried, and other readers
# wait for at most half a second at a time (see `with_short_lock`).


class MonthPartitions:
    """One partition per month."""

    name: ClassVar[str] = "partitions"
    shares_months: ClassVar[bool] = True

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the partitioned table and its index, which every partition inherits."""
        with connection.transaction():
            create_weather(connection, sql.SQL("PARTITION BY RANGE (time)"))
            create_location_index(connection, table_of(connection))

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Exchange the month's partition for a filled staging table; if other locations stay, add to it instead."""
        if replacement.locations is not None and _has_partition(connection, replacement.month):
            return _replace_within(connection, replacement)
        drop_staging(connection, replacement.month)
        staging = loads_schema(connection)
        try:
            rows = fill_staging(connection, replacement, staging)

            def exchange() -> None:
                _exchange(connection, replacement.month, staging)
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
                _drop_partition(connection, month, weather_schema(connection))
                removal.finish()

            _when_unused(connection, removal, drop)
            return
        with connection.transaction():
            removal.delete(connection)
        vacuum(connection, lambda: (_partition(connection, month),))

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """Vacuum and analyze a partition that rows were added to.

        An exchanged partition is already frozen and analyzed, and dropping the old one freed its space.
        """
        del replaced
        if not is_whole:
            connection.execute(sql.SQL("VACUUM (ANALYZE, TRUNCATE off) {}").format(_partition(connection, month)))
        return ()


def _replace_within(connection: psycopg.Connection[Any], replacement: Replacement) -> int:
    """DELETE the locations' old rows and COPY the new ones in one transaction, without blocking readers.

    Rows are appended. They are location-major among themselves, so the BRIN index finds a location as fast as before:
    it reads one range of pages for each load that brought the location's neighbours.
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
    # In one transaction, retrying only the exchange: the summaries wait for no reader, and take longer.
    with connection.transaction():
        change.summarise()
        with_short_lock(
            connection,
            exchange,
            ready=f"{change.month} is ready",
            refused=f"{change.month} cannot be replaced",
            timeout_seconds=change.lock_timeout_seconds,
            on_wait=change.on_wait,
        )


def _exchange(connection: psycopg.Connection[Any], month: Month, staging: str) -> None:
    schema = weather_schema(connection)
    _drop_partition(connection, month, schema)
    _add_missing_columns(connection, sql.Identifier(staging, partition_of(connection, month)))
    move_staging_to(connection, month, staging, schema)
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            table_of(connection),
            sql.Identifier(schema, partition_of(connection, month)),
            sql.Literal(month.start),
            sql.Literal(month.end),
        )
    )
    drop_bounds(connection, month, schema)


def _partition(connection: psycopg.Connection[Any], month: Month) -> sql.Identifier:
    return sql.Identifier(weather_schema(connection), partition_of(connection, month))


def _has_partition(connection: psycopg.Connection[Any], month: Month) -> bool:
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT EXISTS (SELECT FROM pg_inherits "
            "WHERE inhparent = '{weather}'::regclass AND inhrelid = to_regclass(%s))"
        ),
        (_partition(connection, month).as_string(connection),),
    ).fetchone()
    return row == (True,)


def _drop_partition(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Drop the month's partition, if any; raise if the table of that name is not a partition of weather."""
    partition = partition_of(connection, month)
    found = connection.execute(
        dataset_of(connection).sql(
            "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = '{weather}'::regclass) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = %s AND n.nspname = %s"
        ),
        (partition, schema),
    ).fetchone()
    if found == (False,):
        raise WarehouseError(
            f"{month} cannot be loaded: there is a table {partition} that is not a partition of "
            f"{dataset_of(connection).table}",
            remedy=f"Rename it: ALTER TABLE {partition} RENAME TO ...; then run this again. The month is unchanged.",
        )
    if found is not None:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, partition)))
