"""The state before a load: months in the warehouse, free disk space, and months that need no load."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.lake.open_lake import open_lake, wants_lake
from era5_pipeline.model.errors import Era5Error, NoDatabaseError, UsageError, disk_errors
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.planning.updates import final_in_earlier_source
from era5_pipeline.postgres.connect import DATABASE, Warehouse, no_database_in
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.postgres.urls import given_warehouse_url
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.warehouse.layouts import layout_for
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.schema import existing_layout
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.planning.updates import FinalMonths
    from era5_pipeline.sources.source import Source
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents
    from era5_pipeline.warehouse.space import Space


@dataclass(frozen=True)
class CurrentContents:
    """Contents of the warehouse. `months` come from its ledger; None: unknown, for the `reason`.

    With a `reason` and no months there is no database yet.

    `layout` is the layout of the table, or the one that a first load would create; None: unknown.
    """

    months: tuple[MonthContents, ...] | None = ()
    reason: str = ""
    layout: str | None = None
    space: Space | None = None


@dataclass(frozen=True)
class DiskSpace:
    """Free bytes below ERA5_HOME and where the server stores the table; None: unknown. `is_one`: both are one disk."""

    home_free_bytes: int | None = None
    table_free_bytes: int | None = None
    is_one: bool = False


def read_current_contents(settings: Settings) -> CurrentContents:
    """Read the contents of the warehouse, without starting a server or creating a database."""
    if (url := given_warehouse_url(settings)) is not None:
        return _read(Warehouse(url, dataset=settings.wanted_dataset), layout=None)
    server, layout = EmbeddedServer(settings.home), MonthPartitions.name
    if not server.exists():
        return CurrentContents(reason=_no_database_reason(no_database_in(settings.home)), layout=layout)
    if not server.is_running():
        reason = "the embedded server is not running, and a plan does not start it (era5 db start does)"
        return CurrentContents(months=None, reason=reason, layout=layout)
    return _read(Warehouse(server.url(DATABASE), dataset=settings.wanted_dataset), layout=layout)


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
        return CurrentContents(reason=_no_database_reason(error), layout=layout)
    except Era5Error as error:
        return CurrentContents(months=None, reason=error.message, layout=layout)
    return CurrentContents(months=months, layout=layout, space=space)


def _no_database_reason(error: NoDatabaseError) -> str:
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
    """Return the free bytes of the disk with the folder, existing or not yet, and the number of that disk."""
    with disk_errors("reading the free space", folder):
        while not folder.exists():
            folder = folder.parent
    return shutil.disk_usage(folder).free, folder.stat().st_dev


# Records read from a store at a time: its response time exceeds that of reading them.
_READ_AT_ONCE = 16


def unchanged_months(settings: Settings, warehouse: Warehouse, months: tuple[Month, ...]) -> frozenset[Month]:
    """The months for which the table holds exactly what the source has.

    A month that the source cannot provide is not included: running it reports why. For a service, whose months are
    requested again only if the settings say so, the ledger decides.
    """
    with warehouse.connect() as connection:
        held = {contents.month: contents.parts for contents in read_ledger(connection)}
        if wants_lake(settings):
            # A month that the lake lacks is run again, though the table has it.
            in_lake = open_lake(settings).months(connection)
            for month, parts in list(held.items()):
                fingerprints = (one for part in parts for one in part.fingerprints)
                if not in_lake[month].is_of(sum(part.rows for part in parts), fingerprints):
                    del held[month]
    if settings.force:
        return frozenset()
    # Of several sources, each may have given the month; an earlier one confirms or replaces what a later one gave.
    of_each = (_unchanged(settings.of_source(name), months, held) for name in settings.source_names)
    final: FinalMonths = {}
    unchanged = frozenset(month for of_source in of_each for month in of_source)
    replaced = (
        month
        for month in unchanged
        for part in held.get(month, ())
        if _may_be_replaced(settings, part) and final_in_earlier_source(settings, part, final)
    )
    return unchanged - set(replaced)


def _may_be_replaced(settings: Settings, part: LedgerEntry) -> bool:
    """Return True if a load with these settings may replace rows of the part: of its places, with all its columns."""
    area, columns = settings.wanted_locations, {v.column for v in settings.variables_to_load}
    return (area is None or part.location_ids.overlaps(area)) and set(part.column_names) <= columns


def _unchanged(
    settings: Settings, months: tuple[Month, ...], held: Mapping[Month, Sequence[LedgerEntry]]
) -> frozenset[Month]:
    source = source_of(settings)

    def is_unchanged(month: Month) -> bool:
        return _is_unchanged(settings, source, month, held.get(month, ()))

    file_store = FileStore.of(settings)
    file_store.require()
    kind = source_kind(source.name)
    if not file_store.is_shared or not kind.is_service or kind.is_series:
        # These may open netCDF, whose library is not thread-safe.
        return frozenset(month for month in months if is_unchanged(month))
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return frozenset(
            month for month, is_same in zip(months, threads.map(is_unchanged, months), strict=True) if is_same
        )


def _is_unchanged(settings: Settings, source: Source, month: Month, parts: Sequence[LedgerEntry]) -> bool:
    """Return True if a part of the month equals what the source has."""
    raw = source.known(month) if parts else None
    if raw is not None:
        return month_fingerprint(raw) in {one for part in parts if not part.is_cut for one in part.fingerprints}
    kind = source_kind(source.name)
    if not kind.is_service or kind.is_series or settings.refetch:
        return False
    # Another request would only wait in the queue for data that the table has: the raw files were deleted, or a part of
    # a larger area is wanted.
    wanted = {variable.column for variable in settings.variables_to_load}
    area = settings.wanted_locations
    return any(
        part.state == "loaded"
        and (part.sources == (source.name,) or (part.confirmed is not None and part.confirmed.source == source.name))
        and wanted <= set(part.column_names)
        and (area.is_subset_of(part.location_ids) if area is not None else part.area is None and not part.is_cut)
        for part in parts
    )
