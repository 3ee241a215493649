"""The table's variable columns: listing and adding them; changes that briefly lock the table."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg
from psycopg import sql

from era5_pipeline.model.errors import MonthLockedError, ServerUnsuitableError
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.runtime.progress import waiting
from era5_pipeline.warehouse.layouts.layout import table_of
from era5_pipeline.warehouse.locks import holder_of_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import psycopg

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.variables import Variable

# --- Changes that briefly lock the whole table, retried while readers use it ---
#
# While a session waits for such a lock, every later reader waits behind it. So each attempt waits briefly, and lets the
# readers pass before the next one.


_LOCK_MS = 500
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)


def with_short_lock(
    connection: psycopg.Connection[Any],
    change: Callable[[], None],
    *,
    ready: str,
    refused: str,
    timeout_seconds: float,
    on_wait: Callable[[str], None],
) -> None:
    """Call `change`, which locks the whole table, in a transaction; retry while other sessions use the table.

    `ready` and `refused` begin the messages: `2023-07 is ready`, `2023-07 cannot be replaced`.
    """
    table, deadline = dataset_of(connection).table, time.monotonic() + timeout_seconds
    for pause in chain(_PAUSES_SECONDS, repeat(_PAUSES_SECONDS[-1])):
        reader = _attempt(connection, change)
        if reader is None:
            return
        if time.monotonic() + pause > deadline:
            raise MonthLockedError(
                f"{refused} while the table {table} is in use by {reader}",
                remedy="Wait until that session ends its transaction, or end it; then run this again. "
                "The month is unchanged.",
            )
        if pause == _PAUSES_SECONDS[0]:
            on_wait(f"{ready}, but the table {table} is in use by {reader}: waiting up to {timeout_seconds:g} s")
        with waiting():
            time.sleep(pause)


def _attempt(connection: psycopg.Connection[Any], change: Callable[[], None]) -> str | None:
    """Call `change` in one transaction; return the session that blocks it, or None on success."""
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
            change()
    except pg.LockNotAvailable:
        return holder_of_tables(connection)
    return None


# --- The table's variable columns: listing them, and adding those of other catalogue variables ---
#
# A new table has the columns of the default variables. The first load with values of another variable adds its column.
# That changes the system catalogue alone: rows loaded before are not rewritten, and read as NULL.


_TYPE = "real"


@dataclass(frozen=True)
class TableColumn:
    """A column of the table `weather`: its type, and its comment, which shows who created it."""

    type: str
    comment: str | None


def table_columns(connection: psycopg.Connection[Any]) -> Mapping[str, TableColumn]:
    """The columns of the table `weather` by name; empty if it does not exist.

    Reads catalogues only, so as not to wait for a locked table.
    """
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = to_regclass('{weather}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    ).fetchall()
    return {name: TableColumn(kind, comment) for name, kind, comment in rows}


def variables_in_table(connection: psycopg.Connection[Any]) -> tuple[Variable, ...]:
    """The variables with a column of this project in the table, in table order."""
    columns = table_columns(connection)
    return in_table_order(name for name, column in columns.items() if _is_own(dataset_of(connection), name, column))


def missing_variables(connection: psycopg.Connection[Any], columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns that are not in the table yet."""
    dataset = dataset_of(connection)
    wanted, there = in_table_order(columns), table_columns(connection)
    for variable in wanted:
        column = there.get(variable.column)
        if column is not None and not _is_own(dataset, variable.column, column):
            raise _foreign(dataset, variable, column)
    return tuple(variable for variable in wanted if variable.column not in there)


def add_columns(
    connection: psycopg.Connection[Any],
    variables: Iterable[Variable],
    *,
    timeout_seconds: float,
    on_wait: Callable[[str], None],
) -> None:
    """Add a commented column for each variable; existing rows are NULL there and not rewritten.

    The connection must be in autocommit mode.
    """
    dataset, added = dataset_of(connection), tuple(variables)
    names = ", ".join(variable.column for variable in added)
    if not added:
        return

    def add() -> None:
        for variable in added:
            # Another load may have added it in the meantime. TimescaleDB accepts one column per statement.
            connection.execute(
                sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                    table_of(connection), sql.Identifier(variable.column), sql.SQL(_TYPE)
                )
            )
        connection.execute(comments_on(dataset, added))

    try:
        with_short_lock(
            connection,
            add,
            ready=f"columns are to be added ({names})",
            refused=f"columns ({names}) cannot be added",
            timeout_seconds=timeout_seconds,
            on_wait=on_wait,
        )
    except pg.InsufficientPrivilege as error:
        statements = " ".join(
            [
                *(f"ALTER TABLE {dataset.table} ADD COLUMN {variable.column} {_TYPE};" for variable in added),
                *comments_on(dataset, added).as_string(connection).splitlines(),
            ]
        )
        raise ServerUnsuitableError(
            f"the table {dataset.table} has no column {names.replace(', ', ' or ')}, and this user may not add it",
            remedy=f"Let its owner run: {statements} Then run this again. Nothing was changed.",
        ) from error


def comments_on(dataset: Dataset, variables: Iterable[Variable]) -> sql.Composed:
    """Compose the statements that comment the columns of these variables."""
    return sql.SQL("\n").join(
        sql.SQL(dataset.sql("COMMENT ON COLUMN {weather}.{} IS {};")).format(
            sql.Identifier(variable.column), sql.Literal(comment_on(dataset, variable))
        )
        for variable in variables
    )


def comment_on(dataset: Dataset, variable: Variable) -> str:
    """The comment of the variable's column: description, time reference, unit, and short name in the data set."""
    # The descriptions of totals, means and extremes name their hour.
    when = ", at that instant" if variable.step_type == "instant" else ""
    return f"{variable.description}{when}; {variable.unit}. {_mark(dataset, variable)}"


def _mark(dataset: Dataset, variable: Variable) -> str:
    """The words of the comment that identify a column as this project's."""
    return f"{dataset.short_title}: {variable.short_name}"


def _is_own(dataset: Dataset, name: str, column: TableColumn) -> bool:
    catalogue = dataset.catalogue
    variable = catalogue.by_column.get(name)
    if variable is None or column.type != _TYPE:
        return False
    # The table is created with the default variables, and commented on in another transaction.
    return variable in catalogue.default_variables or _mark(dataset, variable) in (column.comment or "")


def _foreign(dataset: Dataset, variable: Variable, column: TableColumn) -> ServerUnsuitableError:
    rename = f"ALTER TABLE {dataset.table} RENAME COLUMN {variable.column} TO ...;"
    if column.type != _TYPE:
        return ServerUnsuitableError(
            f"the table {dataset.table} has a column {variable.column} that somebody else added: it is {column.type}, "
            f"not {_TYPE}",
            remedy=f"Rename it: {rename} Nothing was changed.",
        )
    comment = comment_on(dataset, variable).replace("'", "''")
    return ServerUnsuitableError(
        f"the table {dataset.table} has a column {variable.column} that somebody else added: its comment does not say "
        f"{_mark(dataset, variable)}",
        remedy=f"Rename it: {rename} Or, if it is to hold this variable: "
        f"COMMENT ON COLUMN {dataset.table}.{variable.column} IS '{comment}'; Nothing was changed.",
    )
