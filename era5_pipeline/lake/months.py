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
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from era5_pipeline.flat.bands import BandSink, band_of
from era5_pipeline.flat.formats import KEYS, ParquetSink, schema_of
from era5_pipeline.lake.catalog import IDENTIFIER, TABLE, LakePlace, WarehouseCatalog, lake_errors, prepare
from era5_pipeline.lake.rest_catalog import RestFollower
from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import temporary_folder
from era5_pipeline.runtime.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import psycopg
    from pyiceberg.table import Table

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.rest_catalog import Published
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.stores import ObjectStore

# Digits of the fingerprint in a file's name, by which a month's files are recognised.
DIGITS = 12
# Properties of a snapshot: what the commit put into the table.
MONTH, SOURCE, VERSION, FINGERPRINT = "era5.month", "era5.source", "era5.version", "era5.fingerprint"


@dataclass(frozen=True)
class Committed:
    """The result of a commit: the id of the new snapshot, and the number, rows and bytes of the files that it added."""

    snapshot_id: int
    files: int
    rows: int
    bytes: int


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
        """Create the catalog's tables, if they do not exist; require that the folder or bucket can be read.

        Raises:
            StoreError, TransientError: see `ObjectStore`.
        """
        with lake_errors(self.place.address):
            self.store.require()
        prepare(connection)

    def open(self, connection: psycopg.Connection[Any]) -> Table | None:
        """The table as it is now, to read; None if there is none yet."""
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

    def publish(self, connection: psycopg.Connection[Any]) -> Published | None:
        """Bring the REST catalog up to date, if there is one, and the table.

        Raises:
            UsageError, StoreError, TransientError: see `RestFollower.publish`.
        """
        if self.follower is None:
            return None
        follower = replace(self.follower, properties=self.place.properties)
        with connection.transaction():
            # One at a time, each with what is newest by then: an older view would take back what another load told.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('era5.lake.publish', 0))")
            table = self.open(connection)
            if table is None:
                return None
            with lake_errors(self.place.address):
                return follower.publish(table)

    def publish_or_say(self, warehouse: Warehouse) -> tuple[str, ...]:
        """Bring the REST catalog up to date after a load; if that fails, return a note, as the month is loaded."""
        if self.follower is None:
            return ()
        try:
            with warehouse.connect() as connection, server_errors("telling the lake's REST catalog"):
                self.publish(connection)
        except Era5Error as error:
            return (f"{error.message}: the next load tells it of this month, or era5 lake publish",)
        return ()

    def has(self, connection: psycopg.Connection[Any], flat: FlatMonth) -> bool:
        """Return True if the table has all rows of this flat month, in files with its fingerprint."""
        table = self.open(connection)
        if table is None:
            return False
        of_flat = flat.fingerprint[:DIGITS]
        own = [file for file in files_of(table, flat.month) if fingerprint_in(file.file_path) == of_flat]
        return sum(file.record_count for file in own) == flat.rows

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
            if not force and self.has(connection, flat):
                return LakeCommit(None)
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
                _committed(table, month, replaced, rest, {})

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
            return _committed(table, flat.month, replaced, own + rest, properties)


class LakeCommit:
    """Makes a staged month part of the lake in the transaction of its load (an `Alongside`)."""

    def __init__(self, staged: StagedMonth | None, notes: tuple[str, ...] = ()) -> None:
        self._staged = staged
        self.notes = notes
        self.committed: Committed | None = None

    def __call__(self, connection: psycopg.Connection[Any], *, keeps: bool) -> None:
        """Commit it, if there is anything to commit."""
        if self._staged is not None:
            self.committed = self._staged.commit(connection, keeps=keeps)


@dataclass
class MonthInLake:
    """A month of the table: its rows, and the first digits of the fingerprints of the flat months that brought them."""

    rows: int = 0
    fingerprints: set[str] = field(default_factory=set)

    def is_of(self, rows: int, fingerprints: Iterable[str]) -> bool:
        """Return True if it has this many rows, and all of them come from flat months with these fingerprints."""
        return self.rows == rows and self.fingerprints <= {fingerprint[:DIGITS] for fingerprint in fingerprints}


def _committed(
    table: Table, month: Month, replaced: list[DataFile], added: list[StagedFile], properties: dict[str, str]
) -> Committed:
    """Make one snapshot, in which the new files take the place of others."""
    with table.transaction() as change:
        update = change.update_snapshot(snapshot_properties={MONTH: str(month), **properties})
        with update.overwrite() if replaced else update.fast_append() as snapshot:
            for file in replaced:
                snapshot.delete_data_file(file)
            for staged in added:
                snapshot.append_data_file(_data_file(staged, table))
    rows, size = sum(file.metadata.num_rows for file in added), sum(file.bytes for file in added)
    return Committed(snapshot.snapshot_id, len(added), rows, size)


def _taken_out(
    lake: Lake, table: Table, month: Month, locations: LocationSet
) -> tuple[list[DataFile], list[StagedFile]]:
    """The month's files with any of these locations, and new files with the rest of their rows."""
    replaced, rest = [], []
    for file in files_of(table, month):
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
