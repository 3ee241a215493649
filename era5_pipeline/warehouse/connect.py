"""Which server, and connections to it: the embedded one by default, any other by its URL.

Here: URLs, databases, what the server is. Not here: the table (`layouts`, `schema`) or the embedded server itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg import conninfo, pq, sql

from era5_pipeline.errors import ServerUnreachableError, ServerUnsuitableError, TransientError, UsageError
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
_URL_REMEDY = "It looks like postgresql://user:password@host:5432/database."
# libpq gives no SQLSTATE of a connection that failed, only the server's words.
_NO_CONNECTION_FREE = ("too many clients", "too many connections", "connection slots are reserved")


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
        options = _with_utc(self.url)
        try:
            connection = psycopg.connect(
                self.url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                application_name="era5",
                options=options,
            )
        except psycopg.OperationalError as error:
            raise self._no_connection(error) from error
        try:
            require_supported(connection.info.server_version, self.shown)
            with server_errors(f"connecting to {self.shown}"):
                # A user called era5 would, by the usual path of "$user", public, make the table weather in the
                # ledger's schema, where nobody else looks for it.
                connection.execute("SELECT set_config('search_path', 'public', false) WHERE current_schema() = 'era5'")
        except BaseException:
            connection.close()
            raise
        return connection

    def _no_connection(self, error: psycopg.OperationalError) -> Era5Error:
        what = f"{self.shown}: {' '.join(str(error).split())}"
        if any(words in str(error) for words in _NO_CONNECTION_FREE):
            return TransientError(what, remedy="Try again in a moment, or raise max_connections.")
        if pq.PGconn.ping(self.url.encode()) == pq.Ping.REJECT:
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


def _with_utc(url: str) -> str:
    """The URL's own `options`, and UTC: a session in local time would draw month borders elsewhere."""
    return f"{_parameters(url).get('options') or ''} -c TimeZone=UTC".strip()


def _parameters(url: str) -> dict[str, str]:
    """What libpq understands by the URL. No error repeats any of it: it may hold a password."""
    try:
        parsed = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UsageError("ERA5_DATABASE_URL is not a PostgreSQL URL", remedy=_URL_REMEDY) from None
    parameters = {key: str(value) for key, value in parsed.items() if value is not None}
    ports = parameters.get("port", "")
    # As in user:pass/word@host, where libpq takes `pass` for the port of a host `user`.
    if not all(port.isdecimal() or not port for port in ports.split(",")) or "@" in parameters.get("dbname", ""):
        raise UsageError(
            "ERA5_DATABASE_URL is not a PostgreSQL URL: its port is no number, or its database has an @",
            remedy=f"{_URL_REMEDY} In a password, write / as %2F, @ as %40, # as %23, % as %25.",
        )
    return parameters


def without_password(url: str) -> str:
    """The URL with user, host, port and database alone; for a Unix socket, the database and its folder."""
    parameters = _parameters(url)
    if parameters.get("host", "").startswith("/"):
        return f"{parameters['dbname']} (socket in {parameters['host']})"
    user = f"{parameters['user']}@" if "user" in parameters else ""
    host = parameters.get("host", "localhost")
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}"


def normalized(url: str) -> str:
    """The URL as every client takes it.

    Raises:
        UsageError: if it is no PostgreSQL URL, or names no database.
    """
    url = url.strip()
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError("ERA5_DATABASE_URL is not a PostgreSQL URL", remedy=_URL_REMEDY)
    parameters = _parameters(url)
    if "dbname" not in parameters:
        raise UsageError(
            "ERA5_DATABASE_URL names no database",
            remedy="Add it at the end: postgresql://user:password@host:5432/database.",
        )
    return with_database(url, parameters["dbname"])


def with_database(url: str, database: str) -> str:
    """The same server, another database; the URL is spelled so that SQLAlchemy, too, takes it."""
    rest = _parameters(url)
    rest.pop("dbname", None)
    user, password = quote(rest.pop("user", ""), safe=""), quote(rest.pop("password", ""), safe="")
    credentials = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host = port = ""
    # A socket's folder, or several hosts, have no place before the database.
    if not set(rest.get("host", "/")) & set("/,"):
        host = rest.pop("host")
        host = f"[{host}]" if ":" in host else host
        port = f":{rest.pop('port')}" if "port" in rest else ""
    query = "&".join(f"{name}={quote(value, safe='/,')}" for name, value in rest.items())
    return f"postgresql://{credentials}{host}{port}/{quote(database, safe='')}" + (f"?{query}" if query else "")


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
        if f'"{name}"' not in str(error) or not _lacks_database(url, name):
            raise Warehouse(url).why_not(error) from error
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
