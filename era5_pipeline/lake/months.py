"""Months in the lake: their files are written before the load, and become the table's in the load's own transaction.

`stage` writes files that are not visible yet. `StagedMonth.commit` makes one snapshot of the table, in which they
replace the month's earlier files, on the connection and in the transaction that replaces the rows and writes the
ledger: a reader sees the old month or the new one, and so does a reader of the warehouse. If the transaction is rolled
back, the files stay behind, without effect, until `upkeep.clean`.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.types import IntegerType

from era5_pipeline.flat.bands import BandSink, band_of
from era5_pipeline.flat.formats import KEYS, field_id, parquet_sink, schema_of
from era5_pipeline.lake.catalog import LakePlace, WarehouseCatalog, lake_errors
from era5_pipeline.lake.commits import Committed, StagedFile, commit_files
from era5_pipeline.lake.pointer import followers, metadata_file, prepare, remember_follower, take_unused
from era5_pipeline.lake.rest_catalog import RestFollower
from era5_pipeline.lake.snapshots import FINGERPRINT, INTERPOLATED, ORIGIN, SOURCE, SOURCE_SNAPSHOT, VERSION
from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import Era5Error, StoreError, TransientError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import temporary_folder
from era5_pipeline.runtime.progress import waiting
from era5_pipeline.runtime.stores import ObjectStore, open_store
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.locks import month_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.rest_catalog import Published
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

_PUBLISH_LOCK = "hashtextextended('{schema}.lake.publish', 0)"
_PUBLISH_SECONDS = 120
_LOCATION = field_id("location_id")
# What PyArrow says of Parquet files that are damaged.
_UNPARSABLE = re.compile("thrift|corrupt|decompress|magic bytes", re.IGNORECASE)
# Iceberg counts months from this one.
_MONTH_0 = Month(1970, 1)
# Digits of the fingerprint in a file's name, by which a month's files are recognised.
DIGITS = 12
# Metadata files that are removed after a commit, which makes one or two of them superfluous.
_REMOVED_AT_ONCE = 50


@dataclass(frozen=True)
class Lake:
    """The lake at a folder or `s3://bucket/prefix`; `home` is for temporary files, `follower` a REST catalog."""

    place: LakePlace
    store: ObjectStore
    home: Path
    follower: RestFollower | None = None

    @classmethod
    def of(cls, settings: Settings) -> Lake:
        """The lake that the settings name."""
        address = settings.lake_address
        if address is None:
            raise UsageError(
                "there is no lake",
                remedy="Name it in the environment or .env: ERA5_LAKE=folder or s3://bucket/prefix.",
            )
        store, dataset = open_store(address, settings.store_patience_seconds), settings.wanted_dataset
        catalog = settings.lake_catalog
        follower = None if catalog is None else RestFollower(catalog, settings.lake_catalog_token_file, dataset=dataset)
        return cls(LakePlace(address, dataset), store, settings.home, follower)

    def require(self, connection: psycopg.Connection[Any]) -> None:
        """Create the catalog and the table, if they do not exist; require that the folder or bucket can be read.

        The empty table is there before its first files: so files without a table are always another database's.
        """
        with lake_errors(self.place):
            self.store.require()
        prepare(connection)
        WarehouseCatalog(connection, self.place).ensure_table()

    def open(self, connection: psycopg.Connection[Any]) -> Table | None:
        """Open the current table for reading; None if it does not exist yet."""
        catalog = WarehouseCatalog(connection, self.place)
        if catalog.location_of_metadata() is None:
            return None
        with lake_errors(self.place):
            return catalog.load_table(self.place.identifier)

    def months(self, connection: psycopg.Connection[Any]) -> Mapping[Month, MonthInLake]:
        """Describe each month of the table; a month that it lacks has no rows."""
        table = self.open(connection)
        months: dict[Month, MonthInLake] = defaultdict(MonthInLake)
        with lake_errors(self.place):
            for month, files in ({} if table is None else files_by_month(table)).items():
                months[month] = MonthInLake(
                    sum(file.record_count for file in files), {fingerprint_in(file.file_path) for file in files}
                )
        return months

    def months_beyond(self, connection: psycopg.Connection[Any], wanted: Iterable[Month] | None) -> tuple[Month, ...]:
        """Months of the table (of the wanted ones, None: all) that the warehouse lacks: dropped while it was unset."""
        held = {contents.month for contents in read_ledger(connection) if contents.parts}
        own = {month for month, there in self.months(connection).items() if there.rows}
        return tuple(sorted((own if wanted is None else own.intersection(wanted)) - held))

    def remove_beyond(
        self, warehouse: Warehouse, month: Month, locations: LocationSet | None, lock_timeout_seconds: int
    ) -> None:
        """Take a month that the warehouse lacks, or these locations of it, out of the table."""
        gone = LocationSet.whole(self.place.dataset.grid) if locations is None else locations
        with warehouse.connect() as connection, server_errors(f"dropping {month} from the lake"):
            wait = month_lock(connection, month, timeout_seconds=lock_timeout_seconds, on_wait=lambda _: None)
            with wait, connection.transaction():
                if self.months_beyond(connection, (month,)):
                    self.remove(month, connection, gone)

    def publish(self, connection: psycopg.Connection[Any], *, waits: bool = True) -> Published | None:
        """Bring the REST catalog up to date, if there is one, and the table, outside of any transaction.

        One program at a time does, each with what is newest by then: an older view would take back what another has
        told. If not `waits` and another is at it, return None at once: before it ends, it tells this month, too.
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
                with lake_errors(self.place):
                    published = follower.publish(table)
            finally:
                if not connection.closed:
                    connection.execute(dataset_of(connection).sql(f"SELECT pg_advisory_unlock({_PUBLISH_LOCK})"))
            # Whoever committed since, and did not wait, relies on it.
            if metadata_file(connection) == table.metadata_location:
                return published

    def after_commit(self, warehouse: Warehouse, orphan_hours: float) -> tuple[str, ...]:
        """Bring the REST catalog up to date, then remove metadata files that no snapshot has needed for so long.

        Returns notes about what failed: the month is loaded nevertheless.
        """
        option = dataset_option(self.place.dataset)
        later = f"the next load tells it of this month, or era5 lake publish{option}"
        try:
            with warehouse.connect() as connection:
                with server_errors("telling the lake's REST catalog"):
                    is_told = self.follower is None or self.publish(connection, waits=False) is not None
                later = f"era5 lake clean{option} removes the lake's old metadata"
                if is_told:
                    with server_errors("removing old metadata of the lake"):
                        # None if a REST catalog that is not set may still have them.
                        own = None if self.follower is None else self.follower.shown
                        if all(address == own for address in followers(connection)):
                            for name in take_unused(connection, seconds=orphan_hours * 3600, at_most=_REMOVED_AT_ONCE):
                                self.store.remove(f"{self.place.dataset.table}/metadata/{name}")
        except Era5Error as error:
            return (f"{error.message}: {later}",)
        return ()

    def held(
        self, connection: psycopg.Connection[Any], month: Month, rows: int, fingerprints: Iterable[str]
    ) -> Committed | None:
        """Rows of the month in the table: None unless so many are there, in files of these flat months."""
        table = self.open(connection)
        snapshot = None if table is None else table.current_snapshot()
        if table is None or snapshot is None:
            return None
        wanted = {fingerprint[:DIGITS] for fingerprint in fingerprints}
        own = [file for file in files_of(table, month) if fingerprint_in(file.file_path) in wanted]
        found, size = sum(file.record_count for file in own), sum(file.file_size_in_bytes for file in own)
        return Committed(snapshot.snapshot_id, len(own), found, size, changed=False) if found == rows else None

    def stage(self, flat: FlatMonth) -> StagedMonth:
        """Write the flat month's files into the lake, not visible yet."""
        with temporary_folder(self.home / "scratch", "lake-") as folder, lake_errors(self.place):
            paths = [file.path for file in flat.row_files] if flat.is_for_lake else list(_banded(flat, folder))
            return StagedMonth(self, flat, tuple(self.upload(flat.month, flat.fingerprint, paths)))

    def prepared(self, warehouse: Warehouse, flat: FlatMonth, *, force: bool = False) -> LakeCommit:
        """Write the month's files into the lake, unless it has them; its load then makes them part of the table."""
        with warehouse.connect() as connection, server_errors(f"looking at the lake for {flat.month}"):
            self.require(connection)
            if not force and self.held(connection, flat.month, flat.rows, (flat.fingerprint,)) is not None:
                return LakeCommit(self, flat, had=True)
        if not all(file.path.is_file() for file in flat.row_files):
            asset = f"{self.place.dataset.schema}/flat"
            note = f"{flat.month}: the lake lacks it, and its flat file is gone: materialize {asset} of it first"
            return LakeCommit(self, flat, notes=(note,))
        return LakeCommit(self, flat, self.stage(flat))

    def remove(self, month: Month, connection: psycopg.Connection[Any], locations: LocationSet) -> None:
        """Take these locations of the month out of the table within the caller's transaction, by one snapshot.

        Files of the month that cannot be read go whole.
        """
        catalog = WarehouseCatalog(connection, self.place)
        if catalog.location_of_metadata() is None:
            return
        table = catalog.open_table(())
        with lake_errors(self.place):
            taken = _taken_out(self, table, month, locations)
            if taken.replaced:
                commit_files(table, month, taken.replaced, taken.rest, {})

    def upload(self, month: Month, fingerprint: str, paths: Sequence[Path]) -> Iterator[StagedFile]:
        """Write these files into the lake; names are new, so nothing is replaced."""
        total = sum(path.stat().st_size for path in paths)
        done = 0
        for path in paths:
            metadata = pq.read_metadata(path)
            band = band_of(metadata.row_group(0).column(1).statistics.min) if metadata.num_rows else 0
            name = f"{month}-{fingerprint[:DIGITS]}-band{band:02d}-{uuid.uuid4().hex[:12]}.parquet"
            key = f"{self.place.dataset.table}/data/{month}/{name}"
            self.store.upload(path, key)
            done += path.stat().st_size
            progress.report("lake", done, total, "bytes")
            if metadata.num_rows:
                yield StagedFile(f"{self.place.location}/data/{month}/{name}", path.stat().st_size, metadata)


@dataclass(frozen=True)
class StagedMonth:
    """A flat month whose files are in the lake, but not part of its table."""

    lake: Lake
    flat: FlatMonth
    files: tuple[StagedFile, ...]

    def commit(self, connection: psycopg.Connection[Any], *, keeps: bool = False) -> Committed:
        """Replace the month's locations in the table within the caller's transaction, by one snapshot.

        `keeps`: other columns of the same rows stay, as in the warehouse (they are read from the earlier files).
        """
        lake, flat = self.lake, self.flat
        table = WarehouseCatalog(connection, lake.place).open_table(flat.column_names)
        with lake_errors(lake.place):
            taken = _taken_out(lake, table, flat.month, flat.location_ids)
            own = _with_kept_columns(lake, table, taken, flat) if keeps and taken.replaced else list(self.files)
            properties = {SOURCE: flat.raw.source, VERSION: flat.version, FINGERPRINT: flat.fingerprint}
            if flat.shift is not None:
                properties[INTERPOLATED] = flat.shift.text
            if flat.origin is not None:
                properties[ORIGIN] = flat.origin
            if flat.raw.snapshot is not None:
                properties[SOURCE_SNAPSHOT] = str(flat.raw.snapshot)
            committed = commit_files(table, flat.month, taken.replaced, own + taken.rest, properties)
            return replace(committed, lost=tuple(taken.lost))


class LakeCommit:
    """Makes a staged month part of the lake in the transaction of its load (an `Alongside`).

    Without a staged month nothing is committed; then the lake must still have the month if it `had` it before.
    """

    def __init__(
        self,
        lake: Lake,
        flat: FlatMonth,
        staged: StagedMonth | None = None,
        *,
        notes: tuple[str, ...] = (),
        had: bool = False,
    ) -> None:
        self._lake = lake
        self._flat = flat
        self._staged = staged
        self._had = had
        self.notes = notes
        self.committed: Committed | None = None

    def __call__(self, connection: psycopg.Connection[Any], *, keeps: bool) -> None:
        """Commit it, if there is anything to commit."""
        if self._staged is not None:
            self.committed = self._staged.commit(connection, keeps=keeps)
            month, option = self._flat.month, dataset_option(self._lake.place.dataset)
            self.notes += tuple(
                f"{month}: the lake's file {name} was lost or damaged, and is replaced; if it had other places too, "
                f"era5 lake verify{option} --from {month} names them"
                for name in self.committed.lost
            )
        elif self._had:
            flat = self._flat
            self.committed = self._lake.held(connection, flat.month, flat.rows, (flat.fingerprint,))
            if self.committed is None:
                raise TransientError(
                    f"{flat.month} was replaced or dropped in the lake while this load of it waited",
                    remedy="Load it again. The month is as the other program left it.",
                )

    def holds(self, connection: psycopg.Connection[Any], part: LedgerEntry) -> bool:
        """Return True if the part's rows are in the lake."""
        return self._held(connection, part) is not None

    def leave(self, connection: psycopg.Connection[Any], part: LedgerEntry) -> None:
        """Leave the part's rows in the lake as they are, and remove the files that would have replaced them."""
        self.committed, self.notes = self._held(connection, part), ()
        staged, self._staged = self._staged, None
        if staged is not None:
            with suppress(Era5Error), lake_errors(self._lake.place):
                for file in staged.files:
                    name = file.path.rpartition("/")[2]
                    self._lake.store.remove(f"{self._lake.place.dataset.table}/data/{self._flat.month}/{name}")

    def _held(self, connection: psycopg.Connection[Any], part: LedgerEntry) -> Committed | None:
        return self._lake.held(connection, part.month, part.rows, part.own_fingerprints)


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
    if connection.execute(dataset_of(connection).sql(f"SELECT pg_try_advisory_lock({_PUBLISH_LOCK})")).fetchone() == (
        True,
    ):
        return True
    if not waits:
        return False
    try:
        with waiting(), connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_PUBLISH_SECONDS}s",))
            connection.execute(dataset_of(connection).sql(f"SELECT pg_advisory_lock({_PUBLISH_LOCK})"))
    except psycopg.errors.LockNotAvailable:
        raise TransientError(
            f"another program has been telling the lake's REST catalog of months for {_PUBLISH_SECONDS} s",
            remedy="Check that the catalog (ERA5_LAKE_CATALOG) answers; then run this again.",
        ) from None
    return True


@dataclass
class _TakenOut:
    """Files that leave the table, new files with the rest of their rows, and names of those that cannot be read."""

    replaced: list[DataFile] = field(default_factory=list)
    rest: list[StagedFile] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def _taken_out(lake: Lake, table: Table, month: Month, locations: LocationSet) -> _TakenOut:
    """Take these locations out of the month's files."""
    taken = _TakenOut()
    for file in files_of(table, month):
        bounds = (file.lower_bounds, file.upper_bounds)
        first, last = (int(from_bytes(IntegerType(), of[_LOCATION])) for of in bounds)
        # The row of the catalog is locked: files are read only if their bounds do not tell.
        among = locations.count_between(first, last)
        if among in (0, last - first + 1):
            taken.replaced += [file] if among else []
            continue
        try:
            with table.io.new_input(file.file_path).open() as source:
                ids = pq.read_table(source, columns=["location_id"]).column(0)
            held = LocationSet.of_ids(np.unique(ids.to_numpy()), locations.grid)
            if held.overlaps(locations):
                rest = _rest_of(lake, table, month, file, held - locations) if len(held - locations) else []
                taken.replaced.append(file)
                taken.rest += rest
        except (OSError, pa.ArrowInvalid) as error:
            if what_is_wrong(error) is None:
                raise
            # Nobody can read its other rows either; kept, it would keep the month from being replaced for ever.
            taken.replaced.append(file)
            taken.lost.append(file_name(file))
    return taken


def what_is_wrong(error: Exception) -> str | None:
    """Tell from the error of reading a data file whether that is "lost" or "damaged"; None: it may be whole."""
    if isinstance(error, FileNotFoundError):
        return "lost"
    # Of the errors without a number, others are those of a network.
    is_parsed = isinstance(error, OSError) and error.errno is None and _UNPARSABLE.search(str(error))
    return "damaged" if is_parsed or isinstance(error, pa.ArrowInvalid) else None


def _rest_of(lake: Lake, table: Table, month: Month, file: DataFile, locations: LocationSet) -> list[StagedFile]:
    """Write the rows of these locations in `file` as a file of their own."""
    ids = pa.array(locations.ids().astype(np.int32))
    with temporary_folder(lake.home / "scratch", "lake-") as folder:
        path = folder / "rest.parquet"
        with (
            table.io.new_input(file.file_path).open() as source,
            pq.ParquetFile(source) as old,
            parquet_sink(path, old.schema_arrow, for_lake=True) as sink,
        ):
            for number in range(old.num_row_groups):
                rows = old.read_row_group(number)
                rows = rows.filter(pc.is_in(rows.column("location_id"), ids))
                if rows.num_rows:
                    sink.write(rows)
        return list(lake.upload(month, fingerprint_in(file.file_path), [path]))


def _with_kept_columns(lake: Lake, table: Table, taken: _TakenOut, flat: FlatMonth) -> list[StagedFile]:
    """Write the rows of these files again: with the flat month's columns, and their other ones as they are."""
    wrong: str | None = "lost or damaged"
    if not taken.lost:
        try:
            return _joined_files(lake, table, taken.replaced, flat)
        except (OSError, pa.ArrowInvalid) as error:
            wrong = what_is_wrong(error)
            if wrong is None:
                raise
    raise StoreError(
        f"{flat.month}: a file of the month in the lake is {wrong}, and with it columns beside "
        f"{', '.join(flat.column_names)}",
        remedy="Load all variables of the month together, with --replace: that needs no earlier file. The month is "
        "unchanged.",
    )


def _joined_files(lake: Lake, table: Table, files: list[DataFile], flat: FlatMonth) -> list[StagedFile]:
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


def files_of(table: Table, month: Month) -> list[DataFile]:
    """The data files of a month in the table's newest snapshot."""
    of_month = f"time >= '{month.start.isoformat()}' AND time < '{month.end.isoformat()}'"
    return [task.file for task in table.scan(row_filter=of_month).plan_files()]


def files_by_month(table: Table) -> dict[Month, list[DataFile]]:
    """The data files of every month in the table's newest snapshot, by reading each manifest once."""
    months: dict[Month, list[DataFile]] = defaultdict(list)
    for task in table.scan().plan_files():
        months[Month.from_number(_MONTH_0.number + task.file.partition[0])].append(task.file)
    return months


def file_name(file: DataFile) -> str:
    """The name of a data file, for messages."""
    return str(file.file_path).rpartition("/")[2]


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
