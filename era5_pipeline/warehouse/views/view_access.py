"""Ownership and rights of a relation that the pipeline adds beside `weather`, those of `weather`.

A relation is created by whoever runs the load that finds it missing, and is to be used by all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from psycopg import sql

if TYPE_CHECKING:
    import psycopg

Kind = Literal["TABLE", "VIEW"]


def give_to_owner_of_weather(connection: psycopg.Connection[Any], relation: sql.Composable, kind: Kind) -> None:
    """Give a relation to the role that owns `weather`, if this user is only a member of it."""
    row = connection.execute(
        "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'weather'::regclass "
        "AND relowner <> (SELECT relowner FROM pg_class WHERE oid = to_regclass(%s))",
        (relation.as_string(connection),),
    ).fetchone()
    if row is not None:
        connection.execute(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(kind), relation, sql.Identifier(row[0])))


def give_function_to_owner_of_weather(connection: psycopg.Connection[Any], function: sql.Composable) -> None:
    """As `give_to_owner_of_weather`, for a function, written with the types of its arguments."""
    row = connection.execute(
        "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'weather'::regclass "
        "AND relowner <> (SELECT proowner FROM pg_proc WHERE oid = to_regprocedure(%s))",
        (function.as_string(connection),),
    ).fetchone()
    if row is not None:
        connection.execute(sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(function, sql.Identifier(row[0])))


def let_readers_of_weather_read(connection: psycopg.Connection[Any], *relations: sql.Composable) -> None:
    """Grant SELECT on the relations to every role that has it on `weather`."""
    rows = connection.execute(
        "SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END "
        "FROM pg_class, aclexplode(relacl) WHERE oid = 'weather'::regclass AND privilege_type = 'SELECT' "
        "AND grantee <> relowner"
    ).fetchall()
    for (grantee,) in rows:
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.SQL(", ").join(relations), sql.SQL(grantee)))


def schema_of_weather(connection: psycopg.Connection[Any]) -> str:
    """The schema that the table `weather` is in."""
    row = connection.execute(
        "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = 'weather'::regclass"
    ).fetchone()
    return str(row[0]) if row is not None else "public"
