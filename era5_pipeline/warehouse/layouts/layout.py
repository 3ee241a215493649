"""How the table `weather` is cut by time and how a month of it is replaced: one interface, one class a layout."""

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


@dataclass(frozen=True)
class LocationSpan:
    """Locations from `first` to before `end`; None: no border there."""

    first: int | None = None
    end: int | None = None


EVERYWHERE = LocationSpan()


class CopyInto(Protocol):
    """The flat month, to be copied into a table."""

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the rows of these locations; gives how many the server took."""
        ...


@dataclass(frozen=True)
class Replacement:
    """What is to take a month's place.

    `finish` is called with the rows copied, in the very transaction that readers see the new rows by: what it writes
    is there with them, and what it raises undoes them. Where readers are in the way, `on_wait` is told whose session it
    is, and the load waits up to `patience_seconds`.

    `spans` share the month out, one a connection: a layout that `shares_months` opens the others by `connect` (which is
    told what to call them), and tells `stop` where one fails, so that the others end. Other layouts have one span.
    """

    month: Month
    copy: CopyInto
    finish: Callable[[int], None]
    on_wait: Callable[[str], None]
    patience_seconds: float
    spans: tuple[LocationSpan, ...]
    connect: Callable[[str], psycopg.Connection[Any]]
    stop: Callable[[], None]


class Layout(Protocol):
    """What a kind of server offers for `weather`."""

    name: ClassVar[str]
    # Whether several connections can load one month, which is then still replaced in one transaction.
    shares_months: ClassVar[bool]

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table, which does not exist yet."""
        ...

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Put what is copied in the month's place; gives the rows copied.

        Until it is committed as a whole, readers see what was there; if it fails, they go on seeing that. Loads of
        other months, at the same time, do not wait for each other's rows.

        Raises:
            MonthLockedError: if readers were in the way for too long.
            psycopg.Error: whatever the server says.
        """
        ...

    def settle(self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool) -> tuple[str, ...]:
        """After commit: statistics, and the space of what was replaced; gives what the user should know."""
        ...


def create_weather(connection: psycopg.Connection[Any], partitioning: sql.Composable) -> None:
    """Create the table itself, with what the layout says about its partitioning."""
    connection.execute(weather_table(partitioning))


def weather_table(partitioning: sql.Composable) -> sql.Composed:
    """The statement that creates the table, with a column for each variable."""
    columns = [sql.SQL("{} real").format(sql.Identifier(variable.column)) for variable in VARIABLES]
    return sql.SQL(read_sql("weather")).format(variables=sql.SQL(",\n    ").join(columns), partitioning=partitioning)


def create_location_index(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Index locations by BRIN: rows are location-major, so that 131 kB find a location's month in under a millisecond.

    16 pages a range hold about 1,700 rows: two or three locations of a month.
    """
    connection.execute(sql.SQL("CREATE INDEX ON {} USING brin (location_id) WITH (pages_per_range = 16)").format(table))


def month_where(month: Month) -> sql.Composed:
    """The month's rows, as a condition with literals (a planner that sees them leaves other months out)."""
    return sql.SQL("time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
