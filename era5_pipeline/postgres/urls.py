"""Database URLs: from the settings, with their password file; parsed as libpq does, shown without the password."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
from psycopg import conninfo

from era5_pipeline.model.errors import UsageError, disk_errors

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

    from era5_pipeline.model.settings import Settings

_REMEDY = "It looks like postgresql://user:password@host:5432/database."
# Without the TLS parameters, a printed URL would connect with fewer checks. They name files and hold no secret.
_SHOWN = (
    *("user", "host", "hostaddr", "port", "service"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir"),
    *("ssl_min_protocol_version", "channel_binding"),
)
_ESCAPES = "In a password, write / as %2F, @ as %40, # as %23, ? as %3F, % as %25."


def url_parameters(url: str) -> dict[str, str]:
    """Parse the URL as libpq does.

    An error does not quote it: in a misread URL the password may be anywhere.
    """
    try:
        parsed = conninfo.conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeDecodeError):  # the latter for escapes that are not UTF-8, such as %E2
        raise UsageError("ERA5_DATABASE_URL is not a PostgreSQL URL", remedy=f"{_REMEDY} {_ESCAPES}") from None
    parameters = {key: str(value) for key, value in parsed.items() if value is not None}
    ports = parameters.get("port", "").split(",")
    # As in user:pass/word@host/database, where libpq reads a host `user` with a port `pass`.
    has_at = any("@" in parameters.get(name, "") for name in ("host", "dbname"))
    if has_at or not all(port == "" or port.isdecimal() for port in ports):
        raise UsageError(
            "ERA5_DATABASE_URL is ambiguous: a special character is not escaped", remedy=f"{_REMEDY} {_ESCAPES}"
        )
    return parameters


def without_password(url: str) -> str:
    """Return the URL with only user, host, port, database and TLS parameters; other clients accept it as is."""
    parameters = url_parameters(url)
    shown = {name: parameters[name] for name in _SHOWN if name in parameters}
    return with_database(conninfo.make_conninfo("", **shown), parameters.get("dbname", ""))


def normalized(url: str) -> str:
    """Return the URL in a form that libpq and SQLAlchemy both accept."""
    url = url.strip()
    if not url.startswith(("postgresql://", "postgres://")):
        raise UsageError("ERA5_DATABASE_URL is not a PostgreSQL URL", remedy=_REMEDY)
    parameters = url_parameters(url)
    if "dbname" not in parameters:
        raise UsageError("ERA5_DATABASE_URL names no database", remedy=f"Add it at the end. {_REMEDY}")
    return with_database(url, parameters["dbname"])


def with_database(url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    rest = url_parameters(url)
    rest.pop("dbname", None)
    credentials = quote(rest.pop("user", ""), safe="")
    if "password" in rest:
        credentials += f":{quote(rest.pop('password'), safe='')}"
    if credentials:
        credentials += "@"
    place = ""
    # A socket folder or several hosts cannot precede the database: they stay parameters.
    if "host" in rest and not set(rest["host"]) & set("/,"):
        host = rest.pop("host")
        place = f"[{host}]" if ":" in host else host
        if "port" in rest:
            place += f":{rest.pop('port')}"
    path = database
    if quote(database, safe="") != database:
        # SQLAlchemy unescapes parameters, but not the path.
        path, rest = "", {"dbname": database} | rest
    query = "&".join(f"{name}={quote(value, safe='/,')}" for name, value in rest.items())
    return f"postgresql://{credentials}{place}/{path}" + (f"?{query}" if query else "")


def with_user(url: str, user: str) -> str:
    """Return the URL for another user of the same database, without a password."""
    parameters = url_parameters(url)
    parameters.pop("password", None)
    return with_database(conninfo.make_conninfo("", **parameters | {"user": user}), parameters.get("dbname", ""))


def database_of(url: str) -> str:
    """Return the database that the URL names."""
    return url_parameters(url).get("dbname", "")


def given_warehouse_url(settings: Settings) -> str | None:
    """The URL of ERA5_DATABASE_URL; None if it is not set."""
    return _complete(settings.database_url, settings.database_password_file)


def given_dagster_url(settings: Settings) -> str | None:
    """The URL of ERA5_DAGSTER_DATABASE_URL; None if it is not set."""
    return _complete(settings.dagster_database_url, settings.database_password_file)


def _complete(given: SecretStr | None, password_file: Path | None) -> str | None:
    if given is None:
        return None
    url = normalized(given.get_secret_value())
    if password_file is None or "password" in url_parameters(url):
        return url
    return with_database(conninfo.make_conninfo(url, password=_password(password_file)), database_of(url))


def _password(file: Path) -> str:
    """Read the first line: the file may end with a newline, a password does not."""
    try:
        with disk_errors("reading ERA5_DATABASE_PASSWORD_FILE", file):
            lines = file.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
        lines = []
    if not lines or not lines[0]:
        raise UsageError(
            f"ERA5_DATABASE_PASSWORD_FILE: {file} is missing, empty, or not a text file",
            remedy="Write the password into it, as one line.",
        )
    return lines[0]
