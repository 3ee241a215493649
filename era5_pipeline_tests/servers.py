"""The servers that tests run on, as a pytest plugin: the embedded one, and others given by URL.

    pytest --test-dsn postgresql://postgres@localhost:5432/postgres
    ERA5_TEST_DSN="postgresql://... postgresql://..." pytest

A URL's user must be allowed to create databases and, for TimescaleDB, the extension; the tests create databases there
and drop them again. A test with the fixture `warehouse` runs for each layout of the table, on the servers given for it;
a layout without a server is left out, as the first lines of pytest's report say.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.processes import MAJOR_VERSION
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.urls import database_of, with_database, without_password
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Where servers keep their files: a path short enough for a socket, which pytest's own may not be. In memory if there is
# room: ext4 gives a new file no place that a deleted one had in the last seconds, and looking for other places while
# databases come and go took a fifth of the suite's CPU.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 8 << 30
SERVER_FILES = _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES else Path("/tmp")

# Layout by the value of `SHOW timescaledb.license`; None: no TimescaleDB.
LAYOUTS = {None: "partitions", "apache": "hypertable", "timescale": "columnstore"}
EDITIONS = {"apache": "Apache", "timescale": "Community"}

_numbers = itertools.count()
# The names of databases to copy, by server and what filled them.
_templates: dict[tuple[str, Callable[[str], None]], str] = {}
# Connections that create and drop databases, by server: a backend for each of these commands took as long as they do.
_administrators: dict[str, psycopg.Connection[Any]] = {}
# The log of a copy, which is the default, would be larger than its files, and takes five times as long.
_COPY = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")


@dataclass(frozen=True)
class Host:
    """A server to create databases on; `url` is None for the embedded one, which is started at its first use."""

    url: str | None
    version: str
    license: str | None
    timescaledb: str | None

    @property
    def layout(self) -> str:
        return LAYOUTS[self.license]

    def __str__(self) -> str:
        where = "embedded" if self.url is None else without_password(self.url)
        edition = "" if self.license is None else f", TimescaleDB {self.timescaledb} {EDITIONS[self.license]} edition"
        return f"{where}: PostgreSQL {self.version}{edition} ({self.layout})"


EMBEDDED = Host(None, str(MAJOR_VERSION), None, None)
_HOSTS = pytest.StashKey[list[Host]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--test-dsn",
        action="append",
        default=[],
        metavar="URL",
        help="another server to test on, besides the embedded one; may be repeated (or ERA5_TEST_DSN, with spaces)",
    )
    parser.addoption(
        "--batches",
        choices=["auto", "off"],
        default="auto",
        help="columnstore: load finished batches, as ERA5_BATCHES does, or rows, where a test does not choose itself",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--batches") == "off":
        os.environ["ERA5_BATCHES"] = "off"  # of commands, and of workers of xdist
    if os.environ.get("ERA5_BATCHES") == "off":
        # Other settings of this process do not reach the tests.
        load_month.__kwdefaults__ = {**(load_month.__kwdefaults__ or {}), "batches": False}
        Settings.model_fields["batches"].default = "off"
        Settings.model_rebuild(force=True)
    # Options are given only to the first process of xdist, which passes the hosts on to its workers.
    passed_on = getattr(config, "workerinput", {}).get("era5_hosts")
    if passed_on is not None:
        config.stash[_HOSTS] = [Host(**host) for host in passed_on]
        return
    urls = [*config.getoption("--test-dsn"), *os.environ.get("ERA5_TEST_DSN", "").split()]
    config.stash[_HOSTS] = [EMBEDDED, *(_host(url) for url in dict.fromkeys(urls))]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the hosts on to a worker of xdist."""
    node.workerinput["era5_hosts"] = [asdict(host) for host in node.config.stash[_HOSTS]]


def pytest_report_header(config: pytest.Config) -> list[str]:
    hosts = config.stash[_HOSTS]
    return [
        *(["the columnstore is loaded by rows (--batches off)"] if os.environ.get("ERA5_BATCHES") == "off" else []),
        *(f"server {host}" for host in hosts),
        *(
            f"no TimescaleDB {edition} edition given: tests on it are left out (--test-dsn URL)"
            for license_name, edition in EDITIONS.items()
            if license_name not in {host.license for host in hosts}
        ),
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "host" not in metafunc.fixturenames:
        return
    hosts = metafunc.config.stash[_HOSTS]
    params = []
    for license_name, layout in LAYOUTS.items():
        on = [host for host in hosts if host.license == license_name]
        params += [
            pytest.param(host, id=layout if host is on[0] else f"{layout}, {host.version}, {number}")
            for number, host in enumerate(on)
        ]
    metafunc.parametrize("host", params, indirect=True, scope="module")


# Fixtures of a server, and names by which a test or a fixture of its own starts one: its test is marked `server`.
_SERVER_FIXTURES = frozenset({"embedded", "server_url", "host"})
_SERVER_STARTERS = frozenset({"new_home", "EmbeddedServer", "own_server_of", "ServerTemplate"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _uses_server(item):
            item.add_marker(pytest.mark.server)


def _uses_server(item: pytest.Function) -> bool:
    if _SERVER_FIXTURES & set(item.fixturenames):
        return True
    fixtures = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
    return any(_SERVER_STARTERS & set(function.__code__.co_names) for function in (item.obj, *fixtures))


def _host(url: str) -> Host:
    """Read the version of a server given by URL, in a new database."""
    try:
        without_password(url)  # before libpq, whose errors repeat parts of the URL
        with fresh_database(url) as database, psycopg.connect(database, autocommit=True) as connection:
            offered = connection.execute(
                "SELECT FROM pg_available_extensions WHERE name = 'timescaledb' "
                "AND EXISTS (SELECT FROM pg_settings WHERE name LIKE 'timescaledb.%')"
            ).fetchone()
            if offered is not None:
                connection.execute("CREATE EXTENSION timescaledb")
            row = connection.execute(
                "SELECT split_part(current_setting('server_version'), ' ', 1), "
                "current_setting('timescaledb.license', true), "
                "(SELECT extversion FROM pg_extension WHERE extname = 'timescaledb')"
            ).fetchone()
            assert row is not None
            return Host(url, row[0], row[1] if offered is not None else None, row[2])
    except (psycopg.Error, Era5Error) as error:
        message = " ".join(str(error).split())
        raise pytest.UsageError(f"the server given by --test-dsn or ERA5_TEST_DSN cannot be used: {message}") from None


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Create an empty database on the server for this context; yields its URL."""
    # template1 is sometimes in use, by TimescaleDB's launcher.
    with _new_database(server_url, "template0") as url:
        yield url


@contextmanager
def database_copy(server_url: str, fill: Callable[[str], None], *, name: str | None = None) -> Iterator[str]:
    """As `fresh_database`, with what `fill` puts into the database of a URL, and the name if one is given.

    It does so once in this process, for a database that is kept on the server as the template of all others.
    """
    made = (server_url, fill)
    if made not in _templates:
        _templates[made] = _new_template(server_url, fill)
    with _new_database(server_url, _templates[made], name) as url:
        yield url


def _new_template(server_url: str, fill: Callable[[str], None]) -> str:
    url = _create(server_url, "template0")
    name = database_of(url)
    try:
        fill(url)
        # Only a database without sessions can be copied, and TimescaleDB's workers enter any that they may.
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
    except BaseException:
        _drop(server_url, name)
        raise
    return name


def pytest_unconfigure() -> None:
    """Drop the templates on servers that go on running; that of the embedded one is gone with its folder."""
    while _templates:
        (server_url, _), name = _templates.popitem()
        with suppress(psycopg.OperationalError):
            _drop(server_url, name)
    while _administrators:
        _administrators.popitem()[1].close()


@contextmanager
def _new_database(server_url: str, template: str, name: str | None = None) -> Iterator[str]:
    url = _create(server_url, template, name)
    try:
        yield url
    finally:
        _drop(server_url, database_of(url))


def _create(server_url: str, template: str, name: str | None = None) -> str:
    name = name or f"era5_test_{os.getpid()}_{next(_numbers)}"
    _administer(server_url, _COPY.format(sql.Identifier(name), sql.Identifier(template)))
    return with_database(server_url, name)


def _drop(server_url: str, name: str) -> None:
    _administer(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(server_url: str, command: sql.Composed) -> None:
    kept = _administrators.get(server_url)
    if kept is not None and not kept.closed:
        try:
            kept.execute(command)
        except psycopg.OperationalError:
            if not kept.closed:
                raise
            # The server was restarted, or a forked process closed the connection.
        else:
            return
    connection = _administrators[server_url] = psycopg.connect(server_url, autocommit=True)
    connection.execute(command)


def create_tables(url: str) -> None:
    """Create in a database what a first load does before it loads."""
    with Warehouse(url).connect() as connection:
        ensure_schema(connection)


@contextmanager
def fresh_warehouse(server_url: str) -> Iterator[Warehouse]:
    """Create a database with the project's tables for this context, in which no month is loaded."""
    with database_copy(server_url, create_tables) as url:
        yield Warehouse(url)


@contextmanager
def fresh_role(server_url: str, attributes: str = "", *, name: str | None = None) -> Iterator[str]:
    """Create a login role for this context; yields its name. What it owns in the URL's database is dropped."""
    name = name or f"era5_test_{os.getpid()}_{next(_numbers)}"
    quoted = sql.Identifier(name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN {}").format(quoted, sql.SQL(attributes)))
    try:
        yield name
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(quoted))
            connection.execute(sql.SQL("DROP OWNED BY {}").format(quoted))
            connection.execute(sql.SQL("DROP ROLE {}").format(quoted))


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedServer]:
    """The embedded server of this process, running as the product starts it, except that it does not sync."""
    home = Path(tempfile.mkdtemp(prefix="era5-test-", dir=SERVER_FILES))
    server = EmbeddedServer(home)
    try:
        with server.lease() as url:
            # Creating and dropping databases, which most tests do, waits for the disk most of the time.
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server
    finally:
        server.stop(force=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def server_url(embedded: EmbeddedServer) -> str:
    """The URL of the embedded server's database `postgres`."""
    return embedded.url("postgres")


@pytest.fixture
def database_url(server_url: str) -> Iterator[str]:
    """The URL of a new, empty database on the embedded server."""
    with fresh_database(server_url) as url:
        yield url


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Host:
    """The server that `warehouse` is on."""
    found: Host = request.param
    return found


@pytest.fixture(scope="module")
def host_url(host: Host, request: pytest.FixtureRequest) -> str:
    """The URL of its database for administration."""
    return host.url or str(request.getfixturevalue("server_url"))


@pytest.fixture
def empty_warehouse(host_url: str) -> Iterator[Warehouse]:
    """A new, empty database, without tables; the test runs on each of the servers, with the layout as its id."""
    with fresh_database(host_url) as url:
        yield Warehouse(url)


@pytest.fixture
def warehouse(host_url: str) -> Iterator[Warehouse]:
    """As `empty_warehouse`, with the tables, in which no month is loaded."""
    with fresh_warehouse(host_url) as new:
        yield new


@pytest.fixture(scope="module")
def shared_warehouse(host_url: str) -> Iterator[Warehouse]:
    """As `warehouse`, but one for all tests of a module, for tests that leave it unchanged."""
    with fresh_warehouse(host_url) as new:
        yield new


@pytest.fixture
def embedded_warehouse(server_url: str) -> Iterator[Warehouse]:
    """As `warehouse`, on the embedded server only."""
    with fresh_warehouse(server_url) as new:
        yield new


@pytest.fixture(scope="module")
def shared_database_url(server_url: str) -> Iterator[str]:
    """As `database_url`, but one for all tests of a module."""
    with fresh_database(server_url) as url:
        yield url
