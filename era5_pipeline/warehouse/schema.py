"""Create the project's missing objects in a database, and recognize existing ones."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg
from psycopg import sql

from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import SchemaVersionError, ServerUnsuitableError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import require_own_code
from era5_pipeline.postgres.schema_version import STEPS, require_usable, schema_version, take_step
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import Server, describe_server
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout, layout_for
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.hypertable import CALENDAR_HYPERTABLE, CHUNKED_HYPERTABLE
from era5_pipeline.warehouse.layouts.layout import create_loads_schema
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.layouts.variable_columns import comments_on, table_columns
from era5_pipeline.warehouse.locks import require_no_loads, schema_lock_key
from era5_pipeline.warehouse.monthly_tables import create_summaries
from era5_pipeline.warehouse.views import MAY_FAIL, brief_attempt, ensure_locations, ensure_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.postgres.schema_version import Step

# Upgrades change tables that others use: give up after this time, so that they do not wait behind it.
_UPGRADE_LOCK_MS = 10_000

_KEY_TYPES = dict.fromkeys(KEYS, "real") | {"time": "timestamp with time zone", "location_id": "integer"}


@dataclass(frozen=True)
class Schema:
    """A database's server, and the layout of its table."""

    server: Server
    layout: Layout


def ensure_schema(connection: psycopg.Connection[Any], *, steps: Sequence[Step] = STEPS) -> Schema:
    """Create the extension (if available), the ledger and the table, unless they exist.

    Tables of an older version are upgraded by the missing `steps`. Missing views, functions, comments and summaries are
    added, if the user may.
    """
    require_own_code(connection)
    with _schema_lock(connection):
        return _ensure(connection, steps)


def upgrade_schema(connection: psycopg.Connection[Any], *, steps: Sequence[Step] = STEPS) -> None:
    """Upgrade tables of an older version; create none."""
    with server_errors("looking at the schema's version"):
        version = schema_version(connection)
    if 0 < version < len(steps):
        with _schema_lock(connection):
            _take_steps(connection, steps)


@contextmanager
def _schema_lock(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Serialize first loads and upgrades: the second waits here, then finds everything done."""
    with server_errors("setting up the database"):
        connection.execute("SELECT pg_advisory_lock(%s, %s)", schema_lock_key(connection))
        try:
            yield
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s, %s)", schema_lock_key(connection))


def _take_steps(connection: psycopg.Connection[Any], steps: Sequence[Step]) -> None:
    """Take the missing steps in order, each in a transaction that also writes its number.

    All of a new database are one transaction: a session that connects meanwhile never finds an older version.
    """
    schema, found = dataset_of(connection).schema, schema_version(connection)
    require_usable(connection, found, known=len(steps), upgrades=True)
    if found == 0:
        with connection.transaction():
            for number, step in enumerate(steps, start=1):
                take_step(connection, step, number)
        return
    for number, step in enumerate(steps[found:], start=found + 1):
        require_no_loads(connection, f"the schema {schema} cannot be upgraded from version {number - 1} to {number}")
        unchanged = f"The database is as it was, at schema version {number - 1}."
        with server_errors(f"upgrading the schema {schema} to version {number}", afterwards=unchanged):
            try:
                with connection.transaction():
                    connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_UPGRADE_LOCK_MS}ms",))
                    take_step(connection, step, number)
            except pg.InsufficientPrivilege as error:
                raise SchemaVersionError(
                    f"the database {connection.info.dbname} has schema version {number - 1}, this era5-pipeline needs "
                    f"version {len(steps)}, and the user {connection.info.user} may not upgrade it",
                    remedy=f"Let the owner of the schema {schema} run era5 db "
                    f"init{dataset_option(dataset_of(connection))}. {unchanged}",
                ) from error


def require_may_load(connection: psycopg.Connection[Any]) -> None:
    """Raise, before starting a month, if this user may read the warehouse but not load into it."""
    with server_errors("looking at this user's privileges"):
        if not _exists(connection, f"{dataset_of(connection).schema}.ledger"):
            return
        user, may_load = connection.execute(
            dataset_of(connection).sql("SELECT current_user::text, has_table_privilege('{schema}.ledger', 'INSERT')")
        ).fetchone() or ("?", False)
    if not may_load:
        raise ServerUnsuitableError(
            f"the user {user} may read this warehouse, but not load into it",
            remedy="Set a loader's user in ERA5_DATABASE_URL, or let an administrator run: "
            f"GRANT era5_loader TO {user}; era5 db init --roles makes these roles.",
        )


def existing_layout(connection: psycopg.Connection[Any]) -> Layout | None:
    """Recognize the layout of the table `weather`; None if it does not exist. Creates nothing."""
    table = dataset_of(connection).table
    with server_errors(f"looking at the table {table}"):
        if not _exists(connection, table):
            return None
        return _existing_layout(connection, describe_server(connection))


def _ensure(connection: psycopg.Connection[Any], steps: Sequence[Step]) -> Schema:
    _ensure_timescaledb(connection)
    server = describe_server(connection)
    _take_steps(connection, steps)
    dataset = dataset_of(connection)
    if not _exists(connection, dataset.table):
        layout_for(server).create(connection)
    schema = Schema(server, _existing_layout(connection, server))
    if connection.execute("SELECT to_regnamespace(%s)", (dataset.loads_schema,)).fetchone() == (None,):
        with brief_attempt(connection):
            create_loads_schema(connection)
    _describe(connection)
    # These statements call era5.at(), which is missing if the attempt above failed: the next load creates both.
    with suppress(*MAY_FAIL, psycopg.errors.UndefinedFunction):
        ensure_locations(connection)
    ensure_views(connection)
    return schema


def _describe(connection: psycopg.Connection[Any]) -> None:
    """Add missing comments, functions and summaries; usually a single query."""
    row = connection.execute(read_sql("missing_objects", dataset_of(connection))).fetchone()
    functions_are_missing, summaries_are_missing, uncommented = row or (False, False, [])
    # Others may have added columns to the table.
    weather_lacks_some = not {"", *_column_types(dataset_of(connection))}.isdisjoint(uncommented)
    if functions_are_missing or weather_lacks_some:
        with brief_attempt(connection):
            if functions_are_missing:
                connection.execute(read_sql("functions", dataset_of(connection)))
            if weather_lacks_some:
                connection.execute(weather_comments(dataset_of(connection)))
    if summaries_are_missing:
        with brief_attempt(connection):
            create_summaries(connection)


def _column_types(dataset: Dataset) -> dict[str, str]:
    """The columns of every table of the data set, with types; a first load of others adds those."""
    return {**_KEY_TYPES, **dict.fromkeys(dataset.catalogue.default_columns, "real")}


def weather_comments(dataset: Dataset) -> sql.Composed:
    """Compose the statements that comment on the table and its initial columns."""
    return sql.SQL(read_sql("weather_comments", dataset)).format(
        variables=comments_on(dataset, dataset.catalogue.default_variables)
    )


def _exists(connection: psycopg.Connection[Any], name: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,)


def _ensure_timescaledb(connection: psycopg.Connection[Any]) -> None:
    """Create the extension if it is available and preloaded, unless the table already exists."""
    # Only administrators may read shared_preload_libraries; a preloaded library's settings are visible to all.
    row = connection.execute(
        "SELECT FROM pg_available_extensions WHERE name = 'timescaledb' AND installed_version IS NULL "
        "AND EXISTS (SELECT FROM pg_settings WHERE name LIKE 'timescaledb.%')"
    ).fetchone()
    if row is None or _exists(connection, dataset_of(connection).table):
        return
    try:
        connection.execute("CREATE EXTENSION timescaledb")
    except psycopg.errors.InsufficientPrivilege as error:
        raise ServerUnsuitableError(
            "the server offers TimescaleDB, but this user may not create the extension",
            remedy="Let an administrator run, in this database: CREATE EXTENSION timescaledb;",
        ) from error


def _existing_layout(connection: psycopg.Connection[Any], server: Server) -> Layout:
    dataset = dataset_of(connection)
    table = dataset.table
    row = connection.execute(
        # Reads catalogues only, so as not to wait for a locked table.
        dataset.sql(
            "SELECT relkind, "
            "(SELECT partstrat = 'r' AND partattrs::text = a.attnum::text FROM pg_partitioned_table p "
            "JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attname = 'time' WHERE p.partrelid = c.oid) "
            "FROM pg_class c WHERE oid = '{weather}'::regclass"
        )
    ).fetchone()
    kind, is_by_time = row if row is not None else ("", None)
    _require_own_columns(dataset, {name: column.type for name, column in table_columns(connection).items()})
    if kind == "p" and is_by_time:
        return LAYOUTS[MonthPartitions.name]
    if server.timescaledb is not None:
        found = connection.execute(
            dataset_of(connection).sql(
                "SELECT compression_enabled FROM timescaledb_information.hypertables "
                "WHERE (hypertable_schema, hypertable_name) = (SELECT n.nspname, c.relname FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = '{weather}'::regclass)"
            )
        ).fetchone()
        if found is not None:
            if server.license != "timescale":
                return CHUNKED_HYPERTABLE
            return LAYOUTS[Columnstore.name] if found == (True,) else CALENDAR_HYPERTABLE
    raise ServerUnsuitableError(
        f"this database has a table {table} that is neither partitioned by time nor a hypertable",
        remedy=_another_table(table),
    )


def _require_own_columns(dataset: Dataset, found: dict[str, str]) -> None:
    """Refuse a table of another project, whose rows must not be replaced."""
    table = dataset.table
    for column, kind in _column_types(dataset).items():
        if found.get(column) != kind:
            raise ServerUnsuitableError(
                f"this database has another table {table}: its column "
                + (f"{column} is {found[column]}, not {kind}" if column in found else f"{column} is missing"),
                remedy=_another_table(table),
            )


def _another_table(table: str) -> str:
    return f"Use another database, or rename that table: ALTER TABLE {table} RENAME TO ...;"
