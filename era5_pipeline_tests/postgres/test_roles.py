"""The roles of `era5 db init --roles`: what their members can do on each layout, and what they cannot."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors as pg

from era5_pipeline.climate.everywhere import ensure_table
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import MonthLockedError, ServerUnsuitableError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.roles import Roles, ensure_roles, next_statements, user_who_may_write
from era5_pipeline.postgres.urls import database_of, with_database, with_user
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema, require_may_load
from era5_pipeline_tests.commands import ROOT, InProcess, assert_explained
from era5_pipeline_tests.servers import fresh_database, fresh_role, fresh_warehouse
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.warehouse.test_views import has_postgis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host

PREFIX = f"e5t{os.getpid()}"
ROLES = Roles.named(PREFIX)
# Roles belong to the server, so the whole module shares those of one database.
SHARED = Roles.named(f"{PREFIX}_shared")
LOGINS = {"alice": "loader", "bob": "loader", "ann": "reader"}
SMALL = ("--source", "sample", "--area", "-6/106/-6.5/106.5")
# Named after this process: tests in other processes create and drop roles of the same server meanwhile.
OUR_ROLES = (
    f"(starts_with(rolname, '{PREFIX}_') OR starts_with(rolname, 'era5_test_{os.getpid()}_') OR rolname = session_user)"
)
MEMBERS = (
    "SELECT roleid::regrole::text, member::regrole::text FROM pg_auth_members JOIN pg_roles ON pg_roles.oid = roleid "
    f"WHERE {OUR_ROLES} ORDER BY 1, 2"
)


def login(name: str, roles: Roles = ROLES) -> str:
    return f"{roles.owner.removesuffix('_owner')}_{name}"


def create_logins(roles: Roles) -> list[str]:
    return [f"CREATE ROLE {login(name, roles)} LOGIN IN ROLE {getattr(roles, role)}" for name, role in LOGINS.items()]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def server_without_our_roles(server_url: str, roles: Roles = ROLES) -> Iterator[None]:
    """Drop the roles and their logins afterwards; the databases that they own something in are gone by then."""
    try:
        yield
    finally:
        for name in (*(login(name, roles) for name in LOGINS), *roles.names):
            run(server_url, f"DROP ROLE IF EXISTS {name}")


pytestmark = pytest.mark.usefixtures("no_pictures")


@dataclass(frozen=True)
class RoledWarehouse:
    """A warehouse whose roles were made by the command, with logins for them."""

    url: str
    here: InProcess

    def as_user(self, name: str) -> str:
        return with_user(self.url, login(name))

    def era5(self, name: str, *arguments: str, code: int = 0) -> Any:
        self.here.set(ERA5_DATABASE_URL=self.as_user(name))
        return self.here.run(*arguments, code=code)

    def init(self) -> str:
        self.here.set(ERA5_DATABASE_URL=self.url)
        return self.here.run("db", "init", "--roles", "--role-prefix", PREFIX).out


@contextmanager
def new_database(server_url: str, here: InProcess) -> Iterator[RoledWarehouse]:
    """A database without roles; it, that of Dagster, our roles and their logins are dropped afterwards."""
    with server_without_our_roles(server_url), fresh_database(server_url) as url:
        here.set(ERA5_DATABASE_URL=url)
        try:
            yield RoledWarehouse(url, here)
        finally:
            run(server_url, f"DROP DATABASE IF EXISTS {database_of(url)}_dagster WITH (FORCE)")


@pytest.fixture
def roled(host_url: str, here: InProcess) -> Iterator[RoledWarehouse]:
    with new_database(host_url, here) as made:
        assert f"{ROLES.loader}: created\n" in made.init()
        run(made.url, *create_logins(ROLES))
        made.init()
        yield made


def catalogue(url: str) -> list[Any]:
    """What of a database the roles change: owners, privileges, members and settings."""
    queries = (
        "SELECT oid::regclass::text, relowner::regrole::text, relacl::text FROM pg_class WHERE relnamespace IN "
        "(SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'era5')) ORDER BY 1",
        "SELECT nspname, nspowner::regrole::text, nspacl::text FROM pg_namespace ORDER BY 1",
        "SELECT oid::regprocedure::text, proowner::regrole::text, proacl::text FROM pg_proc "
        "WHERE pronamespace = to_regnamespace('era5') ORDER BY 1",
        "SELECT datacl::text FROM pg_database WHERE datname = current_database()",
        "SELECT setrole::regrole::text, setconfig FROM pg_db_role_setting "
        "WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1",
        f"SELECT rolname, rolsuper, rolcanlogin, rolconfig FROM pg_roles WHERE {OUR_ROLES} ORDER BY 1",
        MEMBERS,
    )
    with psycopg.connect(url) as connection:
        return [connection.execute(query.encode()).fetchall() for query in queries]


def unreadable(url: str) -> list[str]:
    """The tables and views of the warehouse that the user of the URL may not read, without parts of tables."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition "
            "AND (c.relnamespace = 'era5'::regnamespace OR c.relnamespace = 'public'::regnamespace "
            "AND c.relname LIKE 'weather%%') AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1"
        ).fetchall()
    return [name for (name,) in rows]


def test_a_loader_does_all_that_loads_need_and_a_reader_sees_it(roled: RoledWarehouse) -> None:
    loaded = roled.era5("alice", "load", "--from", "2023-01", "--to", "2023-02", *SMALL, "--workers", "2")
    assert loaded.out.count(" loaded ") == 2
    assert "2 months" in roled.era5("ann", "status").out
    # Another loader: the whole month again, more places, and another variable, whose column is missing.
    again = roled.era5("bob", "load", "--from", "2023-01", *SMALL, "--workers", "2", "--force")
    assert "replaced 6,696 rows" in again.out
    assert ask(roled.as_user("ann"), "SELECT count(*) FROM weather") == 6696 + 6048
    more = roled.era5("bob", "load", "--from", "2023-01", "--source", "sample", "--area", "-7/106/-7.5/106.5")
    assert "kept 9 other places" in more.out
    roled.era5("alice", "load", "--from", "2023-02", *SMALL, "--variables", "default,d2m")
    assert ask(roled.url, "SELECT count(dewpoint_2m) FROM weather") == 6048
    assert {entry["month"]: entry["rows"] for entry in roled.era5("bob", "status", "--json").json()} == {
        "2023-01": 13_392,
        "2023-02": 6048,
    }
    # The new column and the month that was exchanged are the reader's, too.
    assert ask(roled.as_user("ann"), "SELECT count(dewpoint_2m) FROM weather") == 6048
    assert ask(roled.as_user("ann"), "SELECT count(dewpoint_2m_mean) FROM weather_monthly") == 9
    # 27 days had no dew point; the loader replaced view and function, which an administrator had made.
    assert ask(roled.as_user("ann"), "SELECT count(dewpoint_2m_mean) FROM weather_daily") == 9 * 28
    days = "SELECT count(dewpoint_2m_mean) FROM weather_daily('2023-01-30', '2023-02-02')"
    assert ask(roled.as_user("ann"), days) == 9 * 2
    months = "SELECT first_month::text FROM era5.variable WHERE column_name = 'dewpoint_2m'"
    assert ask(roled.as_user("ann"), months) == "2023-02-01"
    series = roled.era5("ann", "series", "--lat", "-6", "--lon", "106", "--from", "2023-01", "--to", "2023-02")
    assert "2023-01" in series.out
    for arguments in (("--area", "-7/106/-7.5/106.5"), ()):
        roled.era5("bob", "drop", "--from", "2023-01", "--yes", *arguments)
    assert ask(roled.as_user("ann"), "SELECT count(*) FROM weather") == 6048
    assert ask(roled.as_user("ann"), "SELECT string_agg(month::text, '') FROM era5.month") == "2023-02-01"
    for name in ("ann", "bob"):
        held = ask(roled.as_user(name), "SELECT array_agg(location_id ORDER BY location_id) FROM era5.location")
        assert held == ask(roled.url, "SELECT array_agg(DISTINCT location_id) FROM weather")
        assert ask(roled.as_user(name), "SELECT location_id FROM era5.nearest(-6.2, 106.2)") in held
    # Whatever login created them: all parts of the table are the group's.
    assert unreadable(roled.as_user("ann")) == ["era5.monthly_last_hour", "era5.monthly_summary"]
    owners = "SELECT string_agg(DISTINCT pg_get_userbyid(c.relowner), ' ') FROM pg_inherits JOIN pg_class c ON "
    assert ask(roled.url, owners + "c.oid = inhrelid WHERE inhparent = 'weather'::regclass") == ROLES.loader
    before = catalogue(roled.url)
    assert f"{ROLES.loader}: was there\n" in roled.init()
    assert catalogue(roled.url) == before


@pytest.mark.parametrize("made_by", ["an administrator before the roles", "a loader"])
def test_a_loader_loads_into_a_lake(made_by: str, server_url: str, here: InProcess, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with new_database(server_url, here) as made:
        url = made.url
        made.here.set(ERA5_LAKE=str(tmp_path / "lake"))
        if made_by != "a loader":
            made.here.run("load", "--from", "2023-01", *SMALL)
            with psycopg.connect(url) as connection:
                ensure_table(connection, creates=True)
                connection.execute("ALTER TABLE weather_trend DROP COLUMN p, DROP COLUMN method")
        made.init()
        run(url, *create_logins(ROLES))
        for name in ("alice", "bob"):
            made.era5(name, "load", "--from", "2023-01", *SMALL, "--force")
        assert "are equal" in made.era5("alice", "lake", "verify").out
        made.era5("bob", "lake", "clean", "--keep-days", "0")
        assert made.era5("ann", "lake", "path").out.strip().endswith(".metadata.json")
        owners = "SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables WHERE tablename ~ 'iceberg|_trend'"
        assert ask(url, owners) == ROLES.loader
        if made_by != "a loader":
            assert ask(made.as_user("ann"), "SELECT count(p) FROM weather_trend") == 0
        made.init()
        before = catalogue(url)
        made.init()
        assert catalogue(url) == before


def test_a_warehouse_without_tables_of_summaries_gets_them_from_its_owner(
    roled: RoledWarehouse, caplog: pytest.LogCaptureFixture
) -> None:
    month = ("load", "--from", "2023-01", *SMALL)
    rows = "SELECT count(*) FROM weather_monthly"
    roled.era5("alice", *month)
    run(roled.url, "DROP VIEW weather_monthly", "DROP TABLE era5.monthly_summary, era5.monthly_last_hour")
    roled.era5("alice", *month, "--force")
    assert "loaded without monthly summaries: their table is missing" in caplog.text
    roled.init()
    for name in ("bob", "alice"):
        roled.era5(name, *month, "--force")
        assert ask(roled.as_user("ann"), rows) == 9
    owners = "SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables WHERE tablename LIKE 'monthly%%'"
    assert ask(roled.url, owners) == ROLES.loader
    before = catalogue(roled.url)
    roled.init()
    assert catalogue(roled.url) == before


def test_views_that_were_missing_are_the_readers_too(roled: RoledWarehouse) -> None:
    month = ("load", "--from", "2023-01", *SMALL)
    roled.era5("alice", *month)
    # Installed later; the loader may not change era5.location, which is the owner's.
    maps = ("weather_monthly_map",) if has_postgis(roled.url) else ()
    names = "era5.table_column, era5.variable, era5.missing_hours, era5.preliminary_hours, weather_daily"
    run(roled.url, f"DROP VIEW {names} CASCADE", "DROP TABLE era5.catalogue")
    roled.era5("bob", *month, "--force")
    # In the schema era5 a loader makes nothing.
    assert ask(roled.url, "SELECT to_regclass('era5.catalogue')") is None
    readable = ["weather_daily", *maps]
    for made_by in ("a loader", "era5 db init --roles"):
        for name in readable:
            assert ask(roled.as_user("ann"), f"SELECT count(*) >= 0 FROM {name}") is True, (made_by, name)
        assert ask(roled.as_user("ann"), "SELECT count(*) FROM weather_daily('2023-01-05', '2023-01-05')") == 9
        roled.init()
        readable = [*names.split(", "), *maps]
    # Whoever made them: the next loader adds a variable to them.
    roled.era5("alice", *month, "--variables", "default,d2m")
    assert ask(roled.as_user("ann"), "SELECT count(dewpoint_2m_mean) FROM weather_daily") == 9 * 31
    before = catalogue(roled.url)
    roled.init()
    assert catalogue(roled.url) == before


def test_a_reader_who_loads_is_told_before_anything_is_begun(roled: RoledWarehouse) -> None:
    for arguments in (("load", "--from", "2023-01", *SMALL), ("up",)):
        printed = roled.era5("ann", *arguments, code=5)
        assert_explained(printed, f"the user {login('ann')} may read this warehouse, but not load into it", "GRANT")
        assert "era5 db init --roles" in printed.err
    assert not (roled.here.home / "raw").exists()
    assert ask(roled.url, "SELECT count(*) FROM era5.load_attempt") == 0


def test_months_that_a_superuser_loaded_are_the_loaders_too(host_url: str, here: InProcess) -> None:
    with new_database(host_url, here) as made:
        url = made.url
        made.here.run("load", "--from", "2023-01", "--to", "2023-02", *SMALL, "--workers", "2")
        made.init()
        run(url, *create_logins(ROLES))
        assert "replaced 6,696 rows" in made.era5("alice", "load", "--from", "2023-01", *SMALL, "--force").out
        made.era5("bob", "drop", "--from", "2023-02", "--yes")
        # A superuser loads on, and the month is still the loader's.
        made.here.set(ERA5_DATABASE_URL=url)
        made.here.run("load", "--from", "2023-01", *SMALL, "--force")
        made.era5("alice", "load", "--from", "2023-01", *SMALL, "--force")
        assert ask(made.as_user("ann"), "SELECT count(*) FROM weather") == 6696


@pytest.fixture(scope="module")
def quiet(host_url: str) -> Iterator[str]:
    """The URL of a database with roles and logins, that no test changes."""
    with server_without_our_roles(host_url, SHARED), fresh_warehouse(host_url) as warehouse:
        with warehouse.connect() as connection:
            ensure_roles(connection, SHARED)
            connection.execute("; ".join(create_logins(SHARED)).encode())
            ensure_roles(connection, SHARED)
            connection.execute("CREATE SCHEMA private; CREATE TABLE private.salary (amount int)")
        yield warehouse.url


@pytest.mark.parametrize("name", ["alice", "ann"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM private.salary",
        "CREATE TABLE private.mine (i int)",
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "CREATE SCHEMA mine",
        "COPY weather (time) FROM PROGRAM 'echo'",
        "COPY weather (time) FROM '/etc/passwd'",
        "ALTER SYSTEM SET fsync = off",
        "SELECT * FROM pg_authid",
        "SELECT pg_read_file('/etc/passwd')",
        "DROP TABLE era5.ledger",
        "TRUNCATE era5.ledger",
        "ALTER TABLE era5.ledger ADD COLUMN mine int",
        "DELETE FROM era5.load_attempt",
        "CREATE OR REPLACE FUNCTION era5.at(double precision, double precision) RETURNS int LANGUAGE sql RETURN 1",
        "DROP SCHEMA era5 CASCADE",
        # Named below: a name with the process's number would be another one in each worker of the test run.
        "SET ROLE {owner}",
        "GRANT {owner} TO CURRENT_USER",
    ],
)
def test_what_neither_loader_nor_reader_can_do(quiet: str, name: str, statement: str) -> None:
    with psycopg.connect(with_user(quiet, login(name, SHARED)), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises((pg.InsufficientPrivilege, pg.DependentObjectsStillExist)):
            connection.execute(statement.replace("{owner}", SHARED.owner).encode())


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO weather (time) VALUES (now())",
        "DELETE FROM weather",
        "TRUNCATE weather",
        "DROP TABLE weather",
        "ALTER TABLE weather ADD COLUMN mine int",
        "UPDATE era5.ledger SET rows = 0",
        "CREATE TABLE public.mine (i int)",
        "CREATE TABLE era5.mine (i int)",
        "DELETE FROM era5.monthly_summary",
        "SELECT * FROM era5.monthly_summary",
        "UPDATE era5.catalogue SET unit = 'K'",
        "DELETE FROM era5.catalogue",
        "CREATE OR REPLACE VIEW weather_daily AS SELECT 1 AS location_id",
        "DROP VIEW weather_daily CASCADE",
        "COMMENT ON VIEW era5.variable IS 'mine'",
    ],
)
def test_what_a_reader_cannot_do(quiet: str, statement: str) -> None:
    with psycopg.connect(with_user(quiet, login("ann", SHARED))) as connection:
        with pytest.raises(pg.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE mine (i int)")
        connection.rollback()
        connection.execute("SET TRANSACTION READ WRITE")
        with pytest.raises(pg.InsufficientPrivilege):
            connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("name", "schema", "may_create"),
    [
        ("alice", "public", True),
        ("alice", "era5_loads", True),
        ("alice", "era5", False),
        ("ann", "era5_loads", False),
        ("ann", "era5", False),
    ],
)
def test_loaders_create_tables_beside_the_table_and_in_a_schema_of_their_own(
    quiet: str, name: str, schema: str, *, may_create: bool
) -> None:
    with psycopg.connect(with_user(quiet, login(name, SHARED))) as connection:
        row = connection.execute("SELECT has_schema_privilege(%s, 'CREATE')", (schema,)).fetchone()
    assert row == (may_create,)


EVIL = (
    "CREATE FUNCTION {name}({arguments}) RETURNS {kind} LANGUAGE plpgsql SECURITY {security} AS "
    "$$BEGIN {body}; RETURN {returned}; END$$"
)


def test_functions_and_tables_that_a_loader_made_are_never_given_to_the_owner(roled: RoledWarehouse) -> None:
    """As in a warehouse whose loaders could still create objects in the schema era5."""
    roled.era5("alice", "load", "--from", "2023-01", *SMALL)
    run(
        roled.url,
        f"GRANT CREATE ON SCHEMA era5 TO {ROLES.loader}",
        "DROP FUNCTION era5.location_id(double precision, double precision)",
        "DROP VIEW era5.variable, era5.table_column",
        "DROP TABLE era5.catalogue",
    )
    place = "latitude double precision, longitude double precision"
    own = EVIL.format(
        name="era5.location_id", arguments=place, kind="integer", security="DEFINER", body="PERFORM 1", returned="1"
    )
    other = own.replace("location_id", "become_owner")
    run(
        roled.as_user("alice"),
        own,
        other,
        other.replace("double precision", "integer"),
        "CREATE TABLE era5.catalogue (column_name text PRIMARY KEY, mine int)",
        "CREATE TABLE era5.mine (i int)",
    )
    printed = roled.init()
    assert "era5.location_id(double precision, double precision): made anew, because a loader had made it" in printed
    assert "era5.catalogue: made anew" in printed
    functions = (
        "SELECT string_agg(proname || ' ' || proowner::regrole || ' ' || prosecdef, ', ' ORDER BY proname, oid) "
        "FROM pg_proc WHERE pronamespace = 'era5'::regnamespace AND proname IN ('become_owner', 'location_id', 'at')"
    )
    mine = f"become_owner {login('alice')} true"
    assert ask(roled.url, functions) == f"at {ROLES.owner} false, {mine}, {mine}, location_id {ROLES.owner} false"
    assert ask(roled.as_user("ann"), "SELECT era5.location_id(-6, 106)") == 484984
    owners = "SELECT string_agg(DISTINCT pg_get_userbyid(relowner), ' ') FROM pg_class WHERE oid = ANY(%s::regclass[])"
    with psycopg.connect(roled.url) as connection:
        for tables, owner in ((["era5.mine"], login("alice")), (["era5.catalogue", "era5.variable"], ROLES.owner)):
            assert connection.execute(owners, (tables,)).fetchone() == (owner,)
    with psycopg.connect(roled.as_user("alice")) as connection, pytest.raises(pg.InsufficientPrivilege):
        connection.execute("CREATE TABLE era5.again (i int)")


@pytest.mark.parametrize(
    "attached",
    [
        "CREATE TRIGGER mine BEFORE INSERT ON weather FOR EACH ROW EXECUTE FUNCTION public.mine()",
        "CREATE TRIGGER mine BEFORE DELETE ON era5.monthly_last_hour FOR EACH ROW EXECUTE FUNCTION public.mine()",
        "ALTER TABLE weather ADD CONSTRAINT mine CHECK (public.is_mine(location_id))",
        "CREATE INDEX mine ON weather (public.is_mine(location_id))",
        "CREATE DOMAIN public.mine AS int CHECK (public.is_mine(VALUE)); ALTER TABLE weather ADD mine public.mine",
    ],
)
def test_a_superuser_does_not_run_code_that_a_loader_attached_to_the_tables(
    attached: str, host_url: str, here: InProcess
) -> None:
    with new_database(host_url, here) as made:
        url = made.url
        made.init()
        run(url, *create_logins(ROLES))
        become = "IF current_setting('is_superuser') = 'on' THEN RAISE 'ran with all rights'; END IF"
        for name, given, kind, security, returned in (
            ("public.mine", "", "trigger", "INVOKER", "NEW"),
            ("public.is_mine", "i int", "boolean", "INVOKER IMMUTABLE", "true"),
        ):
            made_by_it = {"arguments": given, "kind": kind, "security": security, "returned": returned}
            run(made.as_user("alice"), EVIL.format(name=name, body=become, **made_by_it))
        run(made.as_user("alice"), f"SET ROLE {ROLES.loader}; {attached}")
        made.here.set(ERA5_DATABASE_URL=url)
        function = "mine()" if "TRIGGER" in attached else "mine(integer)"
        for arguments in (("load", "--from", "2023-01", *SMALL), ("db", "init", "--roles", "--role-prefix", PREFIX)):
            printed = made.here.run(*arguments, code=5)
            assert_explained(printed, f"{function}, which {login('alice')} made", "remove it: DROP FUNCTION")
        assert ask(url, "SELECT count(*) FROM weather") == 0
        # The loader itself goes on, at its own risk.
        made.era5("bob", "load", "--from", "2023-01", *SMALL)


def test_only_dagsters_tables_of_its_database_are_the_loaders(roled: RoledWarehouse) -> None:
    url = with_database(roled.url, f"{database_of(roled.url)}_dagster")
    run(url, "CREATE TABLE public.mine (i int)")
    roled.init()
    owners = (
        "SELECT string_agg(DISTINCT tableowner, ' ') FROM pg_tables WHERE schemaname = 'public' AND tablename {} 'mine'"
    )
    assert ask(url, owners.format("<>")) == ROLES.loader
    assert ask(url, owners.format("=")) != ROLES.loader


def test_a_reader_has_functions_and_a_time_limit(quiet: str) -> None:
    with psycopg.connect(with_user(quiet, login("ann", SHARED))) as connection:
        assert connection.execute("SELECT era5.at(-6, 106)").fetchone() == (484984,)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5min",)
        connection.execute("SELECT count(*) FROM era5.month, era5.ledger, era5.load_attempt")
    # The administrator's own choice stays.
    run(quiet, f"ALTER ROLE {login('ann', SHARED)} IN DATABASE {database_of(quiet)} SET statement_timeout = '100ms'")
    with Warehouse(quiet).connect() as connection:
        ensure_roles(connection, SHARED)
    try:
        with psycopg.connect(with_user(quiet, login("ann", SHARED))) as connection, pytest.raises(pg.QueryCanceled):
            connection.execute("SELECT pg_sleep(60)")
    finally:
        run(quiet, f"ALTER ROLE {login('ann', SHARED)} IN DATABASE {database_of(quiet)} SET statement_timeout = '5min'")


def test_the_next_statements_are_valid_and_those_of_the_documentation(server_url: str) -> None:
    documented = (ROOT / "docs" / "database.md").read_text(encoding="utf-8").partition("\n## Roles\n")[2]
    assert tuple(documented.partition("```sql\n")[2].partition("```")[0].splitlines()) == next_statements(
        Roles.named(), "era5"
    )
    odd = Roles.named(f"{PREFIX} Odd")
    names = [f"{PREFIX}_my_loader", f"{PREFIX}_my_reader"]
    try:
        with fresh_database(server_url) as url, Warehouse(url).connect() as connection:
            ensure_schema(connection)
            ensure_roles(connection, odd)
            for statement in next_statements(odd, database_of(url)):
                assert "PASSWORD" not in statement
                if not statement.startswith("\\password "):
                    connection.execute(statement.replace("my_", f"{PREFIX}_my_").encode())
            before = catalogue(url)
            ensure_roles(connection, odd)
            assert catalogue(url) == before
            with psycopg.connect(with_user(url, names[1])) as reader:
                assert reader.execute("SHOW statement_timeout").fetchone() == ("5min",)
                assert reader.execute("SELECT count(*) FROM weather").fetchone() == (0,)
    finally:
        for name in (*names, *odd.names):
            run(server_url, f'DROP ROLE IF EXISTS "{name}"')


def test_an_administrator_without_superuser_makes_the_roles_of_its_own_database(host_url: str, host: Host) -> None:
    """As on a managed server: CREATEROLE, and the owner of the database."""
    with server_without_our_roles(host_url), fresh_role(host_url, "CREATEROLE") as admin:
        with fresh_database(host_url) as url:
            run(url, f"ALTER DATABASE {database_of(url)} OWNER TO {admin}")
            if host.timescaledb is not None:
                run(url, "CREATE EXTENSION timescaledb")
            with Warehouse(with_user(url, admin)).connect() as connection:
                ensure_schema(connection)
                assert ensure_roles(connection, ROLES) == ROLES.names
                before = catalogue(url)
                assert ensure_roles(connection, ROLES) == ()
            assert catalogue(url) == before
            assert ask(url, "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'weather'") == ROLES.loader
        run(host_url, f"DROP ROLE {ROLES.owner}, {ROLES.loader}, {ROLES.reader}")


def test_a_user_who_may_not_create_roles_changes_nothing(server_url: str, here: InProcess) -> None:
    with fresh_role(server_url) as user, fresh_database(server_url) as url:
        run(url, f"ALTER DATABASE {database_of(url)} OWNER TO {user}")
        here.set(ERA5_DATABASE_URL=with_user(url, user))
        before = catalogue(url)
        printed = here.run("db", "init", "--roles", "--role-prefix", PREFIX, code=5)
        assert_explained(printed, f"the user {user} may not create roles", "URL of an administrator")
        assert printed.out == ""
        assert catalogue(url) == before


def test_tables_of_somebody_else_are_left_alone(server_url: str) -> None:
    """CREATEROLE does not make one the owner of the tables: all of it is undone."""
    with fresh_warehouse(server_url) as warehouse, fresh_role(warehouse.url, "CREATEROLE") as admin:
        before = catalogue(warehouse.url)
        with (
            Warehouse(with_user(warehouse.url, admin)).connect() as connection,
            pytest.raises(ServerUnsuitableError, match=r"creating roles: .*\n.*No role was created"),
        ):
            ensure_roles(connection, ROLES)
        assert catalogue(warehouse.url) == before


def test_a_role_that_may_do_more_is_not_used(server_url: str) -> None:
    with (
        fresh_database(server_url) as url,
        fresh_role(server_url, "SUPERUSER", name=ROLES.reader),
        Warehouse(url).connect() as connection,
        pytest.raises(ServerUnsuitableError, match=f"{ROLES.reader} exists, and is a superuser") as refused,
    ):
        ensure_roles(connection, ROLES)
    assert "--role-prefix" in refused.value.remedy


def test_a_table_in_use_changes_nothing(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("era5_pipeline.postgres.roles._LOCK_MS", 50)
    with fresh_warehouse(server_url) as warehouse, warehouse.connect() as connection:
        before = catalogue(warehouse.url)
        with psycopg.connect(warehouse.url) as reader:
            reader.execute("SELECT count(*) FROM weather")
            with pytest.raises(MonthLockedError, match=r"creating roles"):
                ensure_roles(connection, ROLES)
        assert catalogue(warehouse.url) == before


def test_a_user_without_the_roles_is_told(server_url: str, here: InProcess) -> None:
    with fresh_warehouse(server_url) as warehouse, fresh_role(server_url) as user:
        url = warehouse.url
        here.set(ERA5_DATABASE_URL=with_user(url, "e5_nobody"))
        printed = here.run("status", code=5)
        assert_explained(printed, 'role "e5_nobody" does not exist', "era5 db init --roles")
        here.set(ERA5_DATABASE_URL=with_user(url, user))
        assert_explained(here.run("status", code=5), "permission denied", "era5 db init --roles makes these roles")
        other = with_database(url, "postgres")
        assert ask(other, "SELECT count(*) FROM pg_roles WHERE rolname = 'e5_nobody'") == 0


def test_the_roles_load_and_read_every_data_set_of_the_database(roled: RoledWarehouse, flat_months: FlatMonths) -> None:
    second = replace(ERA5, name="test", table="weather_test", schema="era5_test", lock_class=0x54455354)
    for dataset in (ERA5_LAND, second):
        with Warehouse(roled.url, dataset=dataset).connect() as connection:
            ensure_schema(connection)
    with Warehouse(roled.url, dataset=second).connect() as connection:
        assert ensure_roles(connection, ROLES) == ()
    roled.init()
    # ERA5-Land's were given by the command, those of the other by itself.
    load_month(Warehouse(roled.as_user("alice"), dataset=second), flat_months())
    for dataset in (ERA5, ERA5_LAND, second):
        with Warehouse(roled.as_user("ann"), dataset=dataset).connect() as connection:
            rows = connection.execute(dataset.sql("SELECT count(*) FROM {weather}")).fetchone()
            assert rows == (flat_months().rows if dataset == second else 0,)
            for name in ("{schema}.ledger", "{schema}.location", "{weather}_monthly", "{weather}_daily"):
                connection.execute(dataset.sql(f"SELECT count(*) FROM {name}"))
            connection.execute(dataset.sql("SELECT {schema}.at(-6, 106), {schema}.nearest(-6, 106)"))
        with Warehouse(roled.as_user("alice"), dataset=dataset).connect() as connection:
            require_may_load(connection)
            assert user_who_may_write(connection) == login("alice")
