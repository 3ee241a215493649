"""Which server, and connections to it: the embedded one by default, any other by its URL.

Here: URLs, databases, what the server is. Not here: the table (`layouts`, `schema`) or the embedded server itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo, sql

from era5_pipeline.errors import ServerUnreachableError, ServerUnsuitableError, UsageError
from era5_pipeline.warehouse.embedded import EmbeddedServer
from era5_pipeline.warehouse.failures import server_errors, translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.settings import Settings

DATABASE = "era5"
DAGSTER_SUFFIX = "_dagster"
# COPY FREEZE into partitions, BRIN and the statistics views that are used exist from 14 on; older ones are unsupported.
OLDEST_VERSION = 14
_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Server:
    """What the server is. `timescaledb` is the installed version, None without; `license` its edition."""

    version: int
    version_text: str
    timescaledb: str | None
    license: str | None

    def __str__(self) -> str:
        extension = f" + TimescaleDB {self.timescaledb} ({self.license})" if self.timescaledb else ""
        return f"PostgreSQL {self.version_text}{extension}"


@dataclass(frozen=True)
class Warehouse:
    """A database to load into and ask. The URL may hold a password and is kept out of `repr`."""

    url: str

    def __repr__(self) -> str:
        return f"Warehouse({self.shown})"

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return without_password(self.url)

    def connect(self) -> psycopg.Connection:
        """A new connection, autocommit, in UTC.

        Raises:
            ServerUnreachableError: if there is none to be had; names the server.
            ServerUnsuitableError: if the server is too old.
        """
        try:
            connection = psycopg.connect(
                self.url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name="era5",
                options=_with_utc(self.url),
            )
        except psycopg.OperationalError as error:
            raise ServerUnreachableError(
                f"{self.shown}: {' '.join(str(error).split())}",
                remedy="Is the server running, and ERA5_DATABASE_URL right (user, password, database)? "
                "Unset it to use the embedded server.",
            ) from error
        version = connection.info.server_version // 10000
        if version < OLDEST_VERSION:
            connection.close()
            raise ServerUnsuitableError(
                f"{self.shown} is PostgreSQL {version}",
                remedy=f"PostgreSQL {OLDEST_VERSION} or later is needed: upgrade it, or unset ERA5_DATABASE_URL to use "
                "the embedded server.",
            )
        return connection


def _with_utc(url: str) -> str:
    """The URL's own `options`, and UTC: a session in local time would draw month borders elsewhere."""
    return f"{_parameters(url).get('options') or ''} -c TimeZone=UTC".strip()


def _parameters(url: str) -> dict[str, str]:
    try:
        return {key: str(value) for key, value in conninfo.conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError as error:
        raise UsageError(
            f"ERA5_DATABASE_URL is not a PostgreSQL URL ({type(error).__name__})",
            remedy="It looks like postgresql://user:password@host:5432/database.",
        ) from None


def without_password(url: str) -> str:
    """The URL with user, host, port and database alone."""
    parameters = _parameters(url)
    user = f"{parameters['user']}@" if "user" in parameters else ""
    host = parameters.get("host", "localhost")
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}"


def normalized(url: str) -> str:
    """The URL as every client takes it.

    Raises:
        UsageError: if it is no PostgreSQL URL, or names no database.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("postgresql", "postgres"):
        raise UsageError(
            "ERA5_DATABASE_URL is not a PostgreSQL URL",
            remedy="It looks like postgresql://user:password@host:5432/database.",
        )
    parameters = _parameters(url)
    if "dbname" not in parameters:
        raise UsageError(
            "ERA5_DATABASE_URL names no database",
            remedy="Add it at the end: postgresql://user:password@host:5432/database.",
        )
    return with_database(url, parameters["dbname"])


def with_database(url: str, database: str) -> str:
    """The same server, another database."""
    parts = urlsplit(url.strip())
    query = "&".join(part for part in parts.query.split("&") if part and not part.startswith("dbname="))
    # urlunsplit drops the // of an empty host (a Unix socket's URL), which SQLAlchemy insists on.
    rest = urlunsplit(("", parts.netloc or "postgres@", f"/{quote(database)}", query, ""))
    return f"postgresql:{rest}"


def database_of(url: str) -> str:
    """The database that the URL names."""
    return unquote(urlsplit(url).path.lstrip("/"))


def ensure_database(url: str) -> None:
    """Create the database that the URL names, where it is missing.

    Raises:
        ServerUnreachableError: if the server cannot be reached.
        ServerUnsuitableError: if it is missing and may not be created.
    """
    name = database_of(url)
    # Asking for it first needs no privilege beyond the user's own database.
    try:
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS).close()
    except psycopg.OperationalError as error:
        if f'database "{name}" does not exist' not in str(error):
            Warehouse(url).connect()  # says what is wrong
            return
    else:
        return
    try:
        with psycopg.connect(
            with_database(url, "postgres"), autocommit=True, connect_timeout=_CONNECT_SECONDS
        ) as maintenance:
            maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        return  # another process was quicker
    except psycopg.Error as error:
        raise ServerUnsuitableError(
            f"{without_password(url)}: the database does not exist and could not be created "
            f"({translated(error, 'CREATE DATABASE').message})",
            remedy=f"Let an administrator run: CREATE DATABASE {name} OWNER <your user>;",
        ) from error


@contextmanager
def open_warehouse(settings: Settings) -> Iterator[Warehouse]:
    """The warehouse of the settings; the embedded server runs at least as long as this is open.

    Raises:
        UsageError: if the URL is none.
        WarehouseError: if there is no server to be had.
    """
    if settings.database_url is not None:
        yield Warehouse(normalized(settings.database_url.get_secret_value()))
        return
    server = EmbeddedServer(settings.home)
    with server.lease():
        url = server.url(DATABASE)
        ensure_database(url)
        yield Warehouse(url)


def start_warehouse(settings: Settings) -> Warehouse:
    """The warehouse of the settings; an embedded server is started and runs until it is told to stop."""
    if settings.database_url is not None:
        return Warehouse(normalized(settings.database_url.get_secret_value()))
    server = EmbeddedServer(settings.home)
    server.start()
    url = server.url(DATABASE)
    ensure_database(url)
    return Warehouse(url)


def dagster_url(warehouse: Warehouse, settings: Settings) -> str:
    """The URL of Dagster's own database; it is created where it is missing."""
    if settings.dagster_database_url is not None:
        url = normalized(settings.dagster_database_url.get_secret_value())
    else:
        url = with_database(warehouse.url, database_of(warehouse.url) + DAGSTER_SUFFIX)
    ensure_database(url)
    return url


def describe_server(connection: psycopg.Connection) -> Server:
    """What the connected server is."""
    with server_errors("asking what the server is"):
        row = connection.execute(
            "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('timescaledb.license', true),"
            " (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb')"
        ).fetchone()
    version_text, license_name, extension = row if row is not None else ("?", None, None)
    return Server(
        version=connection.info.server_version // 10000,
        version_text=version_text,
        timescaledb=extension,
        license=license_name if extension else None,
    )
