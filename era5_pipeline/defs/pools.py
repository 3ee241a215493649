"""Pools: how much of one thing runs at once, over all runs. Limits are the instance's, and may be set in the UI."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError

if TYPE_CHECKING:
    import dagster as dg

# Loads: each keeps a core of the server busy.
WAREHOUSE = "warehouse"


def ensure_pools(instance: dg.DagsterInstance) -> None:
    """Make the pools beforehand, with the instance's default limit: of two runs that both make one, one would fail."""
    storage = instance.event_log_storage
    limit = storage.get_pool_config().default_pool_limit
    if limit is None or WAREHOUSE in {pool.name for pool in storage.get_pool_limits()}:
        return
    with suppress(IntegrityError):  # somebody else has made it just now
        storage.set_concurrency_slots(WAREHOUSE, limit)
