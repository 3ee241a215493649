"""Keep the inventory of a month from `raw` to `flat`: its ZIPs are unpacked once, its files inspected once.

Within one process only, for one month at a time: nothing is kept on disk when the process ends, even if it is killed.
`flat` alone (in another process, or on another day) takes the inventory itself.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.netcdf.archive import scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.sources.source import RawMonth

    # Size and modification time of each file, None: it cannot be read.
    States = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class KeptInventory:
    """The inventory of `raw` and its unpacked files, until closed; empty if nothing was kept."""

    raw: RawMonth | None = None
    inventory: Inventory | None = None
    states: States = ()
    scratch: ExitStack = field(default_factory=ExitStack)

    def of(self, raw: RawMonth) -> Inventory | None:
        """The inventory, if it is of this month and request, and its files are unchanged since; None: take it again."""
        if self.inventory is None or self.raw != raw or self.states != _states(raw):
            return None
        return self.inventory if all(piece.file.path.is_file() for piece in self.inventory.pieces) else None

    def close(self) -> None:
        """Remove the unpacked files."""
        self.scratch.close()


class InventoryKeeper:
    """Holds the inventory that `raw` took until `flat` claims it; at most one, removed when the process exits."""

    def __init__(self) -> None:
        self._kept = KeptInventory()
        atexit.register(self.discard)

    def take(self, raw: RawMonth, home: Path) -> Inventory:
        """Take the inventory of a month and keep it, in place of the one kept before.

        Raises:
            BadFileError, NoDataError, LocalDiskError: see `take_inventory`.
        """
        self.discard()
        with ExitStack() as stack:
            scratch = stack.enter_context(scratch_folder(home))
            states = _states(raw)
            inventory = take_inventory(raw, scratch)
            self._kept = KeptInventory(raw, inventory, states, stack.pop_all())
        return inventory

    def claim(self) -> KeptInventory:
        """Hand over what is kept; whoever claims it must close it."""
        kept, self._kept = self._kept, KeptInventory()
        return kept

    def discard(self) -> None:
        """Remove what is kept."""
        self.claim().close()


def _states(raw: RawMonth) -> States:
    return tuple(_state(file.path) for file in raw.files)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
