"""The database URLs of the settings, with the password of ERA5_DATABASE_PASSWORD_FILE where they have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import conninfo

from era5_pipeline.model.errors import UsageError, disk_errors
from era5_pipeline.postgres.urls import database_of, normalized, url_parameters, with_database

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr

    from era5_pipeline.model.settings import Settings


def given_warehouse_url(settings: Settings) -> str | None:
    """The URL of ERA5_DATABASE_URL; None if it is not set.

    Raises:
        UsageError: if it is not a PostgreSQL URL, or the file of the password is missing or empty.
        LocalDiskError: if the file may not be read.
    """
    return _complete(settings.database_url, settings.database_password_file)


def given_dagster_url(settings: Settings) -> str | None:
    """The URL of ERA5_DAGSTER_DATABASE_URL; None if it is not set.

    Raises:
        UsageError, LocalDiskError: as `given_warehouse_url`.
    """
    return _complete(settings.dagster_database_url, settings.database_password_file)


def _complete(given: SecretStr | None, password_file: Path | None) -> str | None:
    if given is None:
        return None
    url = normalized(given.get_secret_value())
    if password_file is None or "password" in url_parameters(url):
        return url
    return with_database(conninfo.make_conninfo(url, password=_password(password_file)), database_of(url))


def _password(file: Path) -> str:
    """The first line: the file may end with a newline, a password does not."""
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
