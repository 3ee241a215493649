"""The views for other programs, created or brought up to date where they lack something; usually that is three queries.

Here: which ones lack what. Not here: what they are (`variable_views`, `daily_view`, `map_view`).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.views import daily_view, map_view
from era5_pipeline.warehouse.views.variable_views import RELATIONS, create_variable_views, fill_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

# A load does not wait longer for a lock, nor fail because of a view: the next load tries again. What a view is made of
# may be missing where the user may not create it.
_LOCK_MS = 1000
_MAY_FAIL = (
    *(pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction, pg.LockNotAvailable),
    pg.InvalidFunctionDefinition,  # a function weather_daily that is somebody else's
    pg.InvalidTableDefinition,  # somebody renamed a column of the table: the view stays as it is until it is dropped
)


def ensure_views(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the views that are missing, or lack a column or a comment, as far as this user may.

    A relation of such a name that is somebody else's is left alone. The connection is in autocommit mode.
    """
    names = {"in_era5": list(RELATIONS), "beside_weather": [daily_view.NAME, map_view.NAME]}
    row = connection.execute(read_sql("described_columns"), names).fetchone()
    comments, columns, postgis = row if row is not None else ({}, {}, None)

    def is_to_be_made(name: str, comment: str, wanted: Iterable[str]) -> bool:
        return name not in comments or (comments[name] == comment and not set(wanted) <= set(columns[name]))

    if not all(comments.get(name) and columns[name] for name in RELATIONS):
        with _attempt(connection):
            create_variable_views(connection)
            fill_catalogue(connection)
    else:
        with _attempt(connection):
            fill_catalogue(connection)
    if is_to_be_made(daily_view.NAME, daily_view.COMMENT, daily_view.daily_columns(variables_in_table(connection))):
        with _attempt(connection):
            daily_view.create_daily_view(connection)
    if postgis is not None and is_to_be_made(
        map_view.NAME, map_view.COMMENT, ["cell", *map_view.monthly_columns(connection)]
    ):
        with _attempt(connection):
            map_view.create_map_view(connection, postgis)


@contextmanager
def _attempt(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A transaction that does not wait long for locks, and may fail."""
    with suppress(*_MAY_FAIL), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        yield
