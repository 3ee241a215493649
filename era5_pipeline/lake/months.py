"""Months in the lake: their files are written before the load, and become the table's in the load's own transaction.

`stage` writes files that nobody sees. `StagedMonth.commit` makes one snapshot of the table, in which they replace the
month's earlier files, on the connection and in the transaction that replaces the rows and writes the ledger: a reader
sees the old month or the new one, and so does a reader of the warehouse. If the transaction is rolled back, the files
stay behind, without effect, until `upkeep.clean`.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from pyiceberg.types import IntegerType
from typing_extensions import override

from era5_pipeline.flat.bands import BandSink, band_of
from era5_pipeline.flat.formats import KEYS, ParquetSink, field_id, schema_of
from era5_pipeline.lake.catalog import IDENTIFIER, TABLE, LakePlace, WarehouseCatalog, lake_errors
from era5_pipeline.lake.pointer import metadata_file, prepare, remember_follower
from era5_pipeline.lake.rest_catalog import RestFollower
from era5_pipeline.model.errors import Era5Error, TransientError, UsageError
from era5_pipeline.model.grid import N_LOCATIONS
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import temporary_folder
from era5_pipeline.runtime.progress import waiting
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.locks import month_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table, Transaction

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.rest_catalog import Published
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.stores import ObjectStore

_PUBLISH_LOCK = "hashtextextended('era5.lake.publish', 0)"
_PUBLISH_SECONDS = 120
_LOCATION = field_id("location_id")
# Digits of the fingerprint in a file's name, by which a month's files are recognised.
DIGITS = 12
# Properties of a snapshot: what the commit put into the table.
MONTH, SOURCE, VERSION, FINGERPRINT = "era5.month", "era5.source", "era5.version", "era5.fingerprint"
INTERPOLATED = "era5.interpolated"


@dataclass(frozen=True)
class Committed:
    """A month in the lake after its load: the newest snapshot, and number, rows and bytes of the month's files.

    `changed`: whether this load made the snapshot; otherwise the lake had the month already, all of it.
    """

    snapshot_id: int
    files: int
    rows: int
    bytes: int
    changed: bool = True


@dataclass(frozen=True)
class Lake:
    """The lake at a folder or `s3://bucket/prefix`; `home` is for temporary files, `follower` a REST catalog."""

    place: LakePlace
    store: ObjectStore
    home: Path
    follower: RestFollower | None = None

    @classmethod
    def of(cls, settings: Settings) -> Lake:
        """The lake that the settings name.

        Raises:
            UsageError: if they name none, or one that is neither a folder nor an address of S3.
        """
        address = settings.lake_address
        if address is None:
            raise UsageError(
                "there is no lake",
                remedy="Name it in the environment or .env: ERA5_LAKE=folder or s3://bucket/prefix.",
            )
        store = open_store(address, settings.store_patience_seconds)
        catalog = settings.lake_catalog
        follower = None if catalog is None else RestFollower(catalog, settings.lake_catalog_token_file)
        return cls(LakePlace(address), store, settings.home, follower)

    def require(self, connection: psycopg.Connection[Any]) -> None:
        """Create the catalog and the table, if they do not exist; require that the folder or bucket can be read.

        The empty table is there before its first files: so files without a table are always another database's.

        Raises:
            UsageError: if this database's lake is at another place, or another database's at this one.
            StoreError, TransientError: see `ObjectStore`.
        """
        with lake_errors(self.place.address):
            self.store.require()
        prepare(connection)
        WarehouseCatalog(connection, self.place).ensure_table()

    def open(self, connection: psycopg.Connection[Any]) -> Table | None:
        """Open the current table for reading; None if it does not exist yet."""
        catalog = WarehouseCatalog(connection, self.place)
        if catalog.location_of_metadata() is None:
            return None
        with lake_errors(self.place.address):
            return catalog.load_table(IDENTIFIER)

    def months(self, connection: psycopg.Connection[Any]) -> Mapping[Month, MonthInLake]:
        """Describe each month of the table; a month that it lacks has no rows.

        Raises:
            StoreError, TransientError: if the lake cannot be read.
        """
        table = self.open(connection)
        months: dict[Month, MonthInLake] = defaultdict(MonthInLake)
        with lake_errors(self.place.address):
            for task in () if table is None else table.scan().plan_files():
                since_1970 = task.file.partition[0]
                month = months[Month(1970 + since_1970 // 12, since_1970 % 12 + 1)]
                month.rows += task.file.record_count
                month.fingerprints.add(fingerprint_in(task.file.file_path))
        return months

    def months_beyond(self, connection: psycopg.Connection[Any], wanted: Iterable[Month] | None) -> tuple[Month, ...]:
        """Months of the table (of the wanted ones, None: all) that the warehouse lacks: dropped while it was unset.

        Raises:
            StoreError, TransientError: if the lake cannot be read.
        """
        held = {contents.month for contents in read_ledger(connection) if contents.parts}
        own = {month for month, there in self.months(connection).items() if there.rows}
        return tuple(sorted((own if wanted is None else own.intersection(wanted)) - held))

    def remove_beyond(
        self, warehouse: Warehouse, month: Month, locations: LocationSet | None, lock_timeout_seconds: int
    ) -> None:
        """Take a month that the warehouse lacks, or these locations of it, out of the table.

        Raises:
            MonthLockedError: if a load of the month does not finish in time.
            StoreError, TransientError: if the lake cannot be read or written.
        """
        gone = LocationSet.of_runs([(1, N_LOCATIONS + 1)]) if locations is None else locations
        with warehouse.connect() as connection, server_errors(f"dropping {month} from the lake"):
            wait = month_lock(connection, month, timeout_seconds=lock_timeout_seconds, on_wait=lambda _: None)
            with wait, connection.transaction():
                if self.months_beyond(connection, (month,)):
                    self.remove(month, connection, gone)

    def publish(self, connection: psycopg.Connection[Any], *, waits: bool = True) -> Published | None:
        """Bring the REST catalog up to date, if there is one, and the table, outside of any transaction.

        One program at a time does, each with what is newest by then: an older view would take back what another has
        told. If not `waits` and another is at it, return None at once: before it ends, it tells this month, too.

        Raises:
            UsageError, StoreError, TransientError: see `RestFollower.publish`.
            TransientError: if another program does not end in time.
        """
        if self.follower is None:
            return None
        follower = replace(self.follower, properties=self.place.properties)
        while True:
            if not _is_next_to_publish(connection, waits=waits):
                return None
            try:
                table = self.open(connection)
                if table is None:
                    return None
                remember_follower(connection, follower.shown)
                with lake_errors(self.place.address):
                    published = follower.publish(table)
            finally:
                if not connection.closed:
                    connection.execute(f"SELECT pg_advisory_unlock({_PUBLISH_LOCK})")
            # Whoever committed since, and did not wait, relies on it.
            if metadata_file(connection) == table.metadata_location:
                return published

    def publish_or_say(self, warehouse: Warehouse) -> tuple[str, ...]:
        """Bring the REST catalog up to date after a load; if that fails, return a note, as the month is loaded."""
        if self.follower is None:
            return ()
        try:
            with warehouse.connect() as connection, server_errors("telling the lake's REST catalog"):
                self.publish(connection, waits=False)
        except Era5Error as error:
            return (f"{error.message}: the next load tells it of this month, or era5 lake publish",)
        return ()

    def held(self, connection: psycopg.Connection[Any], flat: FlatMonth) -> Committed | None:
        """This flat month in the table: None unless all its rows are there, in files with its fingerprint."""
        table = self.open(connection)
        snapshot = None if table is None else table.current_snapshot()
        if table is None or snapshot is None:
            return None
        of_flat = flat.fingerprint[:DIGITS]
        own = [file for file in files_of(table, flat.month) if fingerprint_in(file.file_path) == of_flat]
        rows, size = sum(file.record_count for file in own), sum(file.file_size_in_bytes for file in own)
        return Committed(snapshot.snapshot_id, len(own), rows, size, changed=False) if rows == flat.rows else None

    def stage(self, flat: FlatMonth) -> StagedMonth:
        """Write the flat month's files into the lake, where nobody sees them yet.

        Raises:
            StoreError, TransientError: see `ObjectStore`.
            LocalDiskError: if the disk is full.
        """
        with temporary_folder(self.home / "scratch", "lake-") as folder, lake_errors(self.place.address):
            paths = [file.path for file in flat.row_files] if flat.is_for_lake else list(_banded(flat, folder))
            return StagedMonth(self, flat, tuple(self.upload(flat.month, flat.fingerprint, paths)))

    def prepared(self, warehouse: Warehouse, flat: FlatMonth, *, force: bool = False) -> LakeCommit:
        """Write the month's files into the lake, unless it has them; its load then makes them part of the table.

        Raises:
            StoreError, TransientError: see `ObjectStore`.
        """
        with warehouse.connect() as connection, server_errors(f"looking at the lake for {flat.month}"):
            self.require(connection)
            if not force and self.held(connection, flat) is not None:
                return LakeCommit(None, had=(self, flat))
        if not all(file.path.is_file() for file in flat.row_files):
            note = f"{flat.month}: the lake lacks it, and its flat file is gone: materialize era5/flat of it first"
            return LakeCommit(None, (note,))
        return LakeCommit(self.stage(flat))

    def remove(self, month: Month, connection: psycopg.Connection[Any], locations: LocationSet) -> None:
        """Take these locations of the month out of the table within the caller's transaction, by one snapshot.

        Raises:
            StoreError, TransientError: if the lake cannot be read or written; roll back then.
            psycopg.Error: any error of the server.
        """
        catalog = WarehouseCatalog(connection, self.place)
        if catalog.location_of_metadata() is None:
            return
        table = catalog.open_table(())
        with lake_errors(self.place.address):
            replaced, rest = _taken_out(self, table, month, locations)
            if replaced:
                commit_files(table, month, replaced, rest, {})

    def upload(self, month: Month, fingerprint: str, paths: Sequence[Path]) -> Iterator[StagedFile]:
        """Write these files into the lake; names are new, so nothing is replaced."""
        total = sum(path.stat().st_size for path in paths)
        done = 0
        for path in paths:
            metadata = pq.read_metadata(path)
            band = band_of(metadata.row_group(0).column(1).statistics.min) if metadata.num_rows else 0
            name = f"{month}-{fingerprint[:DIGITS]}-band{band:02d}-{uuid.uuid4().hex[:12]}.parquet"
            key = f"{TABLE}/data/{month}/{name}"
            self.store.upload(path, key)
            done += path.stat().st_size
            progress.report("lake", done, total, "bytes")
            if metadata.num_rows:
                yield StagedFile(f"{self.place.location}/data/{month}/{name}", path.stat().st_size, metadata)


@dataclass(frozen=True)
class StagedFile:
    """A data file in the lake that may not be part of the table yet."""

    path: str
    bytes: int
    metadata: pq.FileMetaData


@dataclass(frozen=True)
class StagedMonth:
    """A flat month whose files are in the lake, but not part of its table."""

    lake: Lake
    flat: FlatMonth
    files: tuple[StagedFile, ...]

    def commit(self, connection: psycopg.Connection[Any], *, keeps: bool = False) -> Committed:
        """Replace the month's locations in the table within the caller's transaction, by one snapshot.

        `keeps`: other columns of the same rows stay, as in the warehouse (they are read from the earlier files).

        Raises:
            StoreError, TransientError: if the lake cannot be read or written; roll back then.
            psycopg.Error: any error of the server.
        """
        lake, flat = self.lake, self.flat
        table = WarehouseCatalog(connection, lake.place).open_table(flat.column_names)
        with lake_errors(lake.place.address):
            replaced, rest = _taken_out(lake, table, flat.month, flat.location_ids)
            own = _with_kept_columns(lake, table, replaced, flat) if keeps and replaced else list(self.files)
            properties = {SOURCE: flat.raw.source, VERSION: flat.version, FINGERPRINT: flat.fingerprint}
            if flat.shift is not None:
                properties[INTERPOLATED] = flat.shift.text
            return commit_files(table, flat.month, replaced, own + rest, properties)


class LakeCommit:
    """Makes a staged month part of the lake in the transaction of its load (an `Alongside`).

    Without a staged month nothing is committed; then the lake must still have the month if it had it before (`had`).
    """

    def __init__(
        self, staged: StagedMonth | None, notes: tuple[str, ...] = (), *, had: tuple[Lake, FlatMonth] | None = None
    ) -> None:
        self._staged = staged
        self._had = had
        self.notes = notes
        self.committed: Committed | None = None

    def __call__(self, connection: psycopg.Connection[Any], *, keeps: bool) -> None:
        """Commit it, if there is anything to commit.

        Raises:
            TransientError: if another load or a drop has taken the month out of the lake since it was looked at.
            StoreError: see `StagedMonth.commit`.
        """
        if self._staged is not None:
            self.committed = self._staged.commit(connection, keeps=keeps)
        elif self._had is not None:
            lake, flat = self._had
            self.committed = lake.held(connection, flat)
            if self.committed is None:
                raise TransientError(
                    f"{flat.month} was replaced or dropped in the lake while this load of it waited",
                    remedy="Load it again. The month is as the other program left it.",
                )


@dataclass
class MonthInLake:
    """A month of the table: its rows, and the first digits of the fingerprints of the flat months that brought them."""

    rows: int = 0
    fingerprints: set[str] = field(default_factory=set)

    def is_of(self, rows: int, fingerprints: Iterable[str]) -> bool:
        """Return True if it has this many rows, and all of them come from flat months with these fingerprints."""
        return self.rows == rows and self.fingerprints <= {fingerprint[:DIGITS] for fingerprint in fingerprints}


def _is_next_to_publish(connection: psycopg.Connection[Any], *, waits: bool) -> bool:
    """Lock the publishing for this session; False if another has it, and this one does not wait."""
    if connection.execute(f"SELECT pg_try_advisory_lock({_PUBLISH_LOCK})").fetchone() == (True,):
        return True
    if not waits:
        return False
    try:
        with waiting(), connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_PUBLISH_SECONDS}s",))
            connection.execute(f"SELECT pg_advisory_lock({_PUBLISH_LOCK})")
    except psycopg.errors.LockNotAvailable:
        raise TransientError(
            f"another program has been telling the lake's REST catalog of months for {_PUBLISH_SECONDS} s",
            remedy="Check that the catalog (ERA5_LAKE_CATALOG) answers; then run this again.",
        ) from None
    return True


def commit_files(
    table: Table, month: Month, replaced: list[DataFile], added: list[StagedFile], properties: dict[str, str]
) -> Committed:
    """Make one snapshot, in which the new files take the place of others."""
    with table.transaction() as change:
        properties = {MONTH: str(month), **properties}
        update = change.update_snapshot(snapshot_properties=properties)
        with _Replacement(change, table.io, properties) if replaced else update.merge_append() as snapshot:
            for file in replaced:
                snapshot.delete_data_file(file)
            for staged in added:
                snapshot.append_data_file(_data_file(staged, table))
    rows, size = sum(file.metadata.num_rows for file in added), sum(file.bytes for file in added)
    return Committed(snapshot.snapshot_id, len(added), rows, size)


class _Replacement(_OverwriteFiles):
    """pyiceberg's overwrite, which also merges manifests: by itself it adds two, and keeps those of removed files."""

    def __init__(self, change: Transaction, io: FileIO, properties: dict[str, str]) -> None:
        super().__init__(Operation.OVERWRITE, change, io, snapshot_properties=properties)

    @override
    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        needed = [
            one
            for one in manifests
            if one.has_added_files() or one.has_existing_files() or one.added_snapshot_id == self.snapshot_id
        ]
        settings = self._transaction.table_metadata.properties
        merging = _ManifestMergeManager(
            int(settings[TableProperties.MANIFEST_TARGET_SIZE_BYTES]),
            int(settings[TableProperties.MANIFEST_MIN_MERGE_COUNT]),
            merge_enabled=True,
            snapshot_producer=self,
        )
        return merging.merge_manifests(needed)


def _taken_out(
    lake: Lake, table: Table, month: Month, locations: LocationSet
) -> tuple[list[DataFile], list[StagedFile]]:
    """The month's files with any of these locations, and new files with the rest of their rows."""
    replaced, rest = [], []
    for file in files_of(table, month):
        bounds = (file.lower_bounds, file.upper_bounds)
        first, last = (int(from_bytes(IntegerType(), of[_LOCATION])) for of in bounds)
        # The row of the catalog is locked: files are read only if their bounds do not tell.
        among = locations.count_between(first, last)
        if among in (0, last - first + 1):
            replaced += [file] if among else []
            continue
        held = _locations_in(table, file)
        if held.overlaps(locations):
            replaced.append(file)
            if len(held - locations):
                rest += _rest_of(lake, table, month, file, held - locations)
    return replaced, rest


def _rest_of(lake: Lake, table: Table, month: Month, file: DataFile, locations: LocationSet) -> list[StagedFile]:
    """Write the rows of these locations in `file` as a file of their own."""
    ids = pa.array(locations.ids().astype(np.int32))
    with temporary_folder(lake.home / "scratch", "lake-") as folder:
        path = folder / "rest.parquet"
        with (
            table.io.new_input(file.file_path).open() as source,
            pq.ParquetFile(source) as old,
            ParquetSink(path, old.schema_arrow, for_lake=True) as sink,
        ):
            for number in range(old.num_row_groups):
                rows = old.read_row_group(number)
                rows = rows.filter(pc.is_in(rows.column("location_id"), ids))
                if rows.num_rows:
                    sink.write(rows)
        return list(lake.upload(month, fingerprint_in(file.file_path), [path]))


def _with_kept_columns(lake: Lake, table: Table, files: list[DataFile], flat: FlatMonth) -> list[StagedFile]:
    """Write the rows of these files again: with the flat month's columns, and their other ones as they are."""
    with temporary_folder(lake.home / "scratch", "lake-") as folder, ExitStack() as stack:
        rows = [
            stack.enter_context(pq.ParquetFile(stack.enter_context(table.io.new_input(file.file_path).open())))
            for file in sorted(files, key=lambda file: file.partition[1])
        ]
        schema = schema_of({*flat.column_names, *(name for old in rows for name in old.schema_arrow.names)} - set(KEYS))
        # In a folder of its own, because the temporary one is locked.
        with BandSink(lambda band: folder / "bands" / f"band{band:02d}.parquet", schema) as sink:
            for old in rows:
                kept = [name for name in old.schema_arrow.names if name not in flat.column_names]
                for number in range(old.num_row_groups):
                    sink.write(_joined(old.read_row_group(number, columns=kept), flat, schema))
        return list(lake.upload(flat.month, flat.fingerprint, sink.paths))


def _locations_in(table: Table, file: DataFile) -> LocationSet:
    with table.io.new_input(file.file_path).open() as source:
        ids = pq.read_table(source, columns=["location_id"]).column(0)
    return LocationSet.of_ids(np.unique(ids.to_numpy()))


def files_of(table: Table, month: Month) -> list[DataFile]:
    """The data files of a month in the table's newest snapshot."""
    of_month = f"time >= '{month.start.isoformat()}' AND time < '{month.end.isoformat()}'"
    return [task.file for task in table.scan(row_filter=of_month).plan_files()]


def fingerprint_in(path: str) -> str:
    """The first digits of the fingerprint of the flat month whose rows a file has."""
    return path.rpartition("/")[2].split("-")[2]


def _joined(rows: pa.Table, flat: FlatMonth, schema: pa.Schema) -> pa.Table:
    """The rows, with the columns of the flat month at the same places and hours, in the order of the schema."""
    ends = pc.min_max(rows.column("location_id")).as_py()
    of_places = [("location_id", ">=", ends["min"]), ("location_id", "<=", ends["max"])]
    names = ["time", "location_id", *flat.column_names]
    new = pa.concat_tables(pq.read_table(file.path, columns=names, filters=of_places) for file in flat.row_files)
    joined = rows.join(new, keys=["location_id", "time"], join_type="left outer")
    for name in schema.names:
        if name not in joined.column_names:
            joined = joined.append_column(name, pa.nulls(joined.num_rows, pa.float32()))
    return joined.sort_by([("location_id", "ascending"), ("time", "ascending")]).select(schema.names).cast(schema)


def _banded(flat: FlatMonth, folder: Path) -> tuple[Path, ...]:
    """Write the rows of a flat month again, as a lake's files."""
    with BandSink(lambda band: folder / "bands" / f"band{band:02d}.parquet", schema_of(flat.column_names)) as sink:
        for file in flat.row_files:
            with pq.ParquetFile(file.path, pre_buffer=False) as rows:
                for number in range(rows.num_row_groups):
                    sink.write(rows.read_row_group(number))
    return sink.paths


def _data_file(staged: StagedFile, table: Table) -> DataFile:
    """Describe a data file by the statistics in its footer."""
    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=staged.metadata,
        stats_columns=compute_statistics_plan(schema, table.metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=staged.path,
        file_format=FileFormat.PARQUET,
        partition=statistics.partition(table.spec(), schema),
        file_size_in_bytes=staged.bytes,
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
