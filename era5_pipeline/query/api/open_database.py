"""`era5.open`: the warehouse of the settings, or of a URL, to be asked from Python."""

from __future__ import annotations

from contextlib import ExitStack

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.query.api.database import Database


def open_database(url: str | None = None) -> Database:
    """Open the warehouse to read from it; nothing is ever created or changed.

    Without a URL it is that of the settings, as the commands have them (ERA5_DATABASE_URL, ERA5_HOME, .env): the
    embedded server is started if it is not running, and stopped when the database is closed, unless others use it.

    Args:
        url: `postgresql://user@host:port/database`, instead of that of the settings.

    Returns:
        The database; use it in `with`, or call its `close`. It is also closed when Python ends.

    Raises:
        UsageError: if the URL or a setting is invalid.
        NoDatabaseError: if there is no database yet.
        WarehouseError: if the server cannot be reached, or is unsuitable.
    """
    if url is not None and not isinstance(url, str):
        raise UsageError(
            f"a URL is text, not {type(url).__name__}", remedy="Give one such as postgresql://user@host:5432/era5."
        )
    with ExitStack() as stack:
        warehouse = stack.enter_context(open_warehouse(read_settings(database_url=url)))
        warehouse.connect().close()  # so that what is wrong is said here, and not by the first question
        return Database(warehouse, stack.pop_all())
