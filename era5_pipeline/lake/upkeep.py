"""Upkeep of the lake: compare it with the ledger, expire old snapshots, remove files that no snapshot has."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from era5_pipeline.flat.flat_month import FLAT_FORM
from era5_pipeline.flat.statistics import digest_of_rows, digest_text
from era5_pipeline.lake.catalog import IDENTIFIER, METADATA, TABLE, WarehouseCatalog, lake_errors, read_metadata
from era5_pipeline.lake.months import MONTH, SOURCE, VERSION, files_of
from era5_pipeline.lake.pointer import followers
from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.runtime import progress
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.ledger_entry import MonthContents

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from pyiceberg.table import Table

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month
    from era5_pipeline.runtime.stores import StoredObject
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# --- Compare months with the ledger ---


@dataclass(frozen=True)
class LakeMonth:
    """A month of the lake's table: its files, rows and bytes."""

    month: Month
    files: int
    rows: int
    bytes: int


def lake_month(table: Table | None, month: Month) -> LakeMonth:
    """Count the month's files in the table, with their rows and bytes."""
    files = [] if table is None else files_of(table, month)
    return LakeMonth(
        month, len(files), sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)
    )


def read_both(connection: psycopg.Connection[Any], lake: Lake) -> tuple[Table | None, tuple[MonthContents, ...]]:
    """The lake's table and the ledger as they were at one moment, whatever is loaded meanwhile.

    Months that the lake alone has are there too, without parts.

    Raises:
        StoreError, TransientError: if the lake cannot be read.
        psycopg.Error: any error of the server.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        table = lake.open(connection)
        contents = [one for one in read_ledger(connection) if one.parts]
        beyond = lake.months_beyond(connection, None)
    everything = (*contents, *(MonthContents(month, "dropped") for month in beyond))
    return table, tuple(sorted(everything, key=lambda one: one.month))


def verify_month(lake: Lake, table: Table | None, contents: MonthContents) -> tuple[str, ...]:
    """Compare the month's rows in the lake with the ledger: rows of each part, and the digest of each column.

    Returns a line for each difference. A part of which later loads took locations has no digests: its rows are counted.

    Raises:
        StoreError, TransientError: if a file cannot be read.
    """
    held = lake_month(table, contents.month)
    if held.rows != contents.rows:
        return (f"{contents.month}: {held.rows:,} rows in the lake, {contents.rows:,} in the warehouse",)
    if table is None or not contents.parts:
        return ()
    rows: dict[int, int] = defaultdict(int)
    digests: dict[tuple[int, str], int] = defaultdict(int)
    with lake_errors(lake.place.address):
        done = 0
        for batch in _batches(table, contents.month):
            for part in contents.parts:
                _add(batch, part, rows, digests)
            done += batch.num_rows
            progress.report("verify", done, held.rows, "rows")
    return tuple(_differences(contents, rows, digests))


def _batches(table: Table, month: Month) -> Iterator[pa.Table]:
    for file in files_of(table, month):
        with table.io.new_input(file.file_path).open() as source, pq.ParquetFile(source, pre_buffer=False) as rows:
            for number in range(rows.num_row_groups):
                yield rows.read_row_group(number)


def _add(batch: pa.Table, part: LedgerEntry, rows: dict[int, int], digests: dict[tuple[int, str], int]) -> None:
    ids = batch.column("location_id").to_numpy()
    if not part.location_ids.count_between(int(ids.min()), int(ids.max())):
        return
    is_own = np.isin(ids, part.location_ids.ids())
    own = batch if is_own.all() else batch.filter(pa.array(is_own))
    rows[part.part] += own.num_rows
    if part.is_cut or not own.num_rows:
        return
    times, ids = own.column("time").to_numpy(), own.column("location_id").to_numpy()
    for facts in part.columns:
        if facts.column in own.column_names:
            values = pc.fill_null(own.column(facts.column), np.float32("nan")).to_numpy()
            digests[part.part, facts.column] += digest_of_rows(times, ids, values)


def _differences(contents: MonthContents, rows: dict[int, int], digests: dict[tuple[int, str], int]) -> Iterator[str]:
    for part in contents.parts:
        where = f"{contents.month}, part {part.part}"
        if rows[part.part] != part.rows:
            yield f"{where}: {rows[part.part]:,} rows in the lake, {part.rows:,} in the warehouse"
        elif not part.is_cut:
            for facts in part.columns:
                if digest_text(FLAT_FORM + digests[part.part, facts.column]) != facts.digest:
                    yield f"{where}: other values of {facts.column} in the lake"


# --- What can be read by time travel ---


@dataclass(frozen=True)
class LakeSnapshot:
    """A snapshot: when it was made, the month that it brought, and the rows and bytes of the table by then.

    `source` and `version` (final, preliminary, mixed) are of that month; None: rows were dropped.
    """

    snapshot_id: int
    made: datetime
    month: str
    source: str | None
    version: str | None
    rows: int
    bytes: int


def list_snapshots(table: Table) -> tuple[LakeSnapshot, ...]:
    """The snapshots that are kept, from the oldest to the newest."""
    found = []
    for snapshot in table.metadata.snapshots:
        said = {} if snapshot.summary is None else snapshot.summary.additional_properties
        found.append(
            LakeSnapshot(
                snapshot.snapshot_id,
                datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
                said.get(MONTH, ""),
                said.get(SOURCE),
                said.get(VERSION),
                int(said.get("total-records", 0)),
                int(said.get("total-files-size", 0)),
            )
        )
    return tuple(found)


# --- Expire snapshots, and remove files that no snapshot has ---


@dataclass(frozen=True)
class Cleaned:
    """Counts of removed snapshots, files and bytes."""

    snapshots: int
    files: int
    bytes: int


def clean(
    connection: psycopg.Connection[Any],
    lake: Lake,
    *,
    keep: timedelta,
    orphans_after: timedelta,
    dry_run: bool = False,
    remove_newer: bool = False,
) -> Cleaned:
    """Expire snapshots that are older than `keep` and not the newest; then remove files that no snapshot has.

    Files that were written within `orphans_after` stay: a load may be about to commit them.

    Raises:
        UsageError: if the files may be another database's.
        RefusedError: if they are of a newer state of the table than this database's (unless `remove_newer`).
        StoreError, TransientError: if the lake cannot be read or written, or its REST catalog does not answer.
        psycopg.Error: any error of the server.
    """
    catalog = WarehouseCatalog(connection, lake.place)
    latest = time.time_ns() - int(orphans_after.total_seconds() * 1e9)
    with lake_errors(lake.place.address):
        # Before the table is read: what is committed meanwhile is then either not listed, or used.
        listed = [found for found in lake.store.objects() if found.key.startswith(f"{TABLE}/")]
        if catalog.location_of_metadata() is None:
            if listed:
                raise UsageError(
                    f"this database has no lake, and {lake.place.location} has {len(listed):,} files: of another one",
                    remedy="Check ERA5_DATABASE_URL and ERA5_LAKE. Nothing was removed.",
                )
            return Cleaned(0, 0, 0)
        _require_followers(connection, lake)
        known = catalog.load_table(IDENTIFIER)
        old = [found for found in listed if found.modified_ns < latest]
        _require_own_files(lake, known, old, remove_newer=remove_newer)
        with connection.transaction():
            table = catalog.open_table(())
            expired = _expired(table, datetime.now(UTC) - keep)
            if expired and not dry_run:
                table.maintenance.expire_snapshots().by_ids(expired).commit()
            used = set(_used(catalog.load_table(IDENTIFIER), without=expired))
            _require_here(lake, used)
        if lake.follower is not None:
            # Before the files of what expired go; and its own metadata lies beside the table's.
            if not dry_run:
                lake.publish(connection)
            used |= lake.follower.own_files()
    files = size = 0
    for found in old:
        if _path(lake, found) not in used:
            files, size = files + 1, size + found.bytes
            if not dry_run:
                lake.store.remove(found.key)
    return Cleaned(len(expired), files, size)


def _path(lake: Lake, found: StoredObject) -> str:
    """A listed file's path, as the table's metadata has it."""
    return f"{lake.place.location}{found.key.removeprefix(TABLE)}"


def _require_followers(connection: psycopg.Connection[Any], lake: Lake) -> None:
    """Refuse to clean if a REST catalog that is not set has metadata here: it would be taken for left behind."""
    own = None if lake.follower is None else lake.follower.shown
    others = [address for address in followers(connection) if address != own]
    if others:
        raise UsageError(
            f"the catalog {others[0]} follows this lake, and ERA5_LAKE_CATALOG is {own or 'unset'}",
            remedy=f"Set ERA5_LAKE_CATALOG={others[0]}; or, if nobody uses that catalog any more, drop the table there "
            "without purging its files, and run era5 lake publish --forget. Nothing was removed.",
        )


def _require_here(lake: Lake, used: set[str]) -> None:
    """Refuse to clean if files are known by other paths than the listed ones: all would look unused."""
    elsewhere = sorted(path for path in used if not path.startswith(f"{lake.place.location}/"))
    if elsewhere:
        raise UsageError(
            f"the lake is at {lake.place.location}, and has {len(elsewhere):,} files elsewhere: {elsewhere[0]}",
            remedy="Load their months again with --force, then clean with --keep-days 0. Nothing was removed.",
        )


def _require_own_files(lake: Lake, table: Table, listed: list[StoredObject], *, remove_newer: bool) -> None:
    """Refuse to clean a place that has files of another table, or of a newer state of this one."""
    held = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
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


def _expired(table: Table, oldest: datetime) -> list[int]:
    """The ids of snapshots from before this time, but not of the newest."""
    current = table.current_snapshot()
    return [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot != current and snapshot.timestamp_ms < oldest.timestamp() * 1000
    ]


def _used(table: Table, *, without: list[int]) -> Iterator[str]:
    """The files of all snapshots but some, and their metadata."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    manifests = {}
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in without:
            continue
        yield snapshot.manifest_list
        manifests.update({manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)})
    for path, manifest in manifests.items():
        yield path
        yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
