"""The version of the tables in the schema `era5`: which one a database has, and which ones this program can use.

Here: the steps that lead to each version, taking one, finding a database's version, refusing others. Not here: which
steps are taken when (`warehouse.schema`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.model.errors import SchemaVersionError
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    Step = Callable[[psycopg.Connection[Any]], object]


def _first_tables(connection: psycopg.Connection[Any]) -> None:
    connection.execute(read_sql("schema"))


# The first makes version 1 in an empty database, each later one the next version out of the one before. Once released,
# a step is never changed: databases exist that took it. What loads create or replace by themselves where it is missing
# (views, functions, comments, columns of variables) needs no step.
STEPS: tuple[Step, ...] = (_first_tables,)
SCHEMA_VERSION = len(STEPS)

# Reads catalogues only: no privilege is needed, and there may be no such function. No row: there is no schema era5.
VERSION_QUERY = (
    "SELECT (SELECT substring(prosrc FROM '^SELECT ([0-9]{1,9})$')::integer FROM pg_proc "
    "WHERE proname = 'schema_version' AND pronamespace = n.oid AND pronargs = 0) AS version, "
    "EXISTS (SELECT FROM pg_class WHERE relname = 'ledger' AND relnamespace = n.oid) AS has_ledger "
    "FROM pg_namespace n WHERE nspname = 'era5'"
)


def schema_version(connection: psycopg.Connection[Any]) -> int:
    """Find the version of the database's tables; 0: there are none yet.

    Raises:
        SchemaVersionError: if they have no version.
    """
    version, has_ledger = connection.execute(VERSION_QUERY).fetchone() or (None, False)
    return checked_version(connection, version, has_ledger=has_ledger)


def take_step(connection: psycopg.Connection[Any], step: Step, number: int) -> None:
    """Take the step to the version of this number, and record it; the caller has begun a transaction."""
    step(connection)
    connection.execute(sql.SQL(read_sql("schema_version")).format(body=sql.Literal(f"SELECT {number}")))


def checked_version(connection: psycopg.Connection[Any], version: int | None, *, has_ledger: bool) -> int:
    """The version in an answer of `VERSION_QUERY`, 0: there are no tables yet.

    Raises:
        SchemaVersionError: if there is a ledger without a version.
    """
    if version is None and has_ledger:
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has a ledger and no schema version (era5.schema_version()): a "
            "development state before the first version made it",
            remedy="Load the months into a new database: name it in ERA5_DATABASE_URL, or set another ERA5_HOME, then "
            "run era5 db init and era5 load. The table weather in this one is unchanged, and can be queried by SQL.",
        )
    return version or 0


def require_usable(
    connection: psycopg.Connection[Any], version: int, *, known: int = SCHEMA_VERSION, upgrades: bool = False
) -> None:
    """Require that the program, which knows the versions up to `known`, can use a database of this version.

    One without tables (0) is usable; an older one is if `upgrades` says that the caller brings it to this version.

    Raises:
        SchemaVersionError: naming both versions and the remedy.
    """
    if version > known:
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has schema version {version}, and this era5-pipeline knows "
            f"versions up to {known}",
            remedy="Install the newer era5-pipeline that made it. Nothing was read or changed.",
        )
    if 0 < version < known and not upgrades:
        raise SchemaVersionError(
            f"the database {connection.info.dbname} has schema version {version}, and this era5-pipeline needs "
            f"version {known}",
            remedy="Let the owner of the schema era5 run era5 db init, which brings it to that version. Nothing was "
            "read or changed.",
        )
