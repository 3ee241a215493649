"""Current contents of the warehouse, and free disk space, before a load.

Here: reading both without changing either: no server is started, no database created. Not here: what follows for a load
(`make_plan`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error, NoDatabaseError, UsageError, disk_errors
from era5_pipeline.postgres.connect import DATABASE, Warehouse, no_database_in
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
from era5_pipeline.postgres.given_urls import given_warehouse_url
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.warehouse.layouts import layout_for
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.schema import existing_layout
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import MonthContents
    from era5_pipeline.warehouse.space import Space


@dataclass(frozen=True)
class CurrentContents:
    """Contents of the warehouse. `months` are its ledger's; None: unknown, for the `reason`.

    With a `reason` and no months there is no database yet.

    `layout` is that of the table, or of the one that a first load would create; None: unknown.
    """

    months: tuple[MonthContents, ...] | None = ()
    reason: str = ""
    layout: str | None = None
    space: Space | None = None


@dataclass(frozen=True)
class DiskSpace:
    """Free bytes below ERA5_HOME, and where the server stores the table; None: unknown. `is_one`: they are one disk."""

    home_free_bytes: int | None = None
    table_free_bytes: int | None = None
    is_one: bool = False


def read_current_contents(settings: Settings) -> CurrentContents:
    """Read the contents of the warehouse, without starting a server or creating a database.

    Raises:
        UsageError: if the URL is not a PostgreSQL URL.
    """
    if (url := given_warehouse_url(settings)) is not None:
        return _read(Warehouse(url), layout=None)
    server, layout = EmbeddedServer(settings.home), MonthPartitions.name
    if not server.exists():
        return CurrentContents(reason=_none_here(no_database_in(settings.home)), layout=layout)
    if not server.is_running():
        reason = "the embedded server is not running, and a plan does not start it (era5 db start does)"
        return CurrentContents(months=None, reason=reason, layout=layout)
    return _read(Warehouse(server.url(DATABASE)), layout=layout)


def _read(warehouse: Warehouse, layout: str | None) -> CurrentContents:
    try:
        with warehouse.connect() as connection:
            months = tuple(read_ledger(connection))
            layout = _layout(connection)
            try:
                space = read_space(connection)
            except Era5Error:  # the table is locked: plan without its size
                space = None
    except UsageError:
        raise
    except NoDatabaseError as error:
        return CurrentContents(reason=_none_here(error), layout=layout)
    except Era5Error as error:
        return CurrentContents(months=None, reason=error.message, layout=layout)
    return CurrentContents(months=months, layout=layout, space=space)


def _none_here(error: NoDatabaseError) -> str:
    return f"{error.message} (to name another, set ERA5_HOME or ERA5_DATABASE_URL)"


def _layout(connection: psycopg.Connection[Any]) -> str | None:
    """Return the layout of the table, or the one that a first load would create; None: unknown."""
    if (layout := existing_layout(connection)) is not None:
        return layout.name
    server = describe_server(connection)
    if server.timescaledb is None:
        with server_errors("reading the available extensions"):
            row = connection.execute(
                "SELECT default_version, current_setting('timescaledb.license', true) FROM pg_available_extensions "
                "WHERE name = 'timescaledb' AND EXISTS (SELECT FROM pg_settings WHERE name LIKE 'timescaledb.%')"
            ).fetchone()
        if row is not None:
            # A load would create the extension. Until then, the edition is known only if the configuration names it.
            if row[1] is None:
                return None
            server = replace(server, timescaledb=row[0], license=row[1])
    return layout_for(server).name


def read_disk_space(settings: Settings) -> DiskSpace:
    """Read the free space below ERA5_HOME, and of the embedded server; that of other servers is unknown."""
    home, home_device = _free(settings.home)
    if settings.database_url is not None:
        return DiskSpace(home_free_bytes=home)
    table, table_device = _free(EmbeddedServer(settings.home).data_folder)
    return DiskSpace(home_free_bytes=home, table_free_bytes=table, is_one=home_device == table_device)


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes of the disk that the folder is on, or would be created on; and the disk's number."""
    with disk_errors("reading the free space", folder):
        while not folder.exists():
            folder = folder.parent
    return shutil.disk_usage(folder).free, folder.stat().st_dev
