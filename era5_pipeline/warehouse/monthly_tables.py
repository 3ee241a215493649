"""Monthly summaries in the database: their tables, the same on every layout, and the view `weather_monthly`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql

from era5_pipeline.flat.monthly import is_total, summary_columns
from era5_pipeline.model.variables import BY_COLUMN, in_table_order
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import grant_to_table_readers, transfer_to_table_owner
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.layout import loads_schema
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table, with_short_lock
from era5_pipeline.warehouse.locks import schema_lock_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import psycopg

    from era5_pipeline.flat.monthly import Statistic, SummaryColumn
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

# --- The view `weather_monthly`: replaced whenever the summary table gets columns ---
#
# Its columns keep their order, and those of other variables follow, so PostgreSQL can replace the view in place, with
# its privileges, and views that others built on it stay.


# NULL if the month's own load did not bring the variable.
_HOURS = "s.{sum_hours} + (n.{last} IS NOT NULL)::integer"
_TOTAL_HOURS = "(" + _HOURS + ")::smallint AS {sum_hours}"
_TOTAL = "CASE WHEN " + _HOURS + " > 0 THEN coalesce(s.{sum}, 0) + coalesce(n.{last}, 0) END AS {sum}"


def create_view(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the view beside `weather`, leaving foreign relations of that name alone."""
    schema, is_foreign, is_new = _found(connection)
    if is_foreign:
        return
    view, variables = sql.Identifier(schema, f"{dataset_of(connection).table}_monthly"), _variables(connection)
    expressions = [expression for variable in variables for expression in _expressions(variable)]
    connection.execute(
        sql.SQL(read_sql("weather_monthly", dataset_of(connection))).format(
            view=view,
            columns=sql.SQL(",\n       ").join(expressions),
            comments=_comments(view, variables),
        )
    )
    if is_new:
        transfer_to_table_owner(connection, view, "VIEW")
        grant_to_table_readers(connection, view)


def _found(connection: psycopg.Connection[Any]) -> tuple[str, bool, bool]:
    """The schema of `weather`, and whether the view's name there is taken by a foreign relation, or is free."""
    dataset = dataset_of(connection)
    row = connection.execute(
        dataset.sql(
            "SELECT n.nspname, v.oid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d "
            "ON d.objid = r.oid WHERE r.ev_class = v.oid AND d.refobjid = '{schema}.monthly_summary'::regclass), "
            "v.oid IS NULL FROM pg_class w JOIN pg_namespace n ON n.oid = w.relnamespace "
            "LEFT JOIN pg_class v ON v.relnamespace = n.oid AND v.relname = %s WHERE w.oid = '{weather}'::regclass"
        ),
        (f"{dataset.table}_monthly",),
    ).fetchone()
    return row if row is not None else ("public", False, True)


def _variables(connection: psycopg.Connection[Any]) -> Sequence[Variable]:
    """The variables with summaries in the table, in the order in which they were added."""
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT left(attname, -5) FROM pg_attribute WHERE attrelid = '{schema}.monthly_summary'::regclass "
            "AND attnum > 0 AND NOT attisdropped AND attname LIKE '%\\_mean' ORDER BY attnum"
        )
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


# --- The tables of monthly summaries, the same on every layout: creating them, a year's partition, more columns ---
#
# `era5.monthly_summary` has one row per location and month, `era5.monthly_last_hour` the last hour of its totals, which
# comes with the next month.


_NAME = "monthly_summary"
_TYPES: dict[Statistic, str] = {
    "mean": "double precision",
    "sum": "double precision",
    "min": "real",
    "max": "real",
    "hours": "smallint",
    "sum_hours": "smallint",
    "first": "real",
}
_YEAR_COMMENT = "A year of {schema}.monthly_summary"
# Wide types first: eight-byte columns after two-byte ones would be padded.
_STORED = tuple(_TYPES)
_COMMENTS: dict[Statistic, str] = {
    "mean": "mean of the month's hours",
    "min": "least value of the month's hours",
    "max": "greatest value of the month's hours",
    "hours": "number of the month's hours that have a value",
    "sum": "sum of the hours from 01:00 on the 1st to 23:00 on the last day",
    "sum_hours": "number of hours in that sum",
    "first": "value at 00:00 of the next month",
}


def summaries_of(connection: psycopg.Connection[Any]) -> sql.Identifier:
    """The table of summaries of the connection's data set."""
    return sql.Identifier(dataset_of(connection).schema, _NAME)


def last_hours_of(connection: psycopg.Connection[Any]) -> sql.Identifier:
    """The table of months' last hours of the connection's data set."""
    return sql.Identifier(dataset_of(connection).schema, "monthly_last_hour")


def create_summaries(connection: psycopg.Connection[Any]) -> None:
    """Create missing tables and the view, with comments, within a transaction.

    They have the same owner as `weather`, and its readers may read the view.
    """
    variables = variables_in_table(connection)
    columns, last_hours = _columns(variables)
    connection.execute(
        sql.SQL(read_sql("monthly_summary", dataset_of(connection))).format(
            columns=sql.SQL(",\n    ").join(one.definition for one in columns),
            last_hours=sql.SQL(",\n    ").join(one.definition for one in last_hours),
        )
    )
    for table, its_columns in ((summaries_of(connection), columns), (last_hours_of(connection), last_hours)):
        transfer_to_table_owner(connection, table, "TABLE")
        _comment(connection, table, its_columns)
    _comment_years(connection)
    create_view(connection)


def has_summaries_table(connection: psycopg.Connection[Any]) -> bool:
    """Return True if the table exists; without it, loads write no summaries."""
    return _exists(connection, _NAME)


def year_partition(connection: psycopg.Connection[Any], month: Month) -> sql.Identifier:
    """The partition with the month's summaries, such as `era5_loads.monthly_summary_2023`; it must exist.

    Older databases have them in the schema `era5`.
    """
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT nspname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid "
            "JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE inhparent = '{schema}.monthly_summary'::regclass AND relname = %s"
        ),
        (_year_name(month),),
    ).fetchone()
    return sql.Identifier(str(row[0]) if row is not None else dataset_of(connection).schema, _year_name(month))


def has_year(connection: psycopg.Connection[Any], month: Month) -> bool:
    """Return True if the month's year has a partition."""
    return _exists(connection, _year_name(month))


def is_ready(connection: psycopg.Connection[Any], month: Month, columns: Iterable[str]) -> bool:
    """Return True if the month's year has a partition with the columns for these variables."""
    return not _lacking(connection, _year_name(month), columns)


def make_ready(
    connection: psycopg.Connection[Any],
    month: Month,
    columns: Iterable[str],
    *,
    timeout_seconds: float,
    on_wait: Callable[[str], None],
) -> None:
    """Create the partition of the month's year, and the columns for these variables, if missing.

    Each uses its own short transaction before the load, so that loads of other months do not wait for it. The
    connection must be in autocommit mode.
    """
    lacking, view = _lacking(connection, _NAME, columns), f"{dataset_of(connection).table}_monthly"
    if lacking:
        names = ", ".join(variable.column for variable in lacking)
        with_short_lock(
            connection,
            lambda: _add_columns(connection, lacking),
            ready=f"columns of {view} are to be added ({names})",
            refused=f"columns of {view} ({names}) cannot be added",
            timeout_seconds=timeout_seconds,
            on_wait=on_wait,
        )
    if not has_year(connection, month):
        with_short_lock(
            connection,
            lambda: _make_year(connection, month),
            ready=f"{view} is to get the year {month.year}",
            refused=f"{view} cannot get the year {month.year}",
            timeout_seconds=timeout_seconds,
            on_wait=on_wait,
        )


def _lacking(connection: psycopg.Connection[Any], table: str, columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns that are not in the table, if it exists."""
    dataset = dataset_of(connection)
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = "
        "(SELECT oid FROM pg_class WHERE relname = %s AND relnamespace IN (to_regnamespace(%s), to_regnamespace(%s)))",
        (table, dataset.schema, dataset.loads_schema),
    ).fetchall()
    held = {name for (name,) in rows}
    return tuple(variable for variable in in_table_order(columns) if f"{variable.column}_mean" not in held)


def _add_columns(connection: psycopg.Connection[Any], variables: Sequence[Variable]) -> None:
    columns, last_hours = _columns(variables)
    for table, its_columns in ((summaries_of(connection), columns), (last_hours_of(connection), last_hours)):
        # Another load may have added them in the meantime.
        added = [sql.SQL("ADD COLUMN IF NOT EXISTS {}").format(one.definition) for one in its_columns]
        if added:
            connection.execute(sql.SQL("ALTER TABLE {} {}").format(table, sql.SQL(", ").join(added)))
        _comment(connection, table, its_columns)
    _comment_years(connection, [one.name for one in columns])
    create_view(connection)


def _comment_years(connection: psycopg.Connection[Any], columns: Sequence[str] | None = None) -> None:
    """Copy the table's comments to the partitions, for all columns or these."""
    dataset = dataset_of(connection)
    parameters = {"columns": columns, "comment": dataset.sql(_YEAR_COMMENT)}
    rows = connection.execute(read_sql("monthly_year_comments", dataset), parameters).fetchall()
    if rows:
        connection.execute("; ".join(statement for (statement,) in rows).encode())


def _make_year(connection: psycopg.Connection[Any], month: Month) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", schema_lock_key(connection))
    if has_year(connection, month):  # another load created it in the meantime
        return
    partition = sql.Identifier(loads_schema(connection), _year_name(month))
    # Create it separately and attach it: CREATE TABLE ... PARTITION OF would wait for every reader.
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(partition, summaries_of(connection)))
    connection.execute(
        sql.SQL("COMMENT ON TABLE {} IS {}").format(partition, sql.Literal(dataset_of(connection).sql(_YEAR_COMMENT)))
    )
    transfer_to_table_owner(connection, partition, "TABLE")
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            summaries_of(connection),
            partition,
            sql.Literal(f"{month.year:04d}-01-01"),
            sql.Literal(f"{month.year + 1:04d}-01-01"),
        )
    )


class _Column(NamedTuple):
    name: str
    type: str
    comment: str

    @property
    def definition(self) -> sql.Composed:
        return sql.SQL("{} {}").format(sql.Identifier(self.name), sql.SQL(self.type))


def _columns(variables: Iterable[Variable]) -> tuple[list[_Column], list[_Column]]:
    """The summary columns of these variables, in storage order, and those that are another month's last hour."""
    stored, last_hours = [], []
    found = summary_columns(variable.column for variable in variables)
    for column in sorted(found, key=lambda one: _STORED.index(one.statistic)):
        unit = "" if column.statistic.endswith("hours") else f"; {column.variable.unit}"
        comment = f"{column.variable.description}: {_COMMENTS[column.statistic]}{unit}"
        if column.statistic == "first":
            last_hours.append(_Column(last_hour_name(column), _TYPES["first"], comment))
        else:
            stored.append(_Column(column.name, _TYPES[column.statistic], comment))
    return stored, last_hours


def last_hour_name(column: SummaryColumn) -> str:
    """The name of a month's first value in the table of last hours, where it belongs to the previous month."""
    return f"{column.variable.column}_last"


def _comment(connection: psycopg.Connection[Any], table: sql.Identifier, columns: Iterable[_Column]) -> None:
    for column in columns:
        connection.execute(
            sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
                table, sql.Identifier(column.name), sql.Literal(column.comment)
            )
        )


def _year_name(month: Month) -> str:
    return f"{_NAME}_{month.year:04d}"


def _exists(connection: psycopg.Connection[Any], name: str) -> bool:
    dataset = dataset_of(connection)
    # Not by to_regclass, which may cache within a transaction that the table did not exist.
    return connection.execute(
        "SELECT EXISTS (SELECT FROM pg_class WHERE relname = %s "
        "AND relnamespace IN (to_regnamespace(%s), to_regnamespace(%s)))",
        (name, dataset.schema, dataset.loads_schema),
    ).fetchone() == (True,)
