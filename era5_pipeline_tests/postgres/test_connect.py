"""Which server, and what is said when there is none."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pydantic import SecretStr

from era5_pipeline.model.errors import ServerUnreachableError, ServerUnsuitableError, TransientError, UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import (
    OLDEST_VERSION,
    Server,
    Warehouse,
    dagster_url,
    describe_server,
    ensure_database,
    open_warehouse,
    require_supported,
    start_warehouse,
)
from era5_pipeline.postgres.embedded.server_processes import first_number
from era5_pipeline.postgres.urls import database_of, with_database
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
    from era5_pipeline_tests.servers import Host

SECRET = "hunter2"


def as_role(url: str, role: str, password: str = "") -> str:
    return url.replace("//postgres@", f"//{role}{password and ':' + password}@")


def drop(server_url: str, *names: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def test_a_session_is_in_utc_and_commits_by_itself(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        assert connection.autocommit
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
        assert connection.execute("SHOW application_name").fetchone() == ("era5",)


def test_the_urls_own_options_stay(database_url: str) -> None:
    url = database_url + "&options=-c%20work_mem%3D5MB%20-c%20TimeZone%3DAsia/Jakarta"
    with Warehouse(url).connect() as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_what_the_server_is(warehouse: Warehouse, host: Host) -> None:
    with warehouse.connect() as connection:
        plain = describe_server(connection)
        assert (plain.timescaledb, plain.license) == (None, None)
        assert str(plain) == f"PostgreSQL {plain.version_text}"
        ensure_schema(connection)
        found = describe_server(connection)
    assert found.version_text.startswith(host.version)
    assert found.version == int(found.version_text.partition(".")[0])
    assert (found.timescaledb, found.license) == (host.timescaledb, host.license)


def test_servers_in_words() -> None:
    assert str(Server(17, "17.11", None, None)) == "PostgreSQL 17.11"
    assert str(Server(17, "17.11", "2.29.2", "timescale")) == "PostgreSQL 17.11 + TimescaleDB 2.29.2 (timescale)"


@pytest.mark.parametrize("version", [OLDEST_VERSION * 10000, 170011, 180004])
def test_versions_that_will_do(version: int) -> None:
    require_supported(version, "postgresql://h/d")


@pytest.mark.parametrize(
    ("version", "named"), [(130014, "13"), (90624, "9"), (OLDEST_VERSION * 10000 - 1, str(OLDEST_VERSION - 1))]
)
def test_versions_that_are_too_old(version: int, named: str) -> None:
    with pytest.raises(
        ServerUnsuitableError, match=rf"^postgresql://h/d is PostgreSQL {named}\nPostgreSQL {OLDEST_VERSION} or later"
    ):
        require_supported(version, "postgresql://h/d")


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening
        port = taken.getsockname()[1]
        url = f"postgresql://user:{SECRET}@127.0.0.1:{port}/era5"
        for attempt in (Warehouse(url).connect, lambda: ensure_database(url)):
            with pytest.raises(ServerUnreachableError, match=f"postgresql://user@127.0.0.1:{port}/era5: ") as failed:
                attempt()
            assert "Is the server running, and ERA5_DATABASE_URL right" in failed.value.remedy
            assert SECRET not in str(failed.value)


def test_a_name_that_is_none() -> None:
    with pytest.raises(ServerUnreachableError, match=r"no-such-host\.invalid"):
        Warehouse("postgresql://u@no-such-host.invalid/d").connect()


def test_something_else_that_listens() -> None:
    """It takes the connection and says nothing that PostgreSQL says."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = other.accept()
                    with accepted:
                        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerUnreachableError):
            Warehouse(f"postgresql://u@127.0.0.1:{other.getsockname()[1]}/d").connect()
        other.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def needing_passwords(embedded: EmbeddedServer, role: str) -> Iterator[None]:
    """Within, the server asks the role for its password."""
    url, rules = embedded.url("postgres"), embedded.data_folder / "pg_hba.conf"
    before = rules.read_text()
    try:
        rules.write_text(f"local all {role} scram-sha-256\n{before}")
        reloaded = ask(url, "SELECT pg_conf_load_time()")
        ask(url, "SELECT pg_reload_conf()")
        wait_until(lambda: bool(ask(url, "SELECT pg_conf_load_time() > %s", reloaded)))
        yield
    finally:
        rules.write_text(before)
        ask(url, "SELECT pg_reload_conf()")


def test_a_wrong_password(embedded: EmbeddedServer, database_url: str, server_url: str) -> None:
    with fresh_role(server_url, f"PASSWORD '{SECRET}'") as role, needing_passwords(embedded, role):
        right, wrong = as_role(database_url, role, SECRET), as_role(database_url, role, "hunter3")
        with Warehouse(right).connect() as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)
        for attempt in (Warehouse(wrong).connect, lambda: ensure_database(wrong)):
            with pytest.raises(ServerUnreachableError, match="password authentication failed") as failed:
                attempt()
            assert "hunter" not in str(failed.value)
        with pytest.raises(ServerUnreachableError, match="no password supplied"):
            Warehouse(as_role(database_url, role)).connect()


def test_passwords_are_kept_out_of_everything(database_url: str) -> None:
    url = as_role(database_url, "postgres", SECRET)
    warehouse = Warehouse(url)
    for text in (repr(warehouse), str(warehouse), warehouse.shown, f"{warehouse}"):
        assert SECRET not in text
    with warehouse.connect() as connection:
        connection.execute("CREATE TABLE weather ()")
        with pytest.raises(ServerUnsuitableError) as refused:
            ensure_schema(connection)
    assert SECRET not in repr(refused.value)


def test_a_url_that_cannot_be_meant() -> None:
    warehouse = Warehouse(f"postgresql://u:{SECRET}/x@h/d")
    with pytest.raises(UsageError) as refused:
        warehouse.connect()
    assert SECRET not in str(refused.value)


# Databases that are missing


def test_a_missing_database_is_made(server_url: str) -> None:
    url = with_database(server_url, f"missing {os.getpid()} %")
    with pytest.raises(ServerUnreachableError, match="does not exist"):
        Warehouse(url).connect()
    try:
        for _ in range(2):
            ensure_database(url)
            assert ask(url, "SELECT current_database()") == database_of(url)
    finally:
        drop(server_url, database_of(url))


def test_many_make_the_same_database_at_once(server_url: str) -> None:
    url = with_database(server_url, f"missing_{os.getpid()}")
    failed: list[BaseException] = []

    def make() -> None:
        try:
            ensure_database(url)
        except BaseException as error:  # noqa: BLE001  # it is counted
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert ask(url, "SELECT 1") == 1
    finally:
        drop(server_url, database_of(url))


def test_a_missing_database_that_may_not_be_made(server_url: str) -> None:
    with fresh_role(server_url) as role:
        url = as_role(with_database(server_url, "nowhere"), role)
        expected = (
            r"nowhere: the database does not exist and could not be created \(CREATE DATABASE: permission denied.*\)\n"
            "Let an administrator run: CREATE DATABASE nowhere OWNER"
        )
        with pytest.raises(ServerUnsuitableError, match=expected):
            ensure_database(url)


def test_a_missing_user_is_not_taken_for_a_missing_database(server_url: str) -> None:
    with pytest.raises(ServerUnreachableError, match='role "nobody_of_that_name" does not exist'):
        ensure_database(as_role(server_url, "nobody_of_that_name"))


# Servers that have no time just now


def test_no_connection_free(database_url: str, server_url: str) -> None:
    with fresh_role(server_url, "CONNECTION LIMIT 1") as role:
        url = as_role(database_url, role)
        with Warehouse(url).connect():
            with pytest.raises(TransientError, match="too many connections for role"):
                Warehouse(url).connect()
            with pytest.raises(TransientError):
                ensure_database(url)


def test_all_connections_taken(database_url: str) -> None:
    with ExitStack() as taken:
        with suppress(psycopg.OperationalError):
            while True:
                taken.enter_context(psycopg.connect(database_url))
        with pytest.raises(TransientError, match="too many clients"):
            Warehouse(database_url).connect()


def test_a_server_that_is_stopping(embedded: EmbeddedServer, database_url: str) -> None:
    postmaster = first_number(embedded.data_folder / "postmaster.pid")
    assert postmaster is not None
    with psycopg.connect(database_url):
        os.kill(postmaster, signal.SIGTERM)  # "smart": it waits for the session
        try:
            wait_until(lambda: not embedded.is_running())
            with pytest.raises(TransientError, match="the database system is shutting down"):
                Warehouse(database_url).connect()
        finally:
            os.kill(postmaster, signal.SIGINT)
    wait_until(lambda: first_number(embedded.data_folder / "postmaster.pid") is None)
    with embedded.lease():
        assert ask(database_url, "SELECT 1") == 1


# What the settings choose


def test_a_server_of_ones_own(database_url: str) -> None:
    settings = Settings(database_url=SecretStr(f" {database_url.replace('postgresql:', 'postgres:')}\n"))
    with open_warehouse(settings) as warehouse:
        assert warehouse == Warehouse(database_url)
    assert start_warehouse(settings) == Warehouse(database_url)


def test_a_database_of_ones_own_is_made_for_those_who_write(server_url: str) -> None:
    url = with_database(server_url, f"written_{os.getpid()}")
    settings = Settings(database_url=SecretStr(url))
    try:
        with open_warehouse(settings) as warehouse, pytest.raises(ServerUnreachableError):
            warehouse.connect()
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
            assert connection.execute("SELECT current_database()").fetchone() == (database_of(url),)
    finally:
        drop(server_url, database_of(url))


def test_the_embedded_server_by_default(embedded: EmbeddedServer, server_url: str) -> None:
    home = Path(embedded.data_folder).parent
    settings = Settings(home=home)
    try:
        with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("era5",)
            url = dagster_url(warehouse, settings)
            assert url == embedded.url("era5_dagster")
            assert ask(url, "SELECT current_database()") == "era5_dagster"
        assert start_warehouse(settings).url == embedded.url("era5")
        (home / "postgres.keep").unlink()
        own = Settings(home=home, dagster_database_url=SecretStr(embedded.url("elsewhere")))
        assert dagster_url(warehouse, own) == embedded.url("elsewhere")
    finally:
        drop(server_url, "era5", "era5_dagster", "elsewhere")
