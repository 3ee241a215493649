"""Which months need no load, because the table holds what the source has now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.runtime.store.depot import Depot
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.warehouse.ledger import read_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import Source
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Records of a store, whose answers take longer than reading them.
_READ_AT_ONCE = 16


def unchanged_months(settings: Settings, warehouse: Warehouse, months: tuple[Month, ...]) -> frozenset[Month]:
    """The months of which the table holds exactly what the source has now.

    A month that the source cannot provide is not among them: running it reports why. For a service, whose months are
    requested again only if the settings say so, the ledger decides.
    """
    with warehouse.connect() as connection:
        held = {contents.month: contents.parts for contents in read_ledger(connection)}
    if settings.force:
        return frozenset()
    source = source_of(settings)

    def is_unchanged(month: Month) -> bool:
        return _is_unchanged(settings, source, month, held.get(month, ()))

    depot = Depot.of(settings)
    depot.require()
    kind = source_kind(source.name)
    if not depot.is_shared or not kind.is_service or kind.is_series:
        # These may open netCDF, whose library is not made for threads.
        return frozenset(month for month in months if is_unchanged(month))
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return frozenset(
            month for month, is_same in zip(months, threads.map(is_unchanged, months), strict=True) if is_same
        )


def _is_unchanged(settings: Settings, source: Source, month: Month, parts: Sequence[LedgerEntry]) -> bool:
    """Whether a part of the month is what the source has now."""
    raw = source.known(month) if parts else None
    if raw is not None:
        return month_fingerprint(raw) in {one for part in parts if not part.is_cut for one in part.fingerprints}
    kind = source_kind(source.name)
    if not kind.is_service or kind.is_series or settings.refetch:
        return False
    # Requesting what the table has would only wait in the queue for nothing: the raw files were deleted, or what is
    # wanted is a part of a larger area.
    wanted = {variable.column for variable in settings.wanted_variables or DEFAULT_VARIABLES}
    area = settings.wanted_locations
    return any(
        part.state == "loaded"
        and part.sources == (source.name,)
        and wanted <= set(part.column_names)
        and (area.is_subset_of(part.location_ids) if area is not None else part.area is None and not part.is_cut)
        for part in parts
    )
