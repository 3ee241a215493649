"""The interface of all layouts of the table `weather`: creating it, and replacing a month in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import psycopg
from psycopg import sql

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.location_set import Rectangle
    from era5_pipeline.model.months import Month

# More rectangles than this are deleted differently: see `delete_rows`.
_MOST_RECTANGLES = 64
_IDS = 1000
# With latitude and longitude as well, building the index took 20 % more CPU time of a load (docs/decisions.md).
_INDEX_COLUMNS = ("location_id",)


@dataclass(frozen=True)
class LocationSpan:
    """Locations from `first` up to, but not including, `end`; None: unbounded."""

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
        """Copy the rows of these locations; return the number of accepted rows."""
        ...


# Loads a flat month as finished batches of the columnstore, within a savepoint, in place of these locations (None: of
# the whole month); returns the number of rows, or None if the rows must be copied instead.
AsBatches = Callable[[psycopg.Connection[Any], LocationSet | None], int | None]


@dataclass(frozen=True)
class Shares:
    """A month's shares, loaded by several connections, one span each.

    `connect` opens a connection with the given name; `stop` makes all running copies fail once one has failed.
    """

    spans: tuple[LocationSpan, ...]
    connect: Callable[[str], psycopg.Connection[Any]]
    stop: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Replacement:
    """The new contents of a month or of some of its locations, and how to put them in place.

    The new rows replace those of `locations` and all others stay; None: they replace the whole month.

    `finish` is called with the number of copied rows, in the transaction that makes the new rows visible: what it
    writes is committed with them, and an exception rolls them back. `summarise` is called once in that transaction
    before `finish`, and before any lock that blocks readers, as it may take seconds. If other sessions lock the table,
    `on_wait` is called with a message that names one, and the load waits up to `lock_timeout_seconds`.

    `shares` is None if one connection loads the month: on layouts without `shares_months`, and always if other
    locations stay. `batches` is an alternative to `copy`; None: not available.
    """

    month: Month
    copy: CopyInto
    locations: LocationSet | None = None
    finish: Callable[[int], None] = lambda rows: None
    summarise: Callable[[], None] = lambda: None
    on_wait: Callable[[str], None] = lambda message: None
    lock_timeout_seconds: float = 60.0
    shares: Shares | None = None
    batches: AsBatches | None = None


@dataclass(frozen=True)
class Removal:
    """Rows of a month to delete: those of `locations` (None: the whole month). The rest is as in `Replacement`."""

    month: Month
    locations: LocationSet | None = None
    finish: Callable[[], None] = lambda: None
    summarise: Callable[[], None] = lambda: None
    on_wait: Callable[[str], None] = lambda message: None
    lock_timeout_seconds: float = 60.0

    def delete(self, connection: psycopg.Connection[Any], *, by_ids: bool = False) -> None:
        """Delete the rows within a transaction, and do what belongs to it."""
        delete_rows(connection, self.month, self.locations, by_ids=by_ids)
        self.summarise()
        self.finish()


class Layout(Protocol):
    """How one kind of server partitions the table by time, and replaces rows of a month."""

    @property
    def name(self) -> str:
        """The name, by which `LAYOUTS` has it."""
        ...

    # Whether several connections can load a month that is still replaced in one transaction.
    shares_months: ClassVar[bool]

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table, which must not exist yet."""
        ...

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """Replace the month, or the named locations, by the copied rows; return their number.

        Until the commit, and if anything fails, readers see the old contents. Concurrent loads of other months do not
        wait for each other's rows.
        """
        ...

    def remove(self, connection: psycopg.Connection[Any], removal: Removal) -> None:
        """Delete rows of the month, and call `finish` in the same transaction."""
        ...

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """After the commit, update statistics and free the space of replaced rows; return notes for the user.

        `replaced` says whether rows were deleted, `is_whole` whether the whole month was replaced.
        """
        ...


def table_of(connection: psycopg.Connection[Any]) -> sql.Identifier:
    """The table of the connection's data set: `weather` of ERA5."""
    return sql.Identifier(dataset_of(connection).table)


def create_loads_schema(connection: psycopg.Connection[Any]) -> None:
    """Create the schema for tables of loads, within a transaction; the owner of `weather` may create tables there."""
    dataset = dataset_of(connection)
    schema = sql.Identifier(dataset.loads_schema)
    comment = dataset.sql(
        "Tables that loads create: months on their way into {weather}, and the years of {schema}.monthly_summary"
    )
    connection.execute(
        sql.SQL("CREATE SCHEMA IF NOT EXISTS {0}; COMMENT ON SCHEMA {0} IS {1}").format(schema, sql.Literal(comment))
    )
    row = connection.execute(
        dataset.sql(
            "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = '{weather}'::regclass "
            "AND relowner <> current_user::regrole"
        )
    ).fetchone()
    if row is not None:
        connection.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}").format(schema, sql.Identifier(row[0])))


def loads_schema(connection: psycopg.Connection[Any]) -> str:
    """The schema in which this user's loads create tables: `era5` in a database that has no other for it yet."""
    dataset = dataset_of(connection)
    row = connection.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname = %s AND has_schema_privilege(oid, 'CREATE')",
        (dataset.loads_schema,),
    ).fetchone()
    return dataset.schema if row is None else str(row[0])


def create_weather(connection: psycopg.Connection[Any], partitioning: sql.Composable) -> None:
    """Create the table itself, with the layout's partitioning clause."""
    connection.execute(weather_table(partitioning, dataset_of(connection)))


def weather_table(partitioning: sql.Composable, dataset: Dataset = ERA5) -> sql.Composed:
    """Compose the statement that creates the table with a column per default variable."""
    columns = [sql.SQL("{} real").format(sql.Identifier(column)) for column in dataset.catalogue.default_columns]
    return sql.SQL(read_sql("weather", dataset)).format(
        variables=sql.SQL(",\n    ").join(columns), partitioning=partitioning
    )


def create_location_index(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Create a BRIN index on locations, with the same columns as the index of `weather`, if it has one.

    Rows are location-major, so an index of 131 kB finds a location's month in under a millisecond. A range of 16 pages
    holds about 1,700 rows: two or three locations of a month.
    """
    connection.execute(
        sql.SQL("CREATE INDEX ON {} USING brin ({}) WITH (pages_per_range = 16)").format(
            table, sql.SQL(", ").join(map(sql.Identifier, _index_columns(connection)))
        )
    )


def _index_columns(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """The columns of the BRIN index on locations: those of `weather`, which users may have extended.

    A partition needs its table's index: if missing, attaching would build it while readers wait.
    """
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
            "JOIN pg_attribute a ON a.attrelid = i.indexrelid WHERE i.indrelid = '{weather}'::regclass "
            "AND m.amname = 'brin' AND i.indexprs IS NULL GROUP BY i.indexrelid "
            "HAVING bool_or(a.attname = 'location_id') ORDER BY count(*) DESC LIMIT 1"
        )
    ).fetchone()
    return _INDEX_COLUMNS if row is None else tuple(row[0])


def delete_rows(
    connection: psycopg.Connection[Any], month: Month, locations: LocationSet | None, *, by_ids: bool = False
) -> None:
    """Delete the rows of these locations (None: of the whole month), with one statement per rectangle.

    For more than `_MOST_RECTANGLES`, one statement deletes all; with `by_ids`, one per thousand ids, the only form in
    which TimescaleDB deletes compressed batches without decompressing them.
    """
    if locations is None:
        conditions: Iterable[sql.Composable] = (sql.SQL("true"),)
    elif len(locations.rectangles) <= _MOST_RECTANGLES:
        conditions = map(_rectangle_where, locations.rectangles)
    elif by_ids:
        ids = locations.ids().tolist()
        conditions = (
            sql.SQL("location_id = ANY({}::int[])").format(sql.Literal("{" + ",".join(map(str, portion)) + "}"))
            for portion in (ids[start : start + _IDS] for start in range(0, len(ids), _IDS))
        )
    else:
        conditions = (locations_where(locations),)
    for condition in conditions:
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE {} AND {}").format(table_of(connection), month_where(month), condition)
        )


def locations_where(locations: LocationSet) -> sql.Composed:
    """The condition for rows of these locations (at least one): a range for the index, then the set."""
    within = sql.SQL("location_id BETWEEN {} AND {}").format(
        sql.Literal(locations.first_id), sql.Literal(locations.last_id)
    )
    if len(locations.runs) == 1:
        return within
    return sql.SQL("{} AND location_id <@ {}::int4multirange").format(within, sql.Literal(locations.multirange))


def _rectangle_where(rectangle: Rectangle) -> sql.Composed:
    within = sql.SQL("location_id BETWEEN {} AND {}").format(
        sql.Literal(rectangle.first_id), sql.Literal(rectangle.last_id)
    )
    if rectangle.is_run:
        return within
    west, east = rectangle.grid.longitudes_of([rectangle.first_column, rectangle.last_column]).tolist()
    return sql.SQL("{} AND longitude BETWEEN {}::real AND {}::real").format(
        within, sql.Literal(west), sql.Literal(east)
    )


def vacuum(connection: psycopg.Connection[Any], tables: Callable[[], Iterable[sql.Composable]]) -> None:
    """Vacuum and analyze these tables after rows were deleted: they are gone even if this fails.

    Autovacuum does the same later.
    """
    with suppress(psycopg.Error):
        for table in tables():
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(table))


def index_new_pages(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Add this transaction's pages to the BRIN indexes of a table and its partitions, before the commit.

    VACUUM would do so only after the commit. Until then, a query for one location would read every new page: half a
    second for a month of 5 million rows.
    """
    connection.execute(
        "SELECT brin_summarize_new_values(indexrelid) FROM pg_index "
        "JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam "
        "WHERE (indrelid = %(table)s::regclass "
        "OR indrelid IN (SELECT relid FROM pg_partition_tree(%(table)s::regclass))) "
        "AND amname = 'brin' AND c.relkind = 'i'",
        {"table": table.as_string(connection)},
    )


def month_where(month: Month) -> sql.Composed:
    """The condition for the month's rows, with literals so that the planner can exclude other months."""
    return sql.SQL("time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
