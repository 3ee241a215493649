"""A month filled aside, in the ledger's schema, where no reader looks: as one table, or in shares of the locations.

COPY FREEZE applies in the transaction that empties the table: with `wal_level=minimal` it writes no WAL, and its rows
never need vacuuming. Several connections cannot do that to one table. So each fills a table of its own, with its index,
and the tables become partitions by `location_id` of the month: what takes time happens side by side, what readers could
see does not.
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
    from era5_pipeline.warehouse.layouts.layout import Replacement

_SCHEMA = "era5"
# What spares ATTACH PARTITION a scan of all rows; gone once the month is in its place.
_BORDERS = "borders"


def partition_of(month: Month) -> str:
    """The name of the month's partition, `weather_2023_07`; its shares are called `weather_2023_07_1` and so on."""
    return f"weather_{month.year:04d}_{month.month:02d}"


def remove_aside(connection: psycopg.Connection[Any], month: Month) -> None:
    """Drop what a load left aside that was killed between filling and exchanging."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND c.relname ~ %s",
        (_SCHEMA, f"^{partition_of(month)}(_[0-9]+)?$"),
    ).fetchall()
    for (name,) in rows:
        # Shares go with their month.
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(_SCHEMA, name)))


def fill_aside(connection: psycopg.Connection[Any], replacement: Replacement) -> int:
    """Fill the month aside and commit it; gives the rows copied."""
    month = replacement.month
    if len(replacement.spans) == 1:
        _create_table(connection, month, partition_of(month), EVERYWHERE)
        return _fill(connection, replacement, partition_of(month), EVERYWHERE)
    shares = {f"{partition_of(month)}_{n}": span for n, span in enumerate(replacement.spans, start=1)}
    for name, span in shares.items():
        _create_table(connection, month, name, span)
    rows = _fill_shares(replacement, shares)
    whole = sql.Identifier(_SCHEMA, partition_of(month))
    with connection.transaction():
        connection.execute(
            sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (location_id)").format(whole, _like_weather())
        )
        create_location_index(connection, whole)
        for name, span in shares.items():
            connection.execute(
                sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    whole,
                    sql.Identifier(_SCHEMA, name),
                    sql.SQL("MINVALUE") if span.first is None else sql.Literal(span.first),
                    sql.SQL("MAXVALUE") if span.end is None else sql.Literal(span.end),
                )
            )
    return rows


def move_aside_to(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Within a transaction: move the month, and its shares if it has any, into `schema`."""
    for name in _members(connection, _SCHEMA, month):
        connection.execute(
            sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(sql.Identifier(_SCHEMA, name), sql.Identifier(schema))
        )


def drop_borders(connection: psycopg.Connection[Any], month: Month, schema: str) -> None:
    """Within a transaction: drop the constraints that only attaching needed."""
    names = _members(connection, schema, month)
    for name in names[1:] or names:
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                sql.Identifier(schema, name), sql.Identifier(f"{name}_{_BORDERS}")
            )
        )


def _members(connection: psycopg.Connection[Any], schema: str, month: Month) -> list[str]:
    """The month's table, then its shares."""
    rows = connection.execute(
        "SELECT relname FROM pg_partition_tree(%s::regclass) t JOIN pg_class c ON c.oid = t.relid ORDER BY level, 1",
        (sql.Identifier(schema, partition_of(month)).as_string(connection),),
    ).fetchall()
    # A table that is no partition, and has none, is no tree either.
    return [name for (name,) in rows] or [partition_of(month)]


def _like_weather() -> sql.Composable:
    return sql.SQL("LIKE {} INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY").format(WEATHER)


def _create_table(connection: psycopg.Connection[Any], month: Month, name: str, span: LocationSpan) -> None:
    # A statement of its own: LIKE locks weather until the end of its transaction, and whoever replaces another month
    # would wait for that, with all readers behind.
    connection.execute(
        sql.SQL("CREATE TABLE {} ({}, CONSTRAINT {} CHECK ({}))").format(
            sql.Identifier(_SCHEMA, name),
            _like_weather(),
            sql.Identifier(f"{name}_{_BORDERS}"),
            sql.SQL(" AND ").join([month_where(month), *_span_where(span)]),
        )
    )


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
        connection.execute(sql.SQL("TRUNCATE {}").format(table))  # what FREEZE asks for
        rows = replacement.copy(connection, table, freeze=True, span=span)
        create_location_index(connection, table)
        connection.execute(sql.SQL("ANALYZE {}").format(table))
    return rows


def _fill_shares(replacement: Replacement, shares: dict[str, LocationSpan]) -> int:
    def fill(number: int, name: str, span: LocationSpan) -> int:
        with replacement.connect(f"worker {number}") as connection:
            return _fill(connection, replacement, name, span)

    with ThreadPoolExecutor(max_workers=len(shares)) as pool:
        filling = [pool.submit(fill, number, *share) for number, share in enumerate(shares.items(), start=1)]
        try:
            return sum(share.result() for share in as_completed(filling))
        except BaseException:
            replacement.stop()
            raise
