"""Pools: limits on how many steps of a kind run at once, over all runs. They can be changed in the UI."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError

from era5_pipeline.model.source_kinds import SOURCE_KINDS

if TYPE_CHECKING:
    import dagster as dg

# Loads: each keeps one core of the server busy.
WAREHOUSE = "warehouse"
# Months that are being fetched: of a user's requests, the Climate Data Store rejects most beyond a few (users who get
# on keep about two). Not limited by the service: `files`, `sample`, `arco`; they have the same pool, being one asset.
CDS = "cds"
_CDS_AT_ONCE = max(kind.requests_at_once for kind in SOURCE_KINDS.values())


def ensure_pools(instance: dg.DagsterInstance) -> None:
    """Create the pools with their limits before any run: of two runs that both create one, one would fail."""
    storage = instance.event_log_storage
    default = storage.get_pool_config().default_pool_limit
    existing = {pool.name for pool in storage.get_pool_limits()}
    for name, limit in ((WAREHOUSE, default), (CDS, _CDS_AT_ONCE)):
        if limit is not None and name not in existing:
            with suppress(IntegrityError):  # another process has just created it
                storage.set_concurrency_slots(name, limit)
