"""Summaries of months that were loaded without them, computed by the server from their hours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.flat.monthly import KEYS, WIND, WIND_SPEED, has_wind, summary_columns
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse import ledger
from era5_pipeline.warehouse.layouts.layout import index_new_pages, locations_where, month_where, table_of
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.load_month import prepare_session
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline.warehouse.monthly_rows import analyze_summaries, delete_summaries, month_before
from era5_pipeline.warehouse.monthly_tables import (
    has_year,
    last_hour_name,
    last_hours_of,
    make_ready,
    summaries_of,
    year_partition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import date

    import psycopg

    from era5_pipeline.flat.monthly import Statistic, SummaryColumn
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents

# `first` is the value at 00:00 on the 1st, `sum` and `sum_hours` cover all other hours.
_EXPRESSIONS: dict[Statistic, str] = {
    "mean": "avg({column}::float8)",
    "min": "min({column})",
    "max": "max({column})",
    "hours": "count({column})",
    "sum": "sum({column}::float8) FILTER (WHERE time > {start})",
    "sum_hours": "count({column}) FILTER (WHERE time > {start})",
    "first": "{column}",
}
_WIND_SPEED = "avg(sqrt({0}::float8 * {0}::float8 + {1}::float8 * {1}::float8))"


def months_without_summaries(months: Iterable[MonthContents]) -> list[Month]:
    """The months with a part in the table that has no summaries."""
    return [contents.month for contents in months if any(not part.has_summaries for part in contents.parts)]


def fill_month(
    warehouse: Warehouse,
    month: Month,
    *,
    lock_timeout_seconds: int = 600,
    on_wait: Callable[[str], None] = lambda _: None,
) -> int:
    """Compute missing summaries of the month's parts, each in a transaction; return the number of locations.

    The tables must exist. Reads the hours of these parts once.
    """
    errors = partial(server_errors, f"summarising {month}", afterwards="The hours are unchanged.")
    with errors(), warehouse.connect() as connection:
        prepare_session(connection, lock_timeout_seconds)
        with month_lock(connection, month, timeout_seconds=lock_timeout_seconds, on_wait=on_wait):
            filled = 0
            for part in ledger.read_overlapping(connection, month):
                if not part.has_summaries:
                    _fill_part(connection, part, lock_timeout_seconds, on_wait)
                    filled += part.locations
            analyze_summaries(connection, month)
            return filled


def _fill_part(
    connection: psycopg.Connection[Any],
    part: LedgerEntry,
    lock_timeout_seconds: int,
    on_wait: Callable[[str], None],
) -> None:
    held = _held(connection, part)
    make_ready(connection, part.month, held, timeout_seconds=lock_timeout_seconds, on_wait=on_wait)
    with connection.transaction():
        delete_summaries(connection, part.month, part.location_ids)
        year = year_partition(connection, part.month)
        for table, computed in (
            (year, _summaries(connection, part, held)),
            (last_hours_of(connection), _last_hours(connection, part, held)),
        ):
            connection.execute(sql.SQL("INSERT INTO {} ({}) {}").format(table, computed.columns, computed.query))
        index_new_pages(connection, year)
        ledger.record_summaries(connection, part)


def _held(connection: psycopg.Connection[Any], part: LedgerEntry) -> list[str]:
    """The part's columns that are in the table."""
    there = {variable.column for variable in variables_in_table(connection)}
    return [column for column in part.column_names if column in there]


def count_other_summaries(connection: psycopg.Connection[Any], part: LedgerEntry) -> int:
    """Count the part's locations whose stored summaries are not those of their hours. Reads the hours once."""
    held = _held(connection, part)
    year = year_partition(connection, part.month) if has_year(connection, part.month) else summaries_of(connection)
    others = [
        sql.SQL(
            "SELECT location_id FROM ({query}) c({columns}) FULL JOIN "
            "(SELECT {columns} FROM {table} WHERE month = {month} AND {locations}) s USING (location_id) WHERE {differ}"
        ).format(
            query=computed.query,
            columns=computed.columns,
            table=table,
            month=sql.Literal(computed.month),
            locations=locations_where(part.location_ids),
            differ=_differ(computed.names),
        )
        for table, computed in (
            (year, _summaries(connection, part, held)),
            (last_hours_of(connection), _last_hours(connection, part, held)),
        )
    ]
    row = connection.execute(
        sql.SQL("SELECT count(DISTINCT location_id) FROM ({}) AS other").format(sql.SQL(" UNION ALL ").join(others))
    ).fetchone()
    return int(row[0]) if row is not None else 0


def _differ(names: Sequence[str]) -> sql.Composable:
    """The condition that any statistic differs, by more than the order in which a mean or sum is added up."""
    terms = [
        sql.SQL(
            "(c.{0} IS NULL) <> (s.{0} IS NULL) "
            "OR abs(c.{0}::float8 - s.{0}::float8) > 1e-9 * greatest(1, abs(c.{0}::float8))"
        ).format(sql.Identifier(name))
        for name in names
        if name not in KEYS
    ]
    return sql.SQL(" OR ").join([sql.SQL("c.month IS NULL OR s.month IS NULL"), *terms])


@dataclass(frozen=True)
class _Computed:
    """The query that computes the rows of a table for a month, and the names of their columns."""

    month: date
    names: list[str]
    query: sql.Composed

    @property
    def columns(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.names))


def _summaries(connection: psycopg.Connection[Any], part: LedgerEntry, held: Sequence[str]) -> _Computed:
    columns = [column for column in summary_columns(held) if column.statistic != "first"]
    month, names = part.month.start.date(), [*KEYS, *(column.name for column in columns)]
    expressions = [
        *(sql.SQL("location_id"), sql.Literal(month)),
        *(_expression(column, part.month) for column in columns),
    ]
    if has_wind(held):
        names.append(WIND_SPEED)
        expressions.append(sql.SQL(_WIND_SPEED).format(*map(sql.Identifier, WIND)))
    query = sql.SQL("SELECT {} FROM {} WHERE {} AND {} GROUP BY location_id").format(
        sql.SQL(", ").join(expressions),
        table_of(connection),
        month_where(part.month),
        locations_where(part.location_ids),
    )
    return _Computed(month, names, query)


def _last_hours(connection: psycopg.Connection[Any], part: LedgerEntry, held: Sequence[str]) -> _Computed:
    """The part's first hour, which is the last one of the previous month."""
    columns = [column for column in summary_columns(held) if column.statistic == "first"]
    month, values = month_before(part.month), [_expression(column, part.month) for column in columns]
    query = sql.SQL("SELECT {} FROM {} WHERE time = {} AND {} AND num_nonnulls({}) > 0").format(
        sql.SQL(", ").join([sql.Literal(month), sql.SQL("location_id"), *values]),
        table_of(connection),
        sql.Literal(part.month.start),
        locations_where(part.location_ids),
        sql.SQL(", ").join(values or [sql.SQL("NULL")]),
    )
    return _Computed(month, ["month", "location_id", *map(last_hour_name, columns)], query)


def _expression(column: SummaryColumn, month: Month) -> sql.Composable:
    return sql.SQL(_EXPRESSIONS[column.statistic]).format(
        column=sql.Identifier(column.variable.column), start=sql.Literal(month.start)
    )
