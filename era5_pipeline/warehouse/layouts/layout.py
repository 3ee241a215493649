"""What every layout of the table `weather` offers: creating the table, and replacing a month of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from psycopg import sql

from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from era5_pipeline.model.months import Month

WEATHER = sql.Identifier("weather")
# With latitude and longitude as well, building the index took 20 % of a load's CPU time more (docs/decisions.md).
_INDEX_COLUMNS = ("location_id",)


@dataclass(frozen=True)
class LocationSpan:
    """Locations from `first` to before `end`; None means no bound."""

    first: int | None = None
    end: int | None = None


EVERYWHERE = LocationSpan()


class CopyInto(Protocol):
    """A flat month that can be copied into a table."""

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the rows of these locations; return how many the server accepted."""
        ...


@dataclass(frozen=True)
class Shares:
    """The shares of a month that several connections load, one span each.

    `connect` opens a connection with the name given; `stop` makes all copies under way fail, once one has failed.
    """

    spans: tuple[LocationSpan, ...]
    connect: Callable[[str], psycopg.Connection[Any]]
    stop: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Replacement:
    """The new contents of a month, and how to put them in place.

    `finish` is called with the number of rows copied, in the transaction that makes the new rows visible: what it
    writes is committed with them, and what it raises rolls them back. If other sessions lock the table, `on_wait` is
    called with a message that names one, and the load waits up to `lock_timeout_seconds`.

    `shares` is None where one connection loads the month, as on every layout without `shares_months`.
    """

    month: Month
    copy: CopyInto
    finish: Callable[[int], None] = lambda rows: None
    on_wait: Callable[[str], None] = lambda message: None
    lock_timeout_seconds: float = 60.0
    shares: Shares | None = None


class Layout(Protocol):
    """How the table is divided by time, and how a month of it is replaced, on one kind of server."""

    name: ClassVar[str]
    # Whether several connections can load one month that is still replaced in one transaction.
    shares_months: ClassVar[bool]

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table, which must not exist yet."""
        ...

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Replace the month by the rows copied; return their number.

        Until the commit, and if anything fails, readers see the old contents. Loads of other months at the same time do
        not wait for each other's rows.

        Raises:
            MonthLockedError: if readers held the table for too long.
            psycopg.Error: any other error of the server.
        """
        ...

    def settle(self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool) -> tuple[str, ...]:
        """After the commit, update statistics and free the space of replaced rows; return notes for the user."""
        ...


def create_weather(connection: psycopg.Connection[Any], partitioning: sql.Composable) -> None:
    """Create the table itself, with the layout's partitioning clause."""
    connection.execute(weather_table(partitioning))


def weather_table(partitioning: sql.Composable) -> sql.Composed:
    """Compose the statement that creates the table, with a column for each variable."""
    columns = [sql.SQL("{} real").format(sql.Identifier(variable.column)) for variable in VARIABLES]
    return sql.SQL(read_sql("weather")).format(variables=sql.SQL(",\n    ").join(columns), partitioning=partitioning)


def create_location_index(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Create a BRIN index on locations, with the columns that the index of `weather` has if there is one.

    Rows are location-major, so an index of 131 kB finds a location's month in under a millisecond. A range of 16 pages
    holds about 1,700 rows: two or three locations of a month.
    """
    connection.execute(
        sql.SQL("CREATE INDEX ON {} USING brin ({}) WITH (pages_per_range = 16)").format(
            table, sql.SQL(", ").join(map(sql.Identifier, _index_columns(connection)))
        )
    )


def _index_columns(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """The columns of the BRIN index on locations: those of `weather`, to which a user may have added some.

    A partition needs the index that its table has: if it lacked that, attaching it would build it while readers wait.
    """
    row = connection.execute(
        "SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
        "JOIN pg_attribute a ON a.attrelid = i.indexrelid WHERE i.indrelid = 'weather'::regclass "
        "AND m.amname = 'brin' AND i.indexprs IS NULL GROUP BY i.indexrelid "
        "HAVING bool_or(a.attname = 'location_id') ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    return _INDEX_COLUMNS if row is None else tuple(row[0])


def month_where(month: Month) -> sql.Composed:
    """The condition for the month's rows, with literals, so that the planner can exclude other months."""
    return sql.SQL("time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
