"""What a Dask worker does: open a month's raw files, read and merge one tile, and count it.

A month stays open between tiles, so that its ZIPs are unpacked and its files inspected once by each worker process.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from distributed import get_worker

from era5_pipeline.flat.cluster.dask_client import own_versions, require_versions
from era5_pipeline.flat.filled_tiles import CountedTile, count, fill, month_parts, open_readers
from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.flat.statistics import ColumnRules
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.netcdf.archive import NetcdfFile, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from era5_pipeline.flat.merge import Part
    from era5_pipeline.flat.tiles import Tile
    from era5_pipeline.netcdf.field_reader import FieldReader
    from era5_pipeline.sources.source import RawMonth

# How long a month stays open after its last tile. A client that was killed closes nothing.
_IDLE_SECONDS = 30.0


def count_tile(raw: RawMonth, tile: Tile, versions: Mapping[str, str]) -> CountedTile:
    """Read, merge and count one tile of the month; `versions` are those of the process that asks.

    Raises:
        UsageError: if this worker is of another version, or does not see the raw files.
        InputError, LocalDiskError: see `flat.inventory` and `fill`.
    """
    worker = get_worker()
    # Checked here too: a worker may have joined since the month began.
    require_versions(f"the Dask worker {worker.address}", own_versions(), versions)
    _require_files(raw, worker.address)
    with _open_month(raw, Path(worker.local_directory)) as month:
        filled = fill(tile, month.parts, month.readers, month.inventory.hours)
        counted = count(filled, month.inventory, month.rules)
        return replace(counted, portions=list(counted.portions))


def _require_files(raw: RawMonth, address: str) -> None:
    for file in raw.files:
        try:
            problem = None if file.path.stat().st_size == file.bytes else "it has another size there"
        except OSError as error:
            problem = error.strerror
        if problem is not None:
            raise UsageError(
                f"{raw.month}: the Dask worker {address} does not see the raw file {file.path} ({problem})",
                remedy="Workers need the raw files under the same path: keep ERA5_HOME (or ERA5_FILES_DIR) on a disk "
                "that all of them mount, or unset ERA5_DASK_SCHEDULER to flatten in this process.",
            )


@dataclass(frozen=True)
class _OpenMonth:
    inventory: Inventory
    parts: Mapping[str, tuple[Part, ...]]
    rules: Mapping[str, ColumnRules]
    readers: Mapping[NetcdfFile, FieldReader]


@dataclass(eq=False)
class _Kept:
    """A month, opened by the first tile that needs it; `users` are the tiles that are read now."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    month: _OpenMonth | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    users: int = 0
    idle: threading.Timer | None = None


_kept: dict[RawMonth, _Kept] = {}
_lock = threading.Lock()


@contextmanager
def _open_month(raw: RawMonth, scratch_parent: Path) -> Iterator[_OpenMonth]:
    with _lock:
        kept = _kept.setdefault(raw, _Kept())
        kept.users += 1
        if kept.idle is not None:
            kept.idle.cancel()
    try:
        with kept.opening:
            if kept.month is None:
                kept.month = _opened(raw, scratch_parent, kept.stack)
        yield kept.month
    finally:
        with _lock:
            kept.users -= 1
            if not kept.users:
                kept.idle = threading.Timer(_IDLE_SECONDS, _close_idle, (raw, kept))
                kept.idle.daemon = True
                kept.idle.start()


def _opened(raw: RawMonth, scratch_parent: Path, stack: ExitStack) -> _OpenMonth:
    with ExitStack() as opening:
        inventory = take_inventory(raw, opening.enter_context(scratch_folder(scratch_parent)))
        month = _OpenMonth(
            inventory,
            month_parts(inventory),
            {column: ColumnRules.of(BY_COLUMN[column], inventory) for column in inventory.columns},
            opening.enter_context(open_readers(inventory)),
        )
        stack.push(opening.pop_all())
    return month


def _close_idle(raw: RawMonth, kept: _Kept) -> None:
    with _lock:
        if kept.users or _kept.get(raw) is not kept:
            return
        del _kept[raw]
    kept.stack.close()


@atexit.register
def _close_all() -> None:
    for kept in _kept.values():
        kept.stack.close()
