"""Plain PostgreSQL: a partition a month, loaded aside and attached in the old one's place.

The new partition is created in the transaction that fills it, so that COPY FREEZE applies: with `wal_level=minimal` it
writes no WAL, and its rows never need vacuuming. Readers wait only while the two partitions change places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from psycopg import sql

from era5_pipeline.warehouse.layouts.protocol import (
    WEATHER,
    CopyInto,
    create_location_index,
    create_weather,
    month_where,
)

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.months import Month


def partition_of(month: Month) -> str:
    """The name of the month's partition, `weather_2023_07`."""
    return f"weather_{month.year:04d}_{month.month:02d}"


class MonthPartitions:
    """A partition a month."""

    name: ClassVar[str] = "partitions"

    def create(self, connection: psycopg.Connection) -> None:
        """Create the partitioned table and its index, which every partition then gets."""
        with connection.transaction():
            create_weather(connection, sql.SQL("PARTITION BY RANGE (time)"))
            create_location_index(connection, WEATHER)

    def prepare(self, connection: psycopg.Connection, month: Month) -> None:
        """Nothing: a load creates its own table, which no other load waits for."""

    def replace(self, connection: psycopg.Connection, month: Month, copy: CopyInto) -> int:
        """Load aside, then let the two change places; the locks that readers wait for are taken last."""
        partition = partition_of(month)
        check = f"{partition}_is_the_month"
        staging_table = sql.Identifier(f"{partition}_load")
        # The same condition as a CHECK spares ATTACH a scan of the whole month.
        connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS, CONSTRAINT {} CHECK ({}))").format(
                staging_table, WEATHER, sql.Identifier(check), month_where(month)
            )
        )
        rows = copy(connection, staging_table, freeze=True)
        create_location_index(connection, staging_table)
        connection.execute(sql.SQL("ANALYZE {}").format(staging_table))
        if connection.execute("SELECT to_regclass(%s)", (partition,)).fetchone() != (None,):
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(partition)))
        connection.execute(
            sql.SQL("ALTER TABLE {} RENAME TO {}").format(staging_table, sql.Identifier(partition))
        )
        connection.execute(
            sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                WEATHER, sql.Identifier(partition), sql.Literal(month.start), sql.Literal(month.end)
            )
        )
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(
                sql.Identifier(partition), sql.Identifier(check)
            )
        )
        return rows

    def settle(self, connection: psycopg.Connection, month: Month) -> None:
        """Nothing is left to do: the rows are frozen and analyzed, and the old partition's space was given back."""
