"""The server's version, whether it is supported, and its edition of TimescaleDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import ServerUnsuitableError
from era5_pipeline.postgres.server_errors import server_errors

if TYPE_CHECKING:
    import psycopg

# The oldest version still maintained (14 ended in November 2026), and the oldest tested.
OLDEST_VERSION = 15


@dataclass(frozen=True)
class Server:
    """The server's version. `timescaledb` is the version of the extension, None without it; `license` its edition."""

    version: int
    version_text: str
    timescaledb: str | None
    license: str | None

    def __str__(self) -> str:
        extension = f" + TimescaleDB {self.timescaledb} ({self.license})" if self.timescaledb else ""
        return f"PostgreSQL {self.version_text}{extension}"


def require_supported(version: int, shown: str) -> None:
    """Raise if the server's version (in libpq's form: 140012 is 14.12) is too old."""
    if version // 10000 < OLDEST_VERSION:
        raise ServerUnsuitableError(
            f"{shown} is PostgreSQL {version // 10000}",
            remedy=f"PostgreSQL {OLDEST_VERSION} or later is needed: upgrade it, or unset ERA5_DATABASE_URL to use "
            "the embedded server.",
        )


def describe_server(connection: psycopg.Connection) -> Server:
    """Return the version of the connected server."""
    with server_errors("reading the server's version"):
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
