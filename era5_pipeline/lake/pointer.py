"""The row of the warehouse that points to the lake's newest metadata file: its table, who may use it, its reading.

It needs no pyiceberg, so that commands know of a lake where that is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import transfer_to_table_owner
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from era5_pipeline.model.dataset import Dataset

# How the names of properties begin that say which REST catalogs follow.
_FOLLOWER = "era5.rest-catalog "
# And those that say since when, in seconds since 1970, a metadata file belongs to no snapshot: the rest is its name.
_UNUSED = "era5.unused "
_NOTED = "(catalog_name, namespace) = (%s, %s) AND starts_with(property_key, %s)"
# The one catalog of a database; each data set's table has a namespace of its own there.
CATALOG = "era5"
# What the lake needs of the catalog's tables.
_COLUMNS = {
    "iceberg_tables": {
        "catalog_name",
        "table_namespace",
        "table_name",
        "metadata_location",
        "previous_metadata_location",
        "iceberg_type",
    },
    "iceberg_namespace_properties": {"catalog_name", "namespace", "property_key", "property_value"},
}


def pointer_of(dataset: Dataset) -> tuple[str, str, str]:
    """The names of catalog, namespace and table."""
    return CATALOG, dataset.schema, dataset.table


def _namespace_of(connection: psycopg.Connection[Any]) -> tuple[str, str]:
    return pointer_of(dataset_of(connection))[:2]


def metadata_file(connection: psycopg.Connection[Any], *, locked: bool = False) -> str | None:
    """The newest metadata file of the database's lake; None without one. It needs no pyiceberg.

    `locked`: no other session replaces it until the transaction ends.
    """
    if not _is_prepared(connection):
        return None
    row = connection.execute(
        "SELECT metadata_location FROM public.iceberg_tables "
        f"WHERE (catalog_name, table_namespace, table_name) = (%s, %s, %s) {'FOR UPDATE' if locked else ''}",
        pointer_of(dataset_of(connection)),
    ).fetchone()
    return None if row is None else row[0]


def address_of(metadata_location: str, dataset: Dataset) -> str:
    """The lake's address, ERA5_LAKE, by a metadata file of its table."""
    return metadata_location.rpartition("/metadata/")[0].removesuffix(f"/{dataset.table}")


def remember_follower(connection: psycopg.Connection[Any], address: str) -> None:
    """Note that the REST catalog at this address has metadata files of its own beside the table's."""
    connection.execute(
        "INSERT INTO public.iceberg_namespace_properties VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (*_namespace_of(connection), f"{_FOLLOWER}{address}"[:255], address),
    )


def followers(connection: psycopg.Connection[Any]) -> list[str]:
    """The addresses of the REST catalogs that were told of the lake."""
    rows = connection.execute(
        f"SELECT property_value FROM public.iceberg_namespace_properties WHERE {_NOTED} ORDER BY 1",
        (*_namespace_of(connection), _FOLLOWER),
    ).fetchall()
    return [address for (address,) in rows]


def forget_followers(connection: psycopg.Connection[Any], *, but: str | None) -> list[str]:
    """Forget the REST catalogs other than `but`; return their addresses."""
    gone = [address for address in followers(connection) if address != but]
    connection.execute(
        f"DELETE FROM public.iceberg_namespace_properties WHERE {_NOTED} AND property_value = ANY(%s)",
        (*_namespace_of(connection), _FOLLOWER, gone),
    )
    return gone


def note_unused(connection: psycopg.Connection[Any], names: Iterable[str]) -> None:
    """Note that from now on no snapshot needs these metadata files: readers may still do."""
    connection.execute(
        "INSERT INTO public.iceberg_namespace_properties "
        "SELECT %s, %s, %s || name, extract(epoch FROM clock_timestamp())::text FROM unnest(%s::text[]) AS name "
        "ON CONFLICT DO NOTHING",
        (*_namespace_of(connection), _UNUSED, list(names)),
    )


def seconds_unused(connection: psycopg.Connection[Any]) -> dict[str, float]:
    """The noted metadata files, and for how many seconds no snapshot has needed each."""
    rows = connection.execute(
        "SELECT substr(property_key, length(%s) + 1), "
        "(extract(epoch FROM clock_timestamp()) - property_value::numeric)::float8 "
        f"FROM public.iceberg_namespace_properties WHERE {_NOTED}",
        (_UNUSED, *_namespace_of(connection), _UNUSED),
    ).fetchall()
    return dict(rows)


def forget_unused(connection: psycopg.Connection[Any], names: Iterable[str]) -> None:
    """Forget files that were removed."""
    connection.execute(
        f"DELETE FROM public.iceberg_namespace_properties WHERE {_NOTED} AND property_key = ANY(%s)",
        (*_namespace_of(connection), _UNUSED, [f"{_UNUSED}{name}" for name in names]),
    )


def take_unused(connection: psycopg.Connection[Any], *, seconds: float, at_most: int) -> list[str]:
    """Forget some of the files that no snapshot has needed for so long, and return their names, to be removed."""
    rows = connection.execute(
        "DELETE FROM public.iceberg_namespace_properties WHERE ctid = ANY(ARRAY("
        f"SELECT ctid FROM public.iceberg_namespace_properties WHERE {_NOTED} AND "
        "property_value::numeric < extract(epoch FROM clock_timestamp()) - %s LIMIT %s FOR UPDATE SKIP LOCKED)) "
        "RETURNING substr(property_key, length(%s) + 1)",
        (*_namespace_of(connection), _UNUSED, seconds, at_most, _UNUSED),
    ).fetchall()
    return [name for (name,) in rows]


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Create the catalog's tables, if they do not exist."""
    if not _is_prepared(connection):
        # One at a time: two sessions that create a table at once fail, even with IF NOT EXISTS.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('era5.lake', 0))")
            connection.execute(read_sql("lake_catalog", dataset_of(connection)))
            _grant_as_on_the_ledger(connection)
            if connection.execute(dataset_of(connection).sql("SELECT to_regclass('{weather}')")).fetchone() != (None,):
                for table in ("iceberg_tables", "iceberg_namespace_properties"):
                    transfer_to_table_owner(connection, sql.Identifier("public", table), "TABLE")


def ensure_namespace(connection: psycopg.Connection[Any]) -> None:
    """Note that the namespace of the connection's data set exists: the catalog's tables are made with that of one."""
    connection.execute(
        "INSERT INTO public.iceberg_namespace_properties VALUES (%s, %s, 'exists', 'true') ON CONFLICT DO NOTHING",
        _namespace_of(connection),
    )


def _grant_as_on_the_ledger(connection: psycopg.Connection[Any]) -> None:
    """Let those who load load into the lake, and those who read see where it is."""
    granted = connection.execute(
        dataset_of(connection).sql(
            "SELECT pg_get_userbyid(acl.grantee), array_agg(acl.privilege_type) "
            "FROM pg_class c, aclexplode(c.relacl) acl "
            "WHERE c.oid = to_regclass('{schema}.ledger') AND acl.grantee <> 0 "
            "AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') GROUP BY 1"
        )
    ).fetchall()
    for role, privileges in granted:
        connection.execute(
            sql.SQL("GRANT {} ON public.iceberg_tables, public.iceberg_namespace_properties TO {}").format(
                sql.SQL(", ").join(map(sql.SQL, privileges)), sql.Identifier(role)
            )
        )


def _is_prepared(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the catalog's tables are there."""
    held: dict[str, list[str]] = dict(
        connection.execute(
            "SELECT attrelid::regclass::text, array_agg(attname::text) FROM pg_attribute WHERE attrelid IN "
            "(to_regclass('public.iceberg_tables'), to_regclass('public.iceberg_namespace_properties')) "
            "AND attnum > 0 AND NOT attisdropped GROUP BY 1"
        ).fetchall()
    )
    for table, columns in held.items():
        lacking = _COLUMNS[table.rpartition(".")[2]] - set(columns)
        if lacking:
            raise UsageError(
                f"public.{table.rpartition('.')[2]} is not a table of an Iceberg catalog as the lake needs it: it has "
                f"no column {', '.join(sorted(lacking))}",
                remedy="If another program made it, rename it there, or give the lake a database of its own; if it is "
                "of an older Iceberg, add the columns as in its JDBC catalog's schema V1.",
            )
    return len(held) == len(_COLUMNS)
