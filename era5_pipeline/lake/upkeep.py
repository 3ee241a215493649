"""Upkeep of the lake: compare it with the ledger, expire old snapshots, remove files that no snapshot has."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.update import RemoveSnapshotsUpdate

from era5_pipeline.lake.catalog import METADATA, WarehouseCatalog, lake_errors, read_metadata
from era5_pipeline.lake.months import file_name, files_by_month, what_is_wrong
from era5_pipeline.lake.pointer import followers, forget_unused, seconds_unused
from era5_pipeline.lake.snapshots import superseded_before
from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.runtime import progress
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.ledger_entry import MonthContents
from era5_pipeline.warehouse.verify import PartRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.runtime.object_store import StoredObject


def read_both(connection: psycopg.Connection[Any], lake: Lake) -> tuple[Table | None, tuple[MonthContents, ...]]:
    """The lake's table and the ledger as they were at one moment, whatever is loaded meanwhile.

    Months that the lake alone has are there too, without parts.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        table = lake.open(connection)
        contents = [one for one in read_ledger(connection) if one.parts]
        beyond = lake.months_beyond(connection, None)
    everything = (*contents, *(MonthContents(month, "dropped") for month in beyond))
    return table, tuple(sorted(everything, key=lambda one: one.month))


class LakeVerifier:
    """Compares months of a table of the lake with the ledger."""

    def __init__(self, lake: Lake, table: Table | None) -> None:
        """Plan the table's files."""
        self._lake, self._table = lake, table
        with lake_errors(lake.place):
            self._files = {} if table is None else files_by_month(table)

    def differences(self, contents: MonthContents) -> tuple[str, ...]:
        """Compare the month's rows in the lake with the ledger: rows of each part, and the digest of each column.

        Returns a line for each difference, and for each file that is lost or damaged.
        """
        month, files = contents.month, self._files.get(contents.month, [])
        held = sum(file.record_count for file in files)
        wrong = (
            [] if held == contents.rows else [f"{month}: {held:,} rows in the lake, {contents.rows:,} in the warehouse"]
        )
        found, done, lost = PartRows(contents.parts), 0, []
        with lake_errors(self._lake.place):
            for file in files:
                try:
                    for batch in self._batches(file):
                        found.add(batch)
                        done += batch.num_rows
                        progress.report("verify", done, held, "rows")
                except (OSError, pa.ArrowInvalid) as error:
                    what = what_is_wrong(error)
                    if what is None:
                        raise
                    lost.append(f"{month}: the file {file_name(file)} with {file.record_count:,} rows is {what}")
        if wrong or lost:
            return (*wrong, *lost)
        return tuple(found.differences(month, "lake"))

    def _batches(self, file: DataFile) -> Iterator[pa.Table]:
        if self._table is None:
            return
        opened = self._table.io.new_input(file.file_path).open()
        with opened as source, pq.ParquetFile(source, pre_buffer=False) as rows:
            for number in range(rows.num_row_groups):
                yield rows.read_row_group(number)


@dataclass(frozen=True)
class Cleaned:
    """Counts of removed snapshots, files and bytes; `waiting` files belong to no snapshot, but not for long enough."""

    snapshots: int
    files: int
    bytes: int
    waiting_files: int = 0
    waiting_bytes: int = 0


def clean(
    connection: psycopg.Connection[Any],
    lake: Lake,
    *,
    keep: timedelta,
    orphans_after: timedelta,
    dry_run: bool = False,
    remove_newer: bool = False,
) -> Cleaned:
    """Expire snapshots that were superseded longer than `keep` ago; then remove files that no snapshot has.

    Files that were written, or needed by a snapshot, within `orphans_after` stay: a load may be about to commit them,
    and a reader may still be at that snapshot.
    """
    catalog = WarehouseCatalog(connection, lake.place)
    latest = time.time_ns() - int(orphans_after.total_seconds() * 1e9)
    with lake_errors(lake.place):
        # Before the table is read: what is committed meanwhile is then either not listed, or used.
        listed = [found for found in lake.store.objects() if found.key.startswith(f"{lake.place.dataset.table}/")]
        if catalog.location_of_metadata() is None:
            if listed:
                raise UsageError(
                    f"this database has no lake, and {lake.place.location} has {len(listed):,} files: of another one",
                    remedy="Check ERA5_DATABASE_URL and ERA5_LAKE. Nothing was removed.",
                )
            return Cleaned(0, 0, 0)
        _require_followers(connection, lake)
        known = catalog.load_table(lake.place.identifier)
        old = {found.key for found in listed if found.modified_ns < latest}
        noted = {f"{lake.place.location}/metadata/{name}": age for name, age in seconds_unused(connection).items()}
        _require_own_files(
            lake, known, [found for found in listed if found.key in old], noted, remove_newer=remove_newer
        )
        with connection.transaction():
            table = catalog.open_table(())
            expired = superseded_before(table.metadata.snapshots, datetime.now(UTC) - keep)
            gone = {one.manifest_list for one in table.metadata.snapshots if one.snapshot_id in expired}
            if expired and not dry_run:
                with table.transaction() as change:
                    change._apply((RemoveSnapshotsUpdate(snapshot_ids=expired),))
            used = _used(catalog.load_table(lake.place.identifier), without=gone)
            # Known by other paths than the listed ones, all would look unused.
            elsewhere = sorted(path for path in used if not path.startswith(f"{lake.place.location}/"))
            if elsewhere:
                raise UsageError(
                    f"the lake is at {lake.place.location}, and has {len(elsewhere):,} files elsewhere: {elsewhere[0]}",
                    remedy="Load their months again with --force, then clean with --keep-days 0. Nothing was removed.",
                )
        if lake.follower is not None:
            # Before the files of what expired go; and its own metadata lies beside the table's.
            if not dry_run:
                lake.publish(connection)
            used |= lake.follower.own_files()
        unused = [found for found in listed if _path(lake, found) not in used]
        recent = {path for path, age in noted.items() if age < orphans_after.total_seconds()}
        if orphans_after:
            recent |= gone
        if any(found.key in old for found in unused):
            there = {_path(lake, found) for found in unused}
            lists = {path for path in recent & there if path.endswith(".avro")}
            recent |= _reached(known.io, lists, may_be_lost=True)
    removed = [found for found in unused if found.key in old and _path(lake, found) not in recent]
    if not dry_run:
        for found in removed:
            lake.store.remove(found.key)
        names = {path.rpartition("/")[2] for path in noted}
        forget_unused(connection, names & {found.key.rpartition("/")[2] for found in removed})
    waiting = len(unused) - len(removed)
    size = sum(found.bytes for found in removed)
    return Cleaned(len(expired), len(removed), size, waiting, sum(found.bytes for found in unused) - size)


def _path(lake: Lake, found: StoredObject) -> str:
    """A listed file's path, as the table's metadata has it."""
    return f"{lake.place.location}{found.key.removeprefix(lake.place.dataset.table)}"


def _require_followers(connection: psycopg.Connection[Any], lake: Lake) -> None:
    """Refuse to clean if a REST catalog that is not set has metadata here: it would be taken for left behind."""
    own, option = None if lake.follower is None else lake.follower.shown, dataset_option(lake.place.dataset)
    others = [address for address in followers(connection) if address != own]
    if others:
        raise UsageError(
            f"the catalog {others[0]} follows this lake, and ERA5_LAKE_CATALOG is {own or 'unset'}",
            remedy=f"Set ERA5_LAKE_CATALOG={others[0]}; or, if nobody uses that catalog any more, drop the table there "
            f"without purging its files, and run era5 lake publish{option} --forget. Nothing was removed.",
        )


def _require_own_files(
    lake: Lake, table: Table, listed: list[StoredObject], noted: Iterable[str], *, remove_newer: bool
) -> None:
    """Refuse to clean a place that has files of another table, or of a newer state of this one than is `noted`."""
    held = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log), *noted}
    if lake.follower is not None:
        held |= lake.follower.own_files()
    updated = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
    for found in listed:
        if not found.key.endswith(METADATA) or _path(lake, found) in held:
            continue
        metadata = read_metadata(lake.store, found.key)
        if metadata is None or not metadata.has_data:
            continue
        if metadata.table_uuid != str(table.metadata.table_uuid):
            raise UsageError(
                f"{lake.place.location} has files of another database's lake, too: {found.key}",
                remedy="Give each database a place of its own: ERA5_LAKE. Nothing was removed.",
            )
        if metadata.updated > updated and not remove_newer:
            raise RefusedError(
                f"{found.key} is of {metadata.updated:%Y-%m-%d %H:%M} UTC, and newer than what this database knows of "
                f"the lake ({updated:%Y-%m-%d %H:%M})",
                remedy="A load that was killed leaves such: load its month again, or add --remove-newer. If this "
                "database is a restored backup, or a copy of one that still loads, others may need these files. "
                "Nothing was removed.",
            )


def _used(table: Table, *, without: set[str]) -> set[str]:
    """The table's metadata, and the files of all its snapshots but those with these manifest lists."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    lists = {snapshot.manifest_list for snapshot in table.metadata.snapshots} - without
    return named | lists | _reached(table.io, lists)


def _reached(io: FileIO, manifest_lists: Iterable[str], *, may_be_lost: bool = False) -> set[str]:
    """The manifests of these lists, and their data files."""
    skipping = suppress(FileNotFoundError) if may_be_lost else nullcontext()
    manifests: dict[str, ManifestFile] = {}
    for path in manifest_lists:
        with skipping:
            manifests |= {manifest.manifest_path: manifest for manifest in read_manifest_list(io.new_input(path))}
    files = set(manifests)
    for manifest in manifests.values():
        with skipping:
            files.update(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io))
    return files
