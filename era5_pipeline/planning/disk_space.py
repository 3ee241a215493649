"""Disk space of a load: bytes of raw and flat files at a time, and whether this machine's disks can hold a month."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.filesize import decimal

from era5_pipeline.model.errors import LocalDiskError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.planning.current_contents import read_disk_space
from era5_pipeline.planning.estimates import estimate_bytes
from era5_pipeline.planning.extent import Load, Size
from era5_pipeline.runtime.object_store import require_folder_or_s3
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat, Keep, Settings
    from era5_pipeline.planning.estimates import Bytes
    from era5_pipeline.sources.source import RawMonth

# --- Whether this machine's disks can hold a month, checked before it starts ---
#
# The figures are those of plans: documented bytes per value, the highest seen. The needs of other months in progress
# are not counted; a disk that fills up in the middle of a month is a `LocalDiskError` too, and leaves no partial files.


# A row of CSV: time, location_id, latitude, longitude; then each value with its comma.
_CSV_KEY_BYTES = 45
_CSV_VALUE_BYTES = 9
_REMEDY = (
    "Free space there, or set ERA5_HOME to a folder on a larger disk. ERA5_KEEP=flat or none removes files of loaded "
    "months; with ERA5_STORE they are elsewhere. Or take a smaller --area, or fewer --variables. Then run the month "
    "again."
)


@dataclass(frozen=True)
class MonthDiskUse:
    """Bytes of one month on this machine's disk while in progress; `table` if the table is on the same disk.

    `decoded` are temporary files of large months in GRIB.
    """

    raw: float
    unpacked: float
    flat: float
    table: float = 0.0
    decoded: float = 0.0

    @classmethod
    def of(cls, load: Load, size: Size, estimated: Bytes, flat_format: FlatFormat) -> MonthDiskUse:
        """The space for a month of this size, with estimated bytes."""
        raw = estimated.raw.value
        # Files of several step types come as one ZIP, whose members are unpacked before flattening.
        is_zip = size.files > 1 and not load.kind.has_daily_files
        row = _CSV_KEY_BYTES + _CSV_VALUE_BYTES * len(load.variables)
        flat = float(row * size.rows) if flat_format == "csv" else estimated.parquet.value
        return cls(raw, raw if is_zip else 0.0, flat)

    @property
    def bytes(self) -> float:
        """The total."""
        return self.raw + self.unpacked + self.decoded + self.flat + self.table

    def __str__(self) -> str:
        names = {
            "raw files": self.raw,
            "unpacked": self.unpacked,
            "decoded": self.decoded,
            "flat file": self.flat,
            "rows in the table": self.table,
        }
        return ", ".join(f"{name} {decimal(round(size))}" for name, size in names.items() if size)


def require_room(settings: Settings, month: Month) -> None:
    """Refuse to start a month that this machine's disks cannot hold: its files, and its rows if they are stored here.

    Months whose places the source determines are not counted: their size is unknown before it is read. For a month that
    was started before, only the missing part of its files is counted.
    """
    load = Load.of(settings, (month,))
    if load.kind.has_own_files or load.any_area:
        return
    size = load.size_of(month)
    layout = None if settings.database_url is not None else MonthPartitions.name
    estimated = estimate_bytes(load, size, (), layout, None)
    use = MonthDiskUse.of(load, size, estimated, settings.format)
    if load.kind.is_queued and not load.kind.is_series and settings.cds_format == "grib":
        from era5_pipeline.netcdf.grib import temporary_bytes  # noqa: PLC0415  # imports xarray, which is slow

        use = replace(use, decoded=temporary_bytes(size.values))
    disks, table = read_disk_space(settings), estimated.table.value
    free, table_free = disks.home_free_bytes, None if disks.is_one else disks.table_free_bytes
    in_table = table if disks.is_one else 0.0
    table_fits = table_free is None or table <= table_free
    if table_fits and (free is None or use.bytes + in_table <= free):
        return
    folders = (settings.files_home / "raw" / load.source, settings.files_home / "flat")
    held = sum(size for folder in folders for size in _sizes(folder, month))
    _require(use if held else replace(use, table=in_table), month, settings, free, held)
    if not held and table_free is not None and not table_fits:
        raise LocalDiskError(
            f"{month} was not started: its rows need about {decimal(round(table))} in the table, and "
            f"{decimal(table_free)} are free where the embedded server keeps it",
            remedy="Free space there, or use another server (ERA5_DATABASE_URL); then run the month again.",
        )


def require_room_to_flatten(
    settings: Settings,
    raw: RawMonth,
    rows: int,
    columns: Sequence[str],
    decoded: int = 0,
    *,
    is_unpacked: bool,
) -> None:
    """Refuse to flatten a month of `rows` rows that this machine's disk cannot hold; `is_unpacked`: its ZIPs are.

    `decoded` are the bytes of temporary files that reading it needs, as in `Inventory.temporary_bytes`.
    """
    load = replace(Load.of(settings, (raw.month,)), variables=tuple(BY_COLUMN[column] for column in columns))
    size = Size(rows=rows, instant_values=rows * len(columns))
    flat = MonthDiskUse.of(load, size, estimate_bytes(load, size, (), None, None), settings.format).flat
    missing = sum(file.bytes for file in raw.files if not file.path.is_file())
    zipped = 0 if is_unpacked else sum(file.bytes for file in raw.files if file.path.suffix == ".zip")
    use = MonthDiskUse(float(missing), float(zipped), flat, decoded=float(decoded))
    held = sum(_sizes(settings.files_home / "flat", raw.month))
    _require(use, raw.month, settings, read_disk_space(settings).home_free_bytes, held)


def _require(use: MonthDiskUse, month: Month, settings: Settings, free: int | None, held: int) -> None:
    """Raise if the month needs more than is free; `held` bytes of it are already there."""
    if free is None or use.bytes - held <= free:
        return
    raise LocalDiskError(
        f"{month} was not started: it needs about {decimal(round(use.bytes))} ({use}), and {decimal(free)} are free "
        f"in {settings.home}",
        remedy=_REMEDY,
    )


def _sizes(folder: Path, month: Month) -> Iterator[int]:
    """The sizes of the month's files in a folder of raw or flat files."""
    for path in folder.glob(f"{month}-*"):
        for file in (path, *path.rglob("*")):
            if file.is_file():
                yield file.stat().st_size


# --- The most bytes of raw and flat files that a load needs at a time, on this machine and in the store ---
#
# ERA5_KEEP decides which files stay, ERA5_STORE where; months in progress are always on this machine as well.


# max_concurrent_runs of dagster.yaml.
MONTHS_AT_ONCE = 4


@dataclass(frozen=True)
class StoragePolicy:
    """Settings for files: which are kept, the address of the store (None: no store), and the flat format."""

    keep: Keep = "all"
    store: str | None = None
    flat_format: FlatFormat = "parquet"

    @classmethod
    def of(cls, settings: Settings) -> StoragePolicy:
        """The policy of these settings."""
        if settings.store_address is not None:
            require_folder_or_s3(settings.store_address)
        return cls(settings.keep, settings.store_address, settings.format)


@dataclass(frozen=True)
class Storage:
    """The most bytes at a time: below ERA5_HOME and in the store (None: no store).

    `months_at_once` are in progress at a time and take `work_bytes`; `kept_bytes` belong to loaded months.
    """

    policy: StoragePolicy
    months_at_once: int
    work_bytes: float
    kept_bytes: float
    home_bytes: float
    store_bytes: float | None

    @property
    def keeps_all_here(self) -> bool:
        """True if all files stay on this machine."""
        return self.policy.keep == "all" and self.policy.store is None


def storage_of(policy: StoragePolicy, months: int, total: Bytes, largest: MonthDiskUse) -> Storage:
    """The storage of a load of `months` months with `total` bytes; `largest` is the space of the largest month."""
    at_once = min(months, MONTHS_AT_ONCE)
    work = at_once * (largest.raw + largest.unpacked + largest.flat)
    kept = {"all": total.home, "flat": total.parquet.value, "none": 0.0}[policy.keep]
    if policy.store is not None:
        return Storage(policy, at_once, work, kept, work, kept + at_once * (largest.raw + largest.flat))
    # Kept files of months in progress must not be counted twice.
    home = total.home if policy.keep == "all" else min(kept + work, max(total.home, work))
    return Storage(policy, at_once, work, kept, home, None)
