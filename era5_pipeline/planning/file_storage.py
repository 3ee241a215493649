"""Bytes of raw and flat files that a load needs at most at one time, on this machine and in the store.

Which files stay is decided by ERA5_KEEP, where they stay by ERA5_STORE; months in work are on this machine as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.runtime.store.address import require_folder_or_s3

if TYPE_CHECKING:
    from era5_pipeline.model.settings import FlatFormat, Keep, Settings
    from era5_pipeline.planning.estimates import Bytes
    from era5_pipeline.planning.room import MonthRoom

# max_concurrent_runs of dagster.yaml.
MONTHS_AT_ONCE = 4


@dataclass(frozen=True)
class StoragePolicy:
    """What the settings say of files: which are kept, the store's address (None: there is none), the flat format."""

    keep: Keep = "all"
    store: str | None = None
    flat_format: FlatFormat = "parquet"

    @classmethod
    def of(cls, settings: Settings) -> StoragePolicy:
        """The policy of these settings.

        Raises:
            UsageError: if the address of the store is invalid.
        """
        if settings.store_address is not None:
            require_folder_or_s3(settings.store_address)
        return cls(settings.keep, settings.store_address, settings.format)


@dataclass(frozen=True)
class Storage:
    """Bytes at most at one time: below ERA5_HOME and in the store (None: there is none).

    `months_at_once` are in work at a time, and take `work_bytes` of them; `kept_bytes` are of the loaded months.
    """

    policy: StoragePolicy
    months_at_once: int
    work_bytes: float
    kept_bytes: float
    home_bytes: float
    store_bytes: float | None

    @property
    def keeps_all_here(self) -> bool:
        """Whether every file stays on this machine."""
        return self.policy.keep == "all" and self.policy.store is None


def storage_of(policy: StoragePolicy, months: int, total: Bytes, largest: MonthRoom) -> Storage:
    """The storage of a load of so many months, of `total` bytes, the largest of which takes the room `largest`."""
    at_once = min(months, MONTHS_AT_ONCE)
    work = at_once * (largest.raw + largest.unpacked + largest.flat)
    kept = {"all": total.home, "flat": total.parquet.value or 0.0, "none": 0.0}[policy.keep]
    if policy.store is not None:
        return Storage(policy, at_once, work, kept, work, kept + at_once * (largest.raw + largest.flat))
    # What is kept of the months in work is not counted twice.
    home = total.home if policy.keep == "all" else min(kept + work, max(total.home, work))
    return Storage(policy, at_once, work, kept, home, None)
