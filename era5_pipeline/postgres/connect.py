"""Which server, and connections to it: the embedded one by default, any other by its URL.

Here: connecting, databases, what the server is. Not here: the table (`layouts`, `schema`), URLs (`urls`) or the
embedded server itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import conninfo, pq, sql

from era5_pipeline.model.errors import ServerUnreachableError, ServerUnsuitableError, TransientError
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
from era5_pipeline.postgres.server_errors import server_errors, translate_error
from era5_pipeline.postgres.urls import database_of, normalized, url_parameters, with_database, without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.model.errors import Era5Error
    from era5_pipeline.model.settings import Settings

DATABASE = "era5"
DAGSTER_SUFFIX = "_dagster"
# The oldest that is still maintained (14 ended in November 2026), and the oldest that was tried.
OLDEST_VERSION = 15
_CONNECT_SECONDS = 10
_PING_SECONDS = 2
# When a network says nothing any more: libpq itself asks after two hours, and for data on their way never.
_DEAD_CONNECTION_LIMITS = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}
# libpq gives no SQLSTATE of a connection that failed, only the server's words.
_NONE_FREE = ("too many clients", "too many connections", "connection slots are reserved")


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
            UsageError: if the URL cannot be meant.
            TransientError: if the server is just starting or stopping, or has no connection free.
            ServerUnreachableError: if there is none to be had; names the server.
            ServerUnsuitableError: if the server is too old.
        """
        given = url_parameters(self.url)
        own_options = given.get("options", "")
        silence: dict[str, Any] = {name: value for name, value in _DEAD_CONNECTION_LIMITS.items() if name not in given}
        try:
            connection = psycopg.connect(
                self.url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name="era5",
                # Of a database without an encoding (SQL_ASCII), text would come as bytes.
                client_encoding="UTF8",
                # A session in local time would draw month borders elsewhere.
                options=f"{own_options} -c TimeZone=UTC".strip(),
                **silence,
            )
        except psycopg.OperationalError as error:
            raise _no_connection(self.url, error) from error
        try:
            require_supported(connection.info.server_version, self.shown)
            with server_errors(f"connecting to {self.shown}"):
                # A user called era5 would, by the usual path, make the table weather in the ledger's schema, where
                # nobody else looks for it.
                connection.execute(
                    "SELECT set_config('search_path', 'public', false) WHERE current_schema() = 'era5' "
                    "OR (current_user = 'era5' AND current_setting('search_path') = '\"$user\", public')"
                )
        except BaseException:
            connection.close()
            raise
        return connection


def _no_connection(url: str, error: psycopg.OperationalError) -> Era5Error:
    said = " ".join(str(error).split())
    what = f"{without_password(url)}: {said}"
    if any(words in said for words in _NONE_FREE):
        return TransientError(what, remedy="Try again in a moment, or raise max_connections.")
    ping = pq.PGconn.ping(conninfo.make_conninfo(url, connect_timeout=_PING_SECONDS).encode())
    if ping == pq.Ping.REJECT:
        return TransientError(what, remedy="The server is starting or stopping: try again in a moment.")
    return ServerUnreachableError(
        what,
        remedy="Is the server running, and ERA5_DATABASE_URL right (user, password, database)? "
        "Unset it to use the embedded server.",
    )


def require_supported(version: int, shown: str) -> None:
    """Raise if a server of this version (as libpq gives it: 140012 is 14.12) is too old.

    Raises:
        ServerUnsuitableError: naming the server as `shown`.
    """
    if version // 10000 < OLDEST_VERSION:
        raise ServerUnsuitableError(
            f"{shown} is PostgreSQL {version // 10000}",
            remedy=f"PostgreSQL {OLDEST_VERSION} or later is needed: upgrade it, or unset ERA5_DATABASE_URL to use "
            "the embedded server.",
        )


def ensure_database(url: str) -> None:
    """Create the database that the URL names, where it is missing.

    Raises:
        TransientError, ServerUnreachableError: if the server cannot be reached.
        ServerUnsuitableError: if it is missing and may not be created.
    """
    # Asking for it first needs no privilege beyond the user's own database.
    try:
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS).close()
    except psycopg.OperationalError as error:
        if f'database "{database_of(url)}" does not exist' in str(error) or _is_missing(url):
            _create_database(url)
        else:
            raise _no_connection(url, error) from error


def _is_missing(url: str) -> bool:
    """Whether the server answers and lacks the database; for servers that speak other languages than English."""
    try:
        with psycopg.connect(with_database(url, "postgres"), connect_timeout=_CONNECT_SECONDS) as maintenance:
            found = maintenance.execute("SELECT FROM pg_database WHERE datname = %s", (database_of(url),)).fetchone()
    except psycopg.OperationalError:
        return False
    return found is None


def _create_database(url: str) -> None:
    name = database_of(url)
    try:
        with psycopg.connect(
            with_database(url, "postgres"), autocommit=True, connect_timeout=_CONNECT_SECONDS
        ) as maintenance:
            maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        return  # another process was quicker
    except psycopg.errors.ObjectInUse as error:  # someone visits the database that new ones are copied from
        raise translate_error(error, f"creating {without_password(url)}") from error
    except psycopg.Error as error:
        raise ServerUnsuitableError(
            f"{without_password(url)}: the database does not exist and could not be created "
            f"({translate_error(error, 'CREATE DATABASE').message})",
            remedy=f"Let an administrator run: CREATE DATABASE {name} OWNER <your user>;",
        ) from error


@contextmanager
def open_warehouse(settings: Settings, *, create: bool = False) -> Iterator[Warehouse]:
    """The warehouse of the settings; the embedded server runs at least as long as this is open.

    `create` is for those who write: it makes the database where the server lacks it.

    Raises:
        UsageError: if the URL is none.
        WarehouseError: if there is no server to be had.
    """
    if settings.database_url is not None:
        url = normalized(settings.database_url.get_secret_value())
        if create:
            ensure_database(url)
        yield Warehouse(url)
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
            "SELECT split_part(current_setting('server_version'), ' ', 1), "
            "current_setting('timescaledb.license', true), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'timescaledb')"
        ).fetchone()
    version_text, license_name, extension = row if row is not None else ("?", None, None)
    return Server(
        version=connection.info.server_version // 10000,
        version_text=version_text,
        timescaledb=extension,
        license=license_name if extension else None,
    )
