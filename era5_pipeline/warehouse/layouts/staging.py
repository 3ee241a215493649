"""Staging tables: a month is loaded in the ledger's schema, where no reader looks, as one table or in several shares.

COPY FREEZE works only in the transaction that empties the table: with `wal_level=minimal` it writes no WAL, and its
rows never need vacuuming. Several connections cannot do that to one table. So each fills a table of its own, with its
index, and these tables become partitions of the month by `location_id`: the slow part runs in parallel, and readers see
the month as a whole.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.warehouse.layouts.layout import (
    EVERYWHERE,
    WEATHER,
    LocationSpan,
    create_location_index,
    month_where,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Replacement, Shares

_SCHEMA = "era5"
# The suffix of the constraint that saves ATTACH PARTITION a scan of all rows; dropped once the month is in place.
_BOUNDS = "bounds"
# These commits need not reach the disk before the next: that of the exchange does, and all before it.
_NO_WAIT = sql.SQL("SET LOCAL synchronous_commit = off")


def partition_of(month: Month) -> str:
    """Name the month's partition, such as `weather_2023_07`; its shares are `weather_2023_07_1` and so on."""
    return f"weather_{month.year:04d}_{month.month:02d}"


def drop_staging(connection: psycopg.Connection[Any], month: Month) -> None:
    """Drop the month's staging tables, which a load leaves behind if it is killed before it attaches them."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND c.relname ~ %s",
        (_SCHEMA, f"^{partition_of(month)}(_[0-9]+)?$"),
    ).fetchall()
    for (name,) in rows:
        # Dropping the month drops its shares.
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(_SCHEMA, name)))


def fill_staging(connection: psycopg.Connection[Any], replacement: Replacement) -> int:
    """Copy the month into staging tables and commit them; return the number of rows."""
    month = replacement.month
    if replacement.shares is None:
        _create_table(connection, month, partition_of(month), EVERYWHERE)
        return _fill(connection, replacement, partition_of(month), EVERYWHERE)
    spans = {f"{partition_of(month)}_{n}": span for n, span in enumerate(replacement.shares.spans, start=1)}
    for name, span in spans.items():
        _create_table(connection, month, name, span)
    rows = _fill_shares(replacement, replacement.shares, spans)
    _join_shares(connection, month, spans)
    return rows


def add_missing_columns(connection: psycopg.Connection[Any], month: Month) -> None:
    """Within a transaction, add columns to the month's staging table that `weather` was given meanwhile.

    Another month's load may have brought the first values of a variable; a partition needs all columns.
    """
    _add_missing_columns(connection, sql.Identifier(_SCHEMA, partition_of(month)))


def _add_missing_columns(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    rows = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute a WHERE attrelid = 'weather'::regclass "
        "AND attnum > 0 AND NOT attisdropped AND NOT EXISTS (SELECT FROM pg_attribute s "
        "WHERE s.attrelid = %s::regclass AND s.attname = a.attname AND NOT s.attisdropped) ORDER BY attnum",
        (table.as_string(connection),),
    ).fetchall()
    for name, kind in rows:
        connection.execute(
            sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(table, sql.Identifier(name), sql.SQL(kind))
        )


def move_staging_to(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Within a transaction, move the month, and its shares if it has any, into `schema`."""
    for name in _members(connection, _SCHEMA, month):
        connection.execute(
            sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(sql.Identifier(_SCHEMA, name), sql.Identifier(schema))
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
        (sql.Identifier(schema, partition_of(month)).as_string(connection),),
    ).fetchall()
    # The tree of a table that neither is a partition nor has partitions is empty.
    return [name for (name,) in rows] or [partition_of(month)]


def _like_weather() -> sql.Composable:
    return sql.SQL("LIKE {} INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY").format(WEATHER)


def _create_table(connection: psycopg.Connection[Any], month: Month, name: str, span: LocationSpan) -> None:
    # In a transaction of its own: LIKE locks weather until the transaction ends. Replacing another month would wait for
    # that lock, and all readers behind it.
    with connection.transaction():
        connection.execute(_NO_WAIT)
        connection.execute(
            sql.SQL("CREATE TABLE {} ({}, CONSTRAINT {} CHECK ({}))").format(
                sql.Identifier(_SCHEMA, name),
                _like_weather(),
                sql.Identifier(f"{name}_{_BOUNDS}"),
                sql.SQL(" AND ").join([month_where(month), *_span_where(span)]),
            )
        )
        _give_to_owner_of_weather(connection, sql.Identifier(_SCHEMA, name))


def _give_to_owner_of_weather(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Give the table to the role that owns `weather`, of which this user is a member.

    If it stayed this user's, no other member could replace or drop the month.
    """
    row = connection.execute(
        "SELECT pg_get_userbyid(relowner) FROM pg_class "
        "WHERE oid = 'weather'::regclass AND pg_get_userbyid(relowner) <> current_user"
    ).fetchone()
    if row is not None:
        connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(table, sql.Identifier(row[0])))


def _span_where(span: LocationSpan) -> Iterable[sql.Composable]:
    if span == EVERYWHERE:
        return
    yield sql.SQL("location_id IS NOT NULL")
    if span.first is not None:
        yield sql.SQL("location_id >= {}").format(sql.Literal(span.first))
    if span.end is not None:
        yield sql.SQL("location_id < {}").format(sql.Literal(span.end))


def _fill(connection: psycopg.Connection[Any], replacement: Replacement, name: str, span: LocationSpan) -> int:
    table = sql.Identifier(_SCHEMA, name)
    with connection.transaction():
        connection.execute(_NO_WAIT)
        connection.execute(sql.SQL("TRUNCATE {}").format(table))  # FREEZE requires it in the same transaction
        rows = replacement.copy(connection, table, freeze=True, span=span)
        create_location_index(connection, table)
        connection.execute(sql.SQL("ANALYZE {}").format(table))
    return rows


def _fill_shares(replacement: Replacement, shares: Shares, spans: dict[str, LocationSpan]) -> int:
    """Fill the staging tables, one per span by name, from one connection each; return the number of rows."""

    def fill(number: int, name: str, span: LocationSpan) -> int:
        with shares.connect(f"worker {number}") as connection:
            return _fill(connection, replacement, name, span)

    with ThreadPoolExecutor(max_workers=len(spans)) as pool:
        fills = [pool.submit(fill, number, *table) for number, table in enumerate(spans.items(), start=1)]
        try:
            return sum(one.result() for one in as_completed(fills))
        except BaseException:
            shares.stop()
            raise


def _join_shares(connection: psycopg.Connection[Any], month: Month, spans: dict[str, LocationSpan]) -> None:
    """Make the filled tables partitions of one staging table of the month."""
    whole = sql.Identifier(_SCHEMA, partition_of(month))
    with connection.transaction():
        connection.execute(
            sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (location_id)").format(whole, _like_weather())
        )
        _give_to_owner_of_weather(connection, whole)
        create_location_index(connection, whole)
        for name, span in spans.items():
            _add_missing_columns(connection, sql.Identifier(_SCHEMA, name))
            connection.execute(
                sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    whole,
                    sql.Identifier(_SCHEMA, name),
                    sql.SQL("MINVALUE") if span.first is None else sql.Literal(span.first),
                    sql.SQL("MAXVALUE") if span.end is None else sql.Literal(span.end),
                )
            )
