"""The version of the tables in the schema `era5`: finding, upgrading and checking it.

Has the steps to each version, takes one, finds a database's version and refuses unknown ones. For when steps are taken
see `warehouse.schema`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import SchemaVersionError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    Step = Callable[[psycopg.Connection[Any]], object]


def _step(name: str) -> Step:
    return lambda connection: connection.execute(read_sql(name, dataset_of(connection)))


# The first creates version 1 in an empty database, each later one upgrades from the previous version. Once released, a
# step never changes: some databases have taken it. Objects that loads create or replace by themselves (views,
# functions, comments, columns of variables) need no step.
STEPS: tuple[Step, ...] = tuple(map(_step, ("schema", "schema_2", "schema_3", "schema_4", "schema_5", "schema_6")))
SCHEMA_VERSION = len(STEPS)

# Reads catalogues only, so it needs no privilege and the function may be missing. No row: no schema era5.
VERSION_QUERY = (
    "SELECT (SELECT substring(prosrc FROM '^SELECT ([0-9]{1,9})$')::integer FROM pg_proc "
    "WHERE proname = 'schema_version' AND pronamespace = n.oid AND pronargs = 0) AS version, "
    "EXISTS (SELECT FROM pg_class WHERE relname = 'ledger' AND relnamespace = n.oid) AS has_ledger "
    "FROM pg_namespace n WHERE nspname = '{schema}'"
)


def schema_version(connection: psycopg.Connection[Any]) -> int:
    """Find the version of the database's tables; 0 without tables."""
    version, has_ledger = connection.execute(dataset_of(connection).sql(VERSION_QUERY)).fetchone() or (None, False)
    return checked_version(connection, version, has_ledger=has_ledger)


def take_step(connection: psycopg.Connection[Any], step: Step, number: int) -> None:
    """Upgrade to version `number`, and record it; the caller has begun a transaction."""
    step(connection)
    connection.execute(
        sql.SQL(read_sql("schema_version", dataset_of(connection))).format(body=sql.Literal(f"SELECT {number}"))
    )


def checked_version(connection: psycopg.Connection[Any], version: int | None, *, has_ledger: bool) -> int:
    """Check a result of `VERSION_QUERY`; 0 without tables."""
    dataset = dataset_of(connection)
    if version is None and has_ledger:
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has a ledger and no schema version "
            f"({dataset.schema}.schema_version()): a "
            "development state before version 1 made it",
            remedy="Load the months into a new database: name it in ERA5_DATABASE_URL, or set another ERA5_HOME, then "
            f"run era5 db init and era5 load. The table {dataset.table} in this one is unchanged, and can be "
            "queried by SQL.",
        )
    return version or 0


def require_usable(
    connection: psycopg.Connection[Any], version: int, *, known: int = SCHEMA_VERSION, upgrades: bool = False
) -> None:
    """Check that the program, which knows versions up to `known`, can use a database of this version.

    A database without tables (0) is usable; an older one is if the caller `upgrades` it.
    """
    if version > known:
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has schema version {version}, and this era5-pipeline knows "
            f"versions up to {known}",
            remedy="Install the newer era5-pipeline that made it. Nothing was read or changed.",
        )
    if 0 < version < known and not upgrades:
        dataset = dataset_of(connection)
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has schema version {version}, and this era5-pipeline needs "
            f"version {known}",
            remedy=f"Let the owner of the schema {dataset.schema} run era5 db init{dataset_option(dataset)}, which "
            "brings it to that version. Nothing was read or changed.",
        )
