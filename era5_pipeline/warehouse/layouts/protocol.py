"""How the table `weather` is cut by time and how a month of it is replaced: one interface, one class a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from psycopg import sql

from era5_pipeline.sqlfiles import read_sql

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.months import Month

WEATHER = sql.Identifier("weather")


class CopyInto(Protocol):
    """Copies the flat month into a table, on a connection, and gives the rows that the server took."""

    def __call__(self, connection: psycopg.Connection, table: sql.Identifier, *, freeze: bool) -> int: ...


class Layout(Protocol):
    """What a kind of server offers for `weather`."""

    name: ClassVar[str]

    def create(self, connection: psycopg.Connection) -> None:
        """Create the table, which does not exist yet."""
        ...

    def prepare(self, connection: psycopg.Connection, month: Month) -> None:
        """What must be committed before the transaction that replaces the month, so that loads do not queue."""
        ...

    def replace(self, connection: psycopg.Connection, month: Month, copy: CopyInto) -> int:
        """Within a transaction: put what `copy` copies in the month's place; gives the rows copied.

        Until commit, readers see what was there.
        """
        ...

    def settle(self, connection: psycopg.Connection, month: Month) -> None:
        """After commit: statistics, and the space of what was replaced."""
        ...


def create_weather(connection: psycopg.Connection, partitioning: sql.Composable) -> None:
    """Create the table itself, with what the layout says about its partitioning."""
    connection.execute(sql.SQL(read_sql("weather")).format(partitioning=partitioning))  # type: ignore[arg-type]


def create_location_index(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """Index locations by BRIN: rows are location-major, so that 131 kB find a location's month in under a millisecond.

    16 pages a range hold about 1,700 rows: two or three locations of a month.
    """
    connection.execute(
        sql.SQL("CREATE INDEX ON {} USING brin (location_id) WITH (pages_per_range = 16)").format(table)
    )


def month_where(month: Month) -> sql.Composed:
    """The month's rows, as a condition with literals (a planner that sees them leaves other months out)."""
    return sql.SQL("time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
