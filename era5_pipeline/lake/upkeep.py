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
from era5_pipeline.lake.catalog import IDENTIFIER, TABLE, WarehouseCatalog, lake_errors
from era5_pipeline.lake.months import files_of
from era5_pipeline.runtime import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from pyiceberg.table import Table

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents

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


# --- Expire snapshots, and remove files that no snapshot has ---


@dataclass(frozen=True)
class Cleaned:
    """What was removed: snapshots, files and bytes."""

    snapshots: int
    files: int
    bytes: int


def clean(
    connection: psycopg.Connection[Any], lake: Lake, *, keep: timedelta, orphans_after: timedelta, dry_run: bool = False
) -> Cleaned:
    """Expire snapshots that are older than `keep` and not the newest; then remove files that no snapshot has.

    Files that were written within `orphans_after` stay: a load may be about to commit them.

    Raises:
        StoreError, TransientError: if the lake cannot be read or written, or its REST catalog does not answer.
        psycopg.Error: any error of the server.
    """
    catalog = WarehouseCatalog(connection, lake.place)
    expired = 0
    with lake_errors(lake.place.address):
        if catalog.location_of_metadata() is None:
            used: set[str] = set()
        else:
            with connection.transaction():
                table = catalog.open_table(())
                before = len(table.metadata.snapshots)
                oldest = datetime.now(UTC) - keep
                if not dry_run:
                    table.maintenance.expire_snapshots().older_than(oldest.replace(tzinfo=None)).commit()
                expired = before - len(catalog.load_table(IDENTIFIER).metadata.snapshots)
            used = set(_used(catalog.load_table(IDENTIFIER)))
            if lake.follower is not None:
                # Before the files of what expired go; and its own metadata lies beside the table's.
                if not dry_run:
                    lake.publish(connection)
                used |= lake.follower.own_files()
    files = size = 0
    latest = time.time_ns() - int(orphans_after.total_seconds() * 1e9)
    for found in lake.store.objects():
        path = f"{lake.place.address.rstrip('/')}/{found.key}"
        if found.key.startswith(f"{TABLE}/") and path not in used and found.modified_ns < latest:
            files, size = files + 1, size + found.bytes
            if not dry_run:
                lake.store.remove(found.key)
    return Cleaned(expired, files, size)


def _used(table: Table) -> Iterator[str]:
    """The files of all snapshots, and their metadata."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    manifests = {}
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        manifests.update({manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)})
    for path, manifest in manifests.items():
        yield path
        yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))
