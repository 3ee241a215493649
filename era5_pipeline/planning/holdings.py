"""What there is before a load: what the warehouse holds, and how much room its disks have.

Here: looking at both without changing either: a server that does not run is not started, a database that is not there
is not made. Not here: what follows for a load (`plan`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.postgres.connect import DATABASE, Warehouse, describe_server
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.urls import normalized
from era5_pipeline.warehouse.layouts import layout_for
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.schema import existing_layout
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry
    from era5_pipeline.warehouse.space import Space


@dataclass(frozen=True)
class Held:
    """What is known of the warehouse. `entries` are its ledger's; None: not known, for the `reason`.

    `layout` is that of the table, or of the one that a first load would make; None: not known.
    """

    entries: tuple[LedgerEntry, ...] | None = ()
    reason: str = ""
    layout: str | None = None
    space: Space | None = None


@dataclass(frozen=True)
class Disks:
    """Free bytes below ERA5_HOME, and where the server keeps the table; None: not known. `is_one`: it is one disk."""

    home_free_bytes: int | None = None
    table_free_bytes: int | None = None
    is_one: bool = False


def held_by(settings: Settings) -> Held:
    """What the warehouse has. A server that does not run is not started, a database that is not there not made.

    Raises:
        UsageError: if the URL is none.
    """
    if settings.database_url is not None:
        return _asked(Warehouse(normalized(settings.database_url.get_secret_value())), layout=None)
    server, layout = EmbeddedServer(settings.home), MonthPartitions.name
    if not (server.data_folder / "PG_VERSION").exists():
        return Held(layout=layout)
    if not server.is_running():
        reason = "the embedded server does not run, and is not started for this (era5 db start does)"
        return Held(entries=None, reason=reason, layout=layout)
    return _asked(Warehouse(server.url(DATABASE)), layout=layout)


def _asked(warehouse: Warehouse, layout: str | None) -> Held:
    try:
        with warehouse.connect() as connection:
            entries = tuple(read_ledger(connection))
            layout = _layout(connection)
            try:
                space = read_space(connection)
            except Era5Error:  # the table is locked: its size can be done without
                space = None
    except UsageError:
        raise
    except Era5Error as error:
        return Held(entries=None, reason=error.message, layout=layout)
    return Held(entries=entries, layout=layout, space=space)


def _layout(connection: psycopg.Connection[Any]) -> str | None:
    """The layout of the table, or the one that a first load would make; None: it cannot be told."""
    if (layout := existing_layout(connection)) is not None:
        return layout.name
    server = describe_server(connection)
    if server.timescaledb is None:
        with server_errors("asking what the server offers"):
            row = connection.execute(
                "SELECT default_version, current_setting('timescaledb.license', true) FROM pg_available_extensions "
                "WHERE name = 'timescaledb' AND EXISTS (SELECT FROM pg_settings WHERE name LIKE 'timescaledb.%')"
            ).fetchone()
        if row is not None:
            # A load would create the extension. Before, only a server whose configuration names its edition tells it.
            if row[1] is None:
                return None
            server = replace(server, timescaledb=row[0], license=row[1])
    return layout_for(server).name


def disks_of(settings: Settings) -> Disks:
    """The room below ERA5_HOME, and where the embedded server keeps the table; of other servers none can be told."""
    home, home_device = _free(settings.home)
    if settings.database_url is not None:
        return Disks(home_free_bytes=home)
    table, table_device = _free(EmbeddedServer(settings.home).data_folder)
    return Disks(home_free_bytes=home, table_free_bytes=table, is_one=home_device == table_device)


def _free(folder: Path) -> tuple[int, int]:
    """Free bytes of the disk that the folder is on, or would be made on; and the disk's number."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free, folder.stat().st_dev
