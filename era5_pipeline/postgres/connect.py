"""Connections to the server: the embedded one by default, any other by its URL.

Connecting and creating databases. For the server's version see `server_version`, for the table `warehouse`, for URLs
`urls`, for running the embedded server `embedded`.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import conninfo, pq, sql

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import (
    NoDatabaseError,
    ServerUnreachableError,
    ServerUnsuitableError,
    TransientError,
    UsageError,
)
from era5_pipeline.postgres import urls
from era5_pipeline.postgres.dataset_connection import connect_for
from era5_pipeline.postgres.embedded.data_folder import known_homes
from era5_pipeline.postgres.embedded.server import EmbeddedDatabaseWatch, EmbeddedServer
from era5_pipeline.postgres.schema_version import VERSION_QUERY, checked_version, require_usable
from era5_pipeline.postgres.server_errors import connection_remedy, lost_connections, server_errors, translate_error
from era5_pipeline.postgres.server_version import require_supported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.errors import Era5Error
    from era5_pipeline.model.settings import Settings

_log = logging.getLogger(__name__)

DATABASE = "era5"
DAGSTER_SUFFIX = "_dagster"
_CONNECT_SECONDS = 10
_PING_SECONDS = 2
# Detect silent connections: by default, libpq checks after two hours, and never while sent data is unacknowledged.
_DEAD_CONNECTION_LIMITS = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}
# How many other homes with a database a message names.
_NAMED_HOMES = 3
_NAME_ANOTHER = (
    "The first load creates it, such as era5 load --place Jakarta. If yours is elsewhere, name it: set ERA5_HOME to "
    "its folder, or ERA5_DATABASE_URL to the URL of its server and database."
)
# Both in one round trip.
_ON_CONNECT = (
    "SELECT found.version, found.has_ledger, CASE WHEN {in_our_schema} "
    "THEN set_config('search_path', 'public', false) END "
    f"FROM (SELECT) AS session LEFT JOIN ({VERSION_QUERY}) AS found ON true"
)
# For a user named era5, the default search path would create the table in that ledger's schema, where nobody else
# looks for it.
_IN_SCHEMA = (
    "current_schema() = '{0}' OR (current_user = '{0}' AND current_setting('search_path') = '\"$user\", public')"
)
# libpq gives no SQLSTATE for a failed connection, only the server's message.
_NONE_FREE = ("too many clients", "too many connections", "connection slots are reserved")


@dataclass(frozen=True)
class Warehouse:
    """The database with the weather. The URL may contain a password and is kept out of `repr`.

    With `upgrades`, databases with older tables are accepted too: the caller upgrades them. `revive` starts an embedded
    server again if it was killed; None for other servers. `dataset` is the one whose tables its connections are for.
    """

    url: str
    upgrades: bool = False
    revive: Callable[[], None] | None = field(default=None, compare=False)
    dataset: Dataset = ERA5

    def __repr__(self) -> str:
        return f"Warehouse({self.shown})"

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return urls.without_password(self.url)

    def connect(self, session: Mapping[str, str] | None = None) -> psycopg.Connection:
        """Open a connection in autocommit mode and UTC, with these additional session settings.

        Raises:
            UsageError: if the URL is invalid.
            TransientError: if the server is starting or stopping, or has no free connection.
            ServerUnreachableError: if no server is reachable; names it.
            NoDatabaseError: if the server does not have the database.
            ServerUnsuitableError: if the server is too old.
            SchemaVersionError: if this program cannot use the version of the tables.
        """
        try:
            return self._connect(session)
        except ServerUnreachableError as error:
            if self.revive is None or type(error) is not ServerUnreachableError:
                raise
        self.revive()
        return self._connect(session)

    def _connect(self, session: Mapping[str, str] | None) -> psycopg.Connection:
        given = urls.url_parameters(self.url)
        settings = {"TimeZone": "UTC", **(session or {})}
        own_options = " ".join((given.get("options", ""), *(f"-c {name}={value}" for name, value in settings.items())))
        limits: dict[str, Any] = {name: value for name, value in _DEAD_CONNECTION_LIMITS.items() if name not in given}
        try:
            connection = connect_for(
                self.dataset,
                self.url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name=self.dataset.schema,
                # Without an encoding (SQL_ASCII databases), text would arrive as bytes.
                client_encoding="UTF8",
                # In local time, months would begin and end at different instants.
                options=own_options.strip(),
                **limits,
            )
        except psycopg.OperationalError as error:
            if _says_missing(self.url, error):
                raise NoDatabaseError(
                    f"there is no database {urls.database_of(self.url)!r} on the server: {self.shown}",
                    remedy=_NAME_ANOTHER,
                ) from error
            raise _no_connection(self.url, error) from error
        try:
            require_supported(connection.info.server_version, self.shown)
            with server_errors(f"connecting to {self.shown}"):
                found, has_ledger, _ = connection.execute(_on_connect(self.dataset)).fetchone() or (None, False, None)
            version = checked_version(connection, found, has_ledger=bool(has_ledger))
            require_usable(connection, version, upgrades=self.upgrades)
        except BaseException:
            connection.close()
            raise
        return connection


def _on_connect(dataset: Dataset) -> str:
    schemas = dict.fromkeys((ERA5.schema, dataset.schema))
    return dataset.sql(_ON_CONNECT).replace("{in_our_schema}", " OR ".join(map(_IN_SCHEMA.format, schemas)))


def _no_connection(url: str, error: psycopg.OperationalError) -> Era5Error:
    message = " ".join(str(error).split())
    what = f"{urls.without_password(url)}: {message}"
    if any(words in message for words in _NONE_FREE):
        return TransientError(what, remedy="Try again in a moment, or raise max_connections.")
    if _ping(url) == pq.Ping.REJECT:
        return TransientError(what, remedy="The server is starting or stopping: try again in a moment.")
    return ServerUnreachableError(what, remedy=connection_remedy(message))


def ensure_database(url: str) -> None:
    """Create the database that the URL names, if it does not exist."""
    if _database_exists(url):
        return
    name = urls.database_of(url)
    try:
        with psycopg.connect(
            urls.with_database(url, "postgres"), autocommit=True, connect_timeout=_CONNECT_SECONDS
        ) as maintenance:
            maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        return  # another process created it first
    except psycopg.errors.ObjectInUse as error:  # a session uses the template database
        raise translate_error(error, f"creating {urls.without_password(url)}") from error
    except psycopg.Error as error:
        raise ServerUnsuitableError(
            f"{urls.without_password(url)}: the database does not exist and could not be created "
            f"({translate_error(error, 'CREATE DATABASE').message})",
            remedy=f"Let an administrator run: CREATE DATABASE {name} OWNER <your user>;",
        ) from error


def _database_exists(url: str) -> bool:
    # Try to connect to it: that needs no privilege on any other database.
    try:
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS).close()
    except psycopg.OperationalError as error:
        if _says_missing(url, error):
            return False
        raise _no_connection(url, error) from error
    return True


def _says_missing(url: str, error: psycopg.OperationalError) -> bool:
    """Return True if connecting failed because the database does not exist."""
    if f'database "{urls.database_of(url)}" does not exist' in str(error):
        return True
    if _ping(url) != pq.Ping.OK:
        return False
    # Servers whose messages are not in English are asked.
    try:
        with psycopg.connect(urls.with_database(url, "postgres"), connect_timeout=_CONNECT_SECONDS) as maintenance:
            found = maintenance.execute(
                "SELECT FROM pg_database WHERE datname = %s", (urls.database_of(url),)
            ).fetchone()
    except psycopg.OperationalError:
        return False
    return found is None


def _ping(url: str) -> pq.Ping:
    return pq.Ping(pq.PGconn.ping(conninfo.make_conninfo(url, connect_timeout=_PING_SECONDS).encode()))


@contextmanager
def open_warehouse(settings: Settings, *, create: bool = False) -> Iterator[Warehouse]:
    """Open the warehouse of the settings; an embedded server runs at least until this context ends.

    It is for the tables of their data set. `create` is for commands that write: they create a missing home, embedded
    server or database, and upgrade tables of an older version. Without it, nothing is created; an existing embedded
    server is started.

    Raises:
        UsageError: if the URL is not a PostgreSQL URL.
        NoDatabaseError: if there is no database and `create` is not set; for a server of ERA5_DATABASE_URL,
            `Warehouse.connect` raises it.
        WarehouseError: if no server is reachable.
    """
    if (url := urls.given_warehouse_url(settings)) is not None:
        if create:
            ensure_database(url)
        with lost_connections(f"using {urls.without_password(url)}"):
            yield Warehouse(url, upgrades=create, dataset=settings.wanted_dataset)
        return
    server = EmbeddedServer(settings.home)
    if not create and not server.exists():
        raise no_database_in(settings.home)
    with server_kept(settings) as revive:
        url = server.url(DATABASE)
        if create:
            ensure_database(url)
        with lost_connections(f"using {urls.without_password(url)}"):
            yield Warehouse(url, upgrades=create, revive=revive, dataset=settings.wanted_dataset)


@contextmanager
def open_connection(settings: Settings, doing: str) -> Iterator[psycopg.Connection]:
    """Connect to the warehouse of the settings; a failure in this context says that it happened while `doing`."""
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection, server_errors(doing):
        yield connection


@contextmanager
def server_kept(settings: Settings) -> Iterator[Callable[[], None] | None]:
    """Keep the embedded server of the settings running in this context; do nothing if they name another server.

    It yields what starts the server again if it was killed, as by a system that is out of memory.
    """
    if settings.database_url is not None:
        yield None
        return
    with EmbeddedServer(settings.home).lease():
        yield EmbeddedDatabaseWatch(settings, _log.warning).look


def no_database_in(home: Path) -> NoDatabaseError:
    """Build the error for a home without an embedded server, if no other server is set."""
    others = [other for other in known_homes(Path.cwd()) if other != home.resolve()][:_NAMED_HOMES]
    return NoDatabaseError(
        f"there is no database in {home} (ERA5_HOME), and ERA5_DATABASE_URL is not set",
        remedy=_NAME_ANOTHER
        + (f" Others exist: {', '.join(f'ERA5_HOME={quote(str(one))}' for one in others)}" if others else ""),
    )


def start_warehouse(settings: Settings, port: int | None = None) -> Warehouse:
    """Return the warehouse of the settings; an embedded server is started and keeps running until stopped.

    With `port`, it also listens on this port of 127.0.0.1 (`tcp_warehouse`).
    """
    if (given := urls.given_warehouse_url(settings)) is not None:
        if port is not None:
            raise _not_embedded()
        return Warehouse(given, dataset=settings.wanted_dataset)
    server = EmbeddedServer(settings.home)
    server.start(port)
    url = server.url(DATABASE)
    ensure_database(url)
    return Warehouse(url, dataset=settings.wanted_dataset)


def tcp_warehouse(settings: Settings) -> Warehouse:
    """Return the warehouse on the TCP port of the running embedded server; its URL contains the password."""
    if settings.database_url is not None:
        raise _not_embedded()
    return Warehouse(EmbeddedServer(settings.home).tcp_url(DATABASE), dataset=settings.wanted_dataset)


def _not_embedded() -> UsageError:
    return UsageError(
        "ERA5_DATABASE_URL names a server that era5 does not manage",
        remedy="Its URL is that of ERA5_DATABASE_URL; unset that to use the embedded server.",
    )


def dagster_url(warehouse: Warehouse, settings: Settings) -> str:
    """Return the URL of Dagster's own database, creating it if needed."""
    url = _dagster_url(warehouse, settings)
    ensure_database(url)
    return url


def has_dagster(warehouse: Warehouse, settings: Settings) -> bool:
    """Return True if Dagster's own database exists; it is not created."""
    return _database_exists(_dagster_url(warehouse, settings))


def _dagster_url(warehouse: Warehouse, settings: Settings) -> str:
    url = urls.given_dagster_url(settings)
    return url or urls.with_database(warehouse.url, urls.database_of(warehouse.url) + DAGSTER_SUFFIX)
