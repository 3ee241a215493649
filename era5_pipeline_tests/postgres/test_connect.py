"""Connections to servers, and the errors of servers that are unreachable, unsuitable or busy."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pydantic import SecretStr

from era5_pipeline.model.errors import (
    NoDatabaseError,
    ServerUnreachableError,
    ServerUnsuitableError,
    TransientError,
)
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import (
    Warehouse,
    dagster_url,
    ensure_database,
    open_warehouse,
    start_warehouse,
)
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline.postgres.urls import database_of, with_database
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.embedded.server import EmbeddedServer

SECRET = "hunter2"


def as_role(url: str, role: str, password: str = "") -> str:
    return url.replace("//postgres@", f"//{role}{password and ':' + password}@")


def drop(server_url: str, *names: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def test_a_session_is_in_utc_and_autocommit_and_keeps_other_options_of_the_url(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        assert connection.autocommit
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
        assert connection.execute("SHOW application_name").fetchone() == ("era5",)
    options = "options=-c%20work_mem%3D5MB%20-c%20TimeZone%3DAsia/Jakarta"
    url = warehouse.url + ("&" if "?" in warehouse.url else "?") + options
    with Warehouse(url).connect() as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening
        port = taken.getsockname()[1]
        url = f"postgresql://user:{SECRET}@127.0.0.1:{port}/era5"
        for attempt in (Warehouse(url).connect, lambda: ensure_database(url)):
            with pytest.raises(ServerUnreachableError, match=f"postgresql://user@127.0.0.1:{port}/era5: ") as failed:
                attempt()
            assert "Check that the server is running and that ERA5_DATABASE_URL is right" in failed.value.remedy
            assert SECRET not in str(failed.value)


def test_a_port_where_another_program_listens() -> None:
    """It accepts the connection and answers in another protocol."""
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
    """Make the server ask the role for its password in this context."""
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


def test_a_wrong_password_is_rejected_and_not_repeated(
    embedded: EmbeddedServer, database_url: str, server_url: str
) -> None:
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


def test_no_text_or_error_contains_the_password(database_url: str) -> None:
    url = as_role(database_url, "postgres", SECRET)
    warehouse = Warehouse(url)
    for text in (repr(warehouse), str(warehouse), warehouse.shown, f"{warehouse}"):
        assert SECRET not in text
    with warehouse.connect() as connection:
        connection.execute("CREATE TABLE weather ()")
        with pytest.raises(ServerUnsuitableError) as refused:
            ensure_schema(connection)
    assert SECRET not in repr(refused.value)


# Missing databases


def test_a_missing_database_is_created(server_url: str) -> None:
    url = with_database(server_url, f"missing {os.getpid()} %")
    with pytest.raises(NoDatabaseError, match=r"there is no database 'missing \d+ %' on the server: postgresql://"):
        Warehouse(url).connect()
    try:
        for _ in range(2):
            ensure_database(url)
            assert ask(url, "SELECT current_database()") == database_of(url)
    finally:
        drop(server_url, database_of(url))


def test_threads_that_create_the_same_database_at_once_all_succeed(server_url: str) -> None:
    url = with_database(server_url, f"missing_{os.getpid()}")
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ensure_database, [url] * 4))
        assert ask(url, "SELECT 1") == 1
    finally:
        drop(server_url, database_of(url))


def test_a_missing_database_that_the_user_may_not_create(server_url: str) -> None:
    with fresh_role(server_url) as role:
        url = as_role(with_database(server_url, "nowhere"), role)
        expected = (
            r"nowhere\S*: the database does not exist and could not be created "
            r"\(CREATE DATABASE: permission denied.*\)\n"
            "Let an administrator run: CREATE DATABASE nowhere OWNER"
        )
        with pytest.raises(ServerUnsuitableError, match=expected):
            ensure_database(url)


def test_a_missing_user_is_not_mistaken_for_a_missing_database(server_url: str) -> None:
    with pytest.raises(ServerUnreachableError, match='role "nobody_of_that_name" does not exist'):
        ensure_database(as_role(server_url, "nobody_of_that_name"))


# Busy servers


def test_a_role_without_a_free_connection_is_a_transient_error(database_url: str, server_url: str) -> None:
    with fresh_role(server_url, "CONNECTION LIMIT 1") as role:
        url = as_role(database_url, role)
        with Warehouse(url).connect():
            with pytest.raises(TransientError, match="too many connections for role"):
                Warehouse(url).connect()
            with pytest.raises(TransientError):
                ensure_database(url)


def test_a_server_without_a_free_connection_is_a_transient_error(database_url: str) -> None:
    with ExitStack() as taken:
        with suppress(psycopg.OperationalError):
            while True:
                taken.enter_context(psycopg.connect(database_url))
        with pytest.raises(TransientError, match="too many clients"):
            Warehouse(database_url).connect()


def test_a_server_that_is_stopping_is_a_transient_error(embedded: EmbeddedServer, database_url: str) -> None:
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


# The server that the settings choose


def test_the_server_of_the_url(database_url: str) -> None:
    settings = Settings(database_url=SecretStr(f" {database_url.replace('postgresql:', 'postgres:')}\n"))
    with open_warehouse(settings) as warehouse:
        assert warehouse == Warehouse(database_url)
    assert start_warehouse(settings) == Warehouse(database_url)


def test_the_database_of_the_url_is_created_for_commands_that_write(server_url: str) -> None:
    url = with_database(server_url, f"written_{os.getpid()}")
    settings = Settings(database_url=SecretStr(url))
    try:
        with open_warehouse(settings) as warehouse, pytest.raises(ServerUnreachableError):
            warehouse.connect()
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
            assert connection.execute("SELECT current_database()").fetchone() == (database_of(url),)
    finally:
        drop(server_url, database_of(url))


def test_the_embedded_server_is_the_default(embedded: EmbeddedServer, server_url: str) -> None:
    home = Path(embedded.data_folder).parent
    settings = Settings(home=home)
    try:
        with open_warehouse(settings) as warehouse, pytest.raises(NoDatabaseError, match="there is no database 'era5'"):
            warehouse.connect()
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
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
