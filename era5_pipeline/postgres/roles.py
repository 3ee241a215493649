"""Database roles for owning, loading and reading the warehouse: groups, to be granted to login roles.

Creates the roles with their objects and privileges (`sql/roles.sql`), and writes the statements that come next. Login
roles and passwords are the administrator's business.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, LiteralString

from psycopg import sql

from era5_pipeline.model.dataset import DATASETS
from era5_pipeline.model.errors import ServerUnsuitableError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import psycopg

    from era5_pipeline.model.dataset import Dataset

DEFAULT_PREFIX = "era5"
# Settings of login roles that read. PostgreSQL takes such settings only from them, not from a group.
READER_SETTINGS = {"default_transaction_read_only": "on", "statement_timeout": "5min"}

_SET_VERSION = 160000  # since then, role membership and SET ROLE are separate
# The table's new owner needs a lock that readers wait for.
_LOCK_MS = 5000
# Found beside the table and created by us: a user may have a view of the same name.
_OWN_VIEWS = (
    "(c.relname IN ('{weather}_monthly', '{weather}_daily', '{weather}_monthly_map') AND c.relkind = 'v' "
    "AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{weather}'::regclass) "
    "AND (starts_with(obj_description(c.oid, 'pg_class'), '{dataset} by ') "
    "OR EXISTS (SELECT FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
    "WHERE r.ev_class = c.oid AND d.refobjid = to_regclass('{schema}.monthly_summary'))))"
)
# Returns rows of the view weather_daily, and is recreated with it.
_OWN_FUNCTIONS = (
    "SELECT p.oid::regprocedure::text, pg_get_userbyid(p.proowner) FROM pg_proc p "
    f"JOIN pg_class c ON c.reltype = p.prorettype AND {_OWN_VIEWS} "
    "WHERE p.pronamespace = c.relnamespace AND p.proname = c.relname"
)
# The lake's catalog, and the table of `era5 climate --everywhere --save`: they are made by their first use.
_LAKE = (
    "(c.oid IN (to_regclass('public.iceberg_tables'), to_regclass('public.iceberg_namespace_properties')) "
    "OR c.relname = '{weather}_trend' AND c.relkind = 'r' "
    "AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{weather}'::regclass))"
)
# What the project makes in a data set's schema, each after what it uses. The owner's are only these, whoever made
# others.
_FUNCTIONS = (
    "{schema}.schema_version()",
    "{schema}.refuse_coordinates(double precision, double precision)",
    "{schema}.at(double precision, double precision)",
    "{schema}.location_id(double precision, double precision)",
    "{schema}.nearest(double precision, double precision)",
)
_RELATIONS = ("{schema}.ledger", "{schema}.load_attempt", "{schema}.month")
# Recreated by `era5 db init`: they have no contents of their own.
_DERIVED = {
    "{schema}.catalogue": "TABLE",
    "{schema}.land": "TABLE",
    "{schema}.location": "VIEW",
    "{schema}.variable": "VIEW",
    "{schema}.table_column": "VIEW",
    "{schema}.missing_hours": "VIEW",
    "{schema}.preliminary_hours": "VIEW",
}
# A role that may become the owner of era5, or more: what it made is the project's.
_IS_TRUSTED = (
    "EXISTS (SELECT FROM pg_roles WHERE oid = {role} AND (rolsuper OR rolname = current_user "
    "OR pg_has_role(oid, (SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}'), 'MEMBER')))"
)
_NOTHING_CHANGED = "No role was created, and no privilege or owner was changed."


@dataclass(frozen=True)
class Roles:
    """The names of the three roles, which the server shares across all its databases."""

    owner: str
    loader: str
    reader: str

    @classmethod
    def named(cls, prefix: str = DEFAULT_PREFIX) -> Roles:
        """The roles whose names begin with the prefix."""
        return cls(f"{prefix}_owner", f"{prefix}_loader", f"{prefix}_reader")

    @property
    def names(self) -> tuple[str, str, str]:
        """All three."""
        return self.owner, self.loader, self.reader


def weather_schema(connection: psycopg.Connection[Any], dataset: Dataset | None = None) -> str:
    """The schema of the table `weather`: that of the data set, or of the connection's."""
    row = connection.execute(
        (dataset or dataset_of(connection)).sql(
            "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE c.oid = '{weather}'::regclass"
        )
    ).fetchone()
    return str(row[0]) if row is not None else "public"


def transfer_to_table_owner(
    connection: psycopg.Connection[Any], made: sql.Composable, kind: Literal["TABLE", "VIEW", "FUNCTION"]
) -> None:
    """Give what this user has made beside `weather` to the role that owns it, if this user is only a member of it.

    It is meant for all, whoever's load found it missing. A function is written with its argument types.
    """
    current: LiteralString = (
        "SELECT proowner FROM pg_proc WHERE oid = to_regprocedure(%s)"
        if kind == "FUNCTION"
        else "SELECT relowner FROM pg_class WHERE oid = to_regclass(%s)"
    )
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = '{weather}'::regclass "
            f"AND relowner <> ({current})"
        ),
        (made.as_string(connection),),
    ).fetchone()
    if row is not None:
        connection.execute(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(kind), made, sql.Identifier(row[0])))


def grant_to_table_readers(connection: psycopg.Connection[Any], *relations: sql.Composable) -> None:
    """Grant SELECT on the relations to every role with SELECT on `weather`."""
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END "
            "FROM pg_class, aclexplode(relacl) WHERE oid = '{weather}'::regclass AND privilege_type = 'SELECT' "
            "AND grantee <> relowner"
        )
    ).fetchall()
    for (grantee,) in rows:
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.SQL(", ").join(relations), sql.SQL(grantee)))


def require_may_create_roles(connection: psycopg.Connection[Any], roles: Roles) -> None:
    """Check, before changing anything, that this user can create the missing roles and may use the others."""
    with server_errors("looking at the server's roles"):
        mighty = connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) "
            "AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)",
            (list(roles.names),),
        ).fetchone()
        user, may_create = connection.execute(
            "SELECT current_user::text, rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        ).fetchone() or ("?", False)
    if mighty is not None:
        raise ServerUnsuitableError(
            f"the role {mighty[0]} exists, and is a superuser or may create roles, databases or replicas",
            remedy=f"Choose other names: era5 db init --roles --role-prefix NAME. {_NOTHING_CHANGED}",
        )
    missing = [name for name in roles.names if name not in _existing(connection, roles)]
    if missing and not may_create:
        names = ", ".join(missing)
        raise ServerUnsuitableError(
            f"the user {user} may not create roles: {names}",
            remedy="Run era5 db init --roles with the URL of an administrator, who has CREATEROLE and owns the tables. "
            f"{_NOTHING_CHANGED}",
        )


def remove_what_loaders_made(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Drop the project's views, functions and catalogues that a role made which is not the owner of their schema.

    Such a role could have written anything into them, and the owner is given only its own. `ensure_schema` recreates
    them. Returns their names.
    """
    dataset = dataset_of(connection)
    with (
        server_errors(f"looking at the schema {dataset.schema}", afterwards=_NOTHING_CHANGED),
        connection.transaction(),
    ):
        functions = _named(dataset, _FUNCTIONS[1:])  # the first is the version of tables that hold data
        derived = dict(zip(_named(dataset, _DERIVED), _DERIVED.values(), strict=True))
        kinds: dict[str, LiteralString] = {**derived, **dict.fromkeys(functions, "FUNCTION")}
        made = connection.execute(
            "SELECT name FROM unnest(%s::text[]) WITH ORDINALITY AS own(name, number) "
            "LEFT JOIN pg_class c ON name !~ '\\(' AND c.oid = to_regclass(name) "
            "LEFT JOIN pg_proc p ON name ~ '\\(' AND p.oid = to_regprocedure(name) "
            "WHERE coalesce(relowner, proowner) IS NOT NULL "
            f"AND NOT {_is_trusted(dataset, 'coalesce(relowner, proowner)')} ORDER BY number DESC",
            (list(kinds),),
        ).fetchall()
        # Names of our own, none of them from the database.
        for (name,) in made:
            connection.execute(sql.SQL("DROP {} {}").format(sql.SQL(kinds[name]), sql.SQL(name)))
        if any(name in functions for (name,) in made):
            connection.execute(read_sql("functions", dataset))
    return tuple(name for (name,) in made)


def require_own_code(connection: psycopg.Connection[Any]) -> None:
    """Check, before a superuser or an owner changes the tables, that no code of loaders would run with its rights."""
    with server_errors("looking for triggers of the warehouse's tables"):
        is_member_only = connection.execute(
            dataset_of(connection).sql(
                "SELECT to_regclass('{weather}') IS NULL OR relowner = current_user::regrole OR NOT (rolsuper "
                "OR pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}'), 'MEMBER')) "
                "FROM pg_roles LEFT JOIN pg_class c ON c.oid = to_regclass('{weather}') WHERE rolname = current_user"
            )
        ).fetchone()
        found = (
            None
            if is_member_only == (True,)
            else connection.execute(read_sql("foreign_code", dataset_of(connection))).fetchone()
        )
    if found is not None:
        table, function, maker = found
        raise ServerUnsuitableError(
            f"a change of {table} runs the function {function}, which {maker} made, and would run it with all rights "
            f"of {connection.info.user}",
            remedy="Load as a user who is only a loader, or look at the function and remove it: "
            f"DROP FUNCTION {function} CASCADE. Nothing was changed.",
        )


def ensure_roles(connection: psycopg.Connection[Any], roles: Roles) -> tuple[str, ...]:
    """Create the missing roles, and give each its objects and privileges; return the created ones.

    The tables of the connection's data set must exist; those of others are given, too, if they exist. Runs in one
    transaction; a second call changes nothing. Only what the project itself makes is given to the owner, by name; what
    others made in these schemas stays theirs.
    """
    require_may_create_roles(connection, roles)
    with server_errors("creating roles", afterwards=_NOTHING_CHANGED), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        created = tuple(name for name in roles.names if name not in _existing(connection, roles))
        for name in created:
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(name)))
        if connection.execute("SELECT pg_has_role(%s, %s, 'MEMBER')", (roles.owner, roles.loader)).fetchone() != (
            True,
        ):
            connection.execute(
                sql.SQL("GRANT {} TO {}").format(sql.Identifier(roles.loader), sql.Identifier(roles.owner))
            )
        _join(connection, roles.owner)
        for dataset in _datasets_there(connection):
            _give_dataset(connection, dataset, roles)
        _limit_readers(connection, roles)
    return created


def _datasets_there(connection: psycopg.Connection[Any]) -> list[Dataset]:
    """The connection's data set, and the others whose tables the database has."""
    own = dataset_of(connection)
    others = [dataset for dataset in DATASETS.values() if dataset != own]
    rows = connection.execute(
        "SELECT ledger FROM unnest(%s::text[], %s::text[]) AS other (ledger, hours) "
        "WHERE to_regclass(ledger) IS NOT NULL AND to_regclass(hours) IS NOT NULL",
        ([f"{dataset.schema}.ledger" for dataset in others], [dataset.table for dataset in others]),
    ).fetchall()
    return [own, *(dataset for dataset in others if (f"{dataset.schema}.ledger",) in rows)]


def _give_dataset(connection: psycopg.Connection[Any], dataset: Dataset, roles: Roles) -> None:
    own, functions = _made_by_owners(connection, dataset)
    _own_tables(connection, dataset, roles, own, functions)
    connection.execute(
        sql.SQL(read_sql("roles", dataset)).format(
            database=sql.Identifier(connection.info.dbname),
            weather_schema=sql.Identifier(weather_schema(connection, dataset)),
            functions=sql.SQL(", ").join(map(sql.SQL, functions)),
            **{role: sql.Identifier(name) for role, name in asdict(roles).items()},
        )
    )
    # What was made before the roles; what is made later grants it itself.
    for (relation,) in connection.execute(
        dataset.sql(f"SELECT c.oid::regclass::text FROM pg_class c WHERE {_OWN_VIEWS} OR {_LAKE}")
    ).fetchall():
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.SQL(relation), sql.Identifier(roles.reader)))


def give_database(connection: psycopg.Connection[Any], roles: Roles, tables: Collection[str]) -> None:
    """Give the loader these tables of the connected database: Dagster's, which records loads as runs."""
    with server_errors(f"giving {connection.info.dbname} to {roles.loader}"), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        connection.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}; GRANT USAGE, CREATE ON SCHEMA public TO {}").format(
                sql.Identifier(connection.info.dbname), *[sql.Identifier(roles.loader)] * 2
            )
        )
        named = sql.SQL(", ").join(map(sql.Literal, sorted(tables)))
        _own(
            connection,
            roles.loader,
            sql.SQL("c.relnamespace = 'public'::regnamespace AND c.relname IN ({})").format(named),
        )


def user_who_may_write(connection: psycopg.Connection[Any]) -> str | None:
    """This user, if it may change the table weather; None if it can only read, or the table does not exist."""
    with server_errors("looking at this user's privileges"):
        row = connection.execute(
            dataset_of(connection).sql(
                "SELECT current_user::text WHERE to_regclass('{weather}') IS NOT NULL "
                "AND has_table_privilege(to_regclass('{weather}'), 'INSERT, UPDATE, DELETE')"
            )
        ).fetchone()
    return None if row is None else str(row[0])


def next_statements(roles: Roles, database: str) -> tuple[str, ...]:
    """The psql statements that create a loading and a reading login role, and ask for their passwords."""
    return (
        f"CREATE ROLE my_loader LOGIN IN ROLE {_quoted(roles.loader)};",
        r"\password my_loader",
        f"CREATE ROLE my_reader LOGIN IN ROLE {_quoted(roles.reader)};",
        *(
            f"ALTER ROLE my_reader IN DATABASE {_quoted(database)} SET {name} = '{value}';"
            for name, value in READER_SETTINGS.items()
        ),
        r"\password my_reader",
    )


def _quoted(name: str) -> str:
    """The name, quoted only if necessary."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else sql.Identifier(name).as_string()


def _existing(connection: psycopg.Connection[Any], roles: Roles) -> set[str]:
    rows = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", (list(roles.names),)).fetchall()
    return {name for (name,) in rows}


def _join(connection: psycopg.Connection[Any], role: str) -> None:
    """Make this user a member of the role: only members and superusers may give it objects."""
    right = "SET" if connection.info.server_version >= _SET_VERSION else "MEMBER"
    if connection.execute("SELECT pg_has_role(%s, %s)", (role, right)).fetchone() != (True,):
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role)))


def _named(dataset: Dataset, names: Iterable[str]) -> list[str]:
    return [dataset.sql(name) for name in names]


def _is_trusted(dataset: Dataset, role: str) -> str:
    return dataset.sql(_IS_TRUSTED.replace("{role}", role))


def _made_by_owners(connection: psycopg.Connection[Any], dataset: Dataset) -> tuple[list[str], list[str]]:
    """The project's relations and functions of the data set that were made by a role that may own the schema."""
    found: list[list[str]] = []
    for names, catalog, column, find in (
        (_named(dataset, (*_RELATIONS, *_DERIVED)), "pg_class", "relowner", "to_regclass"),
        (_named(dataset, _FUNCTIONS), "pg_proc", "proowner", "to_regprocedure"),
    ):
        rows = connection.execute(
            f"SELECT name FROM unnest(%s::text[]) name JOIN {catalog} o ON o.oid = {find}(name) "
            f"WHERE {_is_trusted(dataset, column)}",
            (names,),
        ).fetchall()
        there = {name for (name,) in rows}
        found.append([name for name in names if name in there])
    return found[0], found[1]


def _own_tables(
    connection: psycopg.Connection[Any], dataset: Dataset, roles: Roles, own: list[str], functions: list[str]
) -> None:
    schema = sql.Identifier(weather_schema(connection, dataset))
    owner, loader = sql.Identifier(roles.owner), sql.Identifier(roles.loader)
    database = connection.info.dbname
    connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(sql.Identifier(database), owner))
    for name in (dataset.schema, dataset.loads_schema):
        if _owner_of(connection, f"SELECT nspowner FROM pg_namespace WHERE nspname = '{name}'") != roles.owner:
            connection.execute(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(sql.Identifier(name), owner))
    connection.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA {} TO {}").format(schema, owner))
    # Loads create the partitions of months and their views beside the table; staging tables, and the years of the
    # monthly summaries, in a schema of their own. In the ledger's they could shadow functions that owners call.
    connection.execute(
        sql.SQL(
            dataset.sql("GRANT USAGE, CREATE ON SCHEMA {schema}_loads TO {1}; GRANT CREATE ON SCHEMA {0} TO {1}")
        ).format(schema, loader)
    )
    # A table's new owner needs CREATE on its schema, until the end of this transaction.
    connection.execute(sql.SQL(dataset.sql("GRANT CREATE ON SCHEMA {schema} TO {}")).format(loader))
    _own(
        connection,
        roles.loader,
        dataset.sql(
            "c.oid IN (SELECT '{weather}'::regclass UNION SELECT relid FROM pg_partition_tree('{weather}') "
            "UNION SELECT relid FROM pg_partition_tree(to_regclass('{schema}.monthly_summary')) "
            "UNION SELECT to_regclass('{schema}.monthly_last_hour')) OR "
            # Tables of loads that were killed.
            "c.relnamespace IN ('{schema}'::regnamespace, to_regnamespace('{schema}_loads')) "
            "AND c.relkind IN ('r', 'p') "
            f"AND c.relname ~ '^{{weather}}_[0-9]{{4}}_[0-9]{{2}}(_[0-9]+)?$' OR {_OWN_VIEWS} OR {_LAKE}"
        ),
    )
    names = sql.SQL(", ").join(sql.SQL("{}::regclass").format(sql.Literal(name)) for name in own)
    _own(connection, roles.owner, sql.SQL("c.oid IN ({})").format(names))
    for function, current in connection.execute(dataset.sql(_OWN_FUNCTIONS)).fetchall():
        if current != roles.loader:
            connection.execute(sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(sql.SQL(function), loader))
    for function in functions:
        if _owner_of(connection, f"SELECT proowner FROM pg_proc WHERE oid = '{function}'::regprocedure") != roles.owner:
            connection.execute(sql.SQL("ALTER FUNCTION {} OWNER TO {}").format(sql.SQL(function), owner))
    connection.execute(sql.SQL(dataset.sql("REVOKE CREATE ON SCHEMA {schema} FROM {}")).format(loader))


def _owner_of(connection: psycopg.Connection[Any], query: str) -> str | None:
    row = connection.execute(sql.SQL("SELECT pg_get_userbyid(({}))").format(sql.SQL(query))).fetchone()
    return None if row is None else row[0]


def _own(connection: psycopg.Connection[Any], role: str, condition: str | sql.Composable) -> None:
    """Give the relations that meet the condition to the role, unless it owns them already."""
    # A hypertable passes its chunks to its new owner itself, so their order does not matter.
    rows = connection.execute(
        sql.SQL(
            "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE ({}) AND pg_get_userbyid(c.relowner) <> %s AND c.relkind IN ('r', 'p', 'v') ORDER BY c.oid"
        ).format(sql.SQL(condition) if isinstance(condition, str) else condition),
        (role,),
    ).fetchall()
    for schema, name, kind in rows:
        what = sql.SQL("VIEW" if kind == "v" else "TABLE")
        connection.execute(
            sql.SQL("ALTER {} {} OWNER TO {}").format(what, sql.Identifier(schema, name), sql.Identifier(role))
        )


def _limit_readers(connection: psycopg.Connection[Any], roles: Roles) -> None:
    """Give reading login roles their settings for this database, unless they have their own."""
    database = connection.info.dbname
    rows = connection.execute(
        "SELECT m.rolname, s.setconfig FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member AND m.rolcanlogin "
        "LEFT JOIN pg_db_role_setting s ON s.setrole = m.oid "
        "AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "WHERE a.roleid = to_regrole(quote_ident(%s)) AND m.rolname <> current_user AND NOT m.rolsuper",
        (roles.reader,),
    ).fetchall()
    for role, settings in rows:
        has = {setting.partition("=")[0] for setting in settings or ()}
        for name, value in READER_SETTINGS.items():
            if name not in has:
                connection.execute(
                    sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                        sql.Identifier(role), sql.Identifier(database), sql.Identifier(name), sql.Literal(value)
                    )
                )
