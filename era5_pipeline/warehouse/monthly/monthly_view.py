"""The view `weather_monthly`: made anew whenever the table of summaries gets columns.

Its columns stay in their order, and those of other variables follow: so PostgreSQL replaces the view in place, with
its privileges, and views that others made over it stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.flat.monthly.summary_columns import is_total
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.views.view_access import give_to_owner_of_weather, let_readers_of_weather_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

    from era5_pipeline.model.variables import Variable

NAME = "weather_monthly"
# NULL where the month's own load did not bring the variable.
_HOURS = "s.{sum_hours} + (n.{last} IS NOT NULL)::integer"
_TOTAL_HOURS = "(" + _HOURS + ")::smallint AS {sum_hours}"
_TOTAL = "CASE WHEN " + _HOURS + " > 0 THEN coalesce(s.{sum}, 0) + coalesce(n.{last}, 0) END AS {sum}"


def create_view(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the view, beside `weather`; a relation of that name that is not ours is left alone."""
    schema, is_foreign, is_new = _found(connection)
    if is_foreign:
        return
    view, variables = sql.Identifier(schema, NAME), _variables(connection)
    expressions = [expression for variable in variables for expression in _expressions(variable)]
    connection.execute(
        sql.SQL(read_sql("weather_monthly")).format(
            view=view,
            columns=sql.SQL(",\n       ").join(expressions),
            comments=_comments(view, variables),
        )
    )
    if is_new:
        give_to_owner_of_weather(connection, view, "VIEW")
        let_readers_of_weather_read(connection, view)


def _found(connection: psycopg.Connection[Any]) -> tuple[str, bool, bool]:
    """The schema of `weather`, whether somebody else's relation has the view's name there, and whether none has it."""
    row = connection.execute(
        "SELECT n.nspname, v.oid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d "
        "ON d.objid = r.oid WHERE r.ev_class = v.oid AND d.refobjid = 'era5.monthly_summary'::regclass), v.oid IS NULL "
        "FROM pg_class w JOIN pg_namespace n ON n.oid = w.relnamespace "
        "LEFT JOIN pg_class v ON v.relnamespace = n.oid AND v.relname = %s WHERE w.oid = 'weather'::regclass",
        (NAME,),
    ).fetchone()
    return row if row is not None else ("public", False, True)


def _variables(connection: psycopg.Connection[Any]) -> Sequence[Variable]:
    """The variables of which the table has summaries, in the order in which they were added."""
    rows = connection.execute(
        "SELECT left(attname, -5) FROM pg_attribute WHERE attrelid = 'era5.monthly_summary'::regclass "
        "AND attnum > 0 AND NOT attisdropped AND attname LIKE '%\\_mean' ORDER BY attnum"
    ).fetchall()
    return [BY_COLUMN[name] for (name,) in rows if name in BY_COLUMN]


def _expressions(variable: Variable) -> Iterable[sql.Composable]:
    for statistic in ("mean", "min", "max", "hours"):
        yield sql.SQL("s.{}").format(sql.Identifier(f"{variable.column}_{statistic}"))
    if is_total(variable):
        names = {word: sql.Identifier(f"{variable.column}_{word}") for word in ("sum", "sum_hours", "last")}
        yield sql.SQL(_TOTAL).format(**names)
        yield sql.SQL(_TOTAL_HOURS).format(**names)


def _comments(view: sql.Identifier, variables: Iterable[Variable]) -> sql.Composed:
    comments = [
        (f"{variable.column}_{name}", f"{variable.description}: {text}")
        for variable in variables
        for name, text in _texts(variable)
    ]
    return sql.SQL("\n").join(
        sql.SQL("COMMENT ON COLUMN {}.{} IS {};").format(view, sql.Identifier(name), sql.Literal(comment))
        for name, comment in comments
    )


def _texts(variable: Variable) -> Iterable[tuple[str, str]]:
    yield "mean", f"mean of the month's hours; {variable.unit}"
    yield "min", f"least value of the month's hours; {variable.unit}"
    yield "max", f"greatest value of the month's hours; {variable.unit}"
    yield "hours", "number of the month's hours that have a value; month_hours if none is missing"
    if is_total(variable):
        yield (
            "sum",
            "total of the calendar month, of the hours that end from 01:00 on the 1st to 00:00 on the 1st of the next "
            f"month; {variable.unit}",
        )
        yield (
            "sum_hours",
            "number of hours in that total; month_hours if none is missing. The last one comes with the next month",
        )
