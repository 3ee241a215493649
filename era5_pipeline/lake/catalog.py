"""The lake's Iceberg table: its form, and its catalog in the warehouse's database.

Iceberg keeps what a table holds in files that are never changed; a catalog points to the newest. Here the pointer is a
row in the warehouse, replaced on the connection that loads a month, and so in the transaction of the ledger: warehouse
and lake change together or not at all. The row has the form of pyiceberg's SqlCatalog, so other programs open the table
with that, or with Iceberg's JdbcCatalog; pyiceberg's own class would commit in a session of its own.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
from pyiceberg.io import PY_IO_IMPL, S3_ENDPOINT, S3_REGION, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.transforms import MonthTransform, TruncateTransform
from pyiceberg.types import FloatType, IntegerType, NestedField, TimestamptzType
from typing_extensions import override

from era5_pipeline.flat.bands import BAND_LOCATIONS
from era5_pipeline.flat.formats import KEYS, field_id
from era5_pipeline.lake.pointer import CATALOG, address_of, ensure_namespace, metadata_file, note_unused, pointer_of
from era5_pipeline.lake.snapshots import superfluous
from era5_pipeline.model.dataset import ERA5, dataset_option
from era5_pipeline.model.errors import StoreError, TransientError, UsageError, disk_remedy
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.runtime.object_store import S3Address, is_s3
from era5_pipeline.runtime.stores import ObjectStore, S3Environment, open_store, s3_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg
    from pyarrow import fs
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

    from era5_pipeline.model.dataset import Dataset


# A property of our own, for `LakeFileIO`.
_CA_FILE = "era5.s3.ca-file"
# How the names of metadata files end.
METADATA = ".metadata.json"
_KEY_DOCS = {
    "time": "Hour in UTC: of instantaneous values the time, of accumulations the end",
    "location_id": "Number of the grid point: 1 to {locations:,}, from south-west to north-east",
    "latitude": "Degrees north",
    "longitude": "Degrees east, {west:.10g} to 180",
}
_KEY_TYPES = {"time": TimestamptzType(), "location_id": IntegerType()}
# Partition fields count from 1000 by Iceberg's rules; their names are those that its other writers would choose.
_PARTITIONS = PartitionSpec(
    PartitionField(field_id("time"), 1000, MonthTransform(), "time_month"),
    PartitionField(field_id("location_id"), 1001, TruncateTransform(BAND_LOCATIONS), "location_id_trunc"),
)
_PROPERTIES = {
    # Statistics of values would say little, and be most of each manifest.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.time": "full",
    "write.metadata.metrics.column.location_id": "full",
    # A manifest for each commit would make plans of a thousand months read a thousand files; one for all would be
    # written again by each. One of this size has some fifty months of the globe: see docs/decisions.md.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.target-size-bytes": "131072",
    "commit.manifest.min-count-to-merge": "20",
    # Each metadata file names this many before it; how long those that are older stay: `Lake.after_commit`.
    "write.metadata.previous-versions-max": "20",
    # The row of the catalog is locked during a commit, so none has to be tried again.
    "commit.retry.num-retries": "0",
}


def schema_of_table(columns: Iterable[str], schema_id: int = 0, dataset: Dataset = ERA5) -> Schema:
    """The schema of the table with these variables: names, units in the comments, and numbers that never change."""
    grid = dataset.grid
    docs = {name: doc.format(locations=grid.locations, west=grid.west_degrees) for name, doc in _KEY_DOCS.items()}
    keys = (
        NestedField(field_id(name), name, _KEY_TYPES.get(name, FloatType()), required=True, doc=docs[name])
        for name in KEYS
    )
    variables = (
        NestedField(
            field_id(variable.column),
            variable.column,
            FloatType(),
            required=False,
            doc=f"{variable.description}; {variable.unit}",
        )
        for variable in in_table_order(columns)
    )
    return Schema(*keys, *variables, schema_id=schema_id)


def new_metadata(location: str, dataset: Dataset = ERA5) -> TableMetadata:
    """The metadata of an empty table at this location, without variables."""
    schema = schema_of_table((), dataset=dataset)
    return TableMetadataV2(
        location=location,
        table_uuid=uuid.uuid4(),
        schemas=[schema],
        current_schema_id=schema.schema_id,
        last_column_id=schema.highest_field_id,
        partition_specs=[_PARTITIONS],
        default_spec_id=_PARTITIONS.spec_id,
        last_partition_id=_PARTITIONS.last_assigned_field_id,
        sort_orders=[UNSORTED_SORT_ORDER],
        default_sort_order_id=UNSORTED_SORT_ORDER.order_id,
        properties=_PROPERTIES,
    )


@dataclass(frozen=True)
class LakePlace:
    """Where the lake is: a folder or `s3://bucket/prefix`; the table of the data set is below it."""

    address: str
    dataset: Dataset = ERA5

    @property
    def identifier(self) -> tuple[str, str]:
        """The names of namespace and table."""
        return pointer_of(self.dataset)[1:]

    @property
    def location(self) -> str:
        """The table's location, as its metadata has it; the same however many slashes the address has."""
        address = str(S3Address.parse(self.address)) if is_s3(self.address) else self.address.rstrip("/")
        return f"{address}/{self.dataset.table}"

    @property
    def properties(self) -> dict[str, str]:
        """Settings with which pyiceberg opens files there; keys are not among them: AWS's usual places have them."""
        if not is_s3(self.address):
            return {}
        environment = S3Environment.read()
        found = {S3_ENDPOINT: environment.endpoint, S3_REGION: environment.region, _CA_FILE: environment.ca_file}
        own = f"{LakeFileIO.__module__}.{LakeFileIO.__qualname__}"
        return {PY_IO_IMPL: own, **{name: value for name, value in found.items() if value}}


class LakeFileIO(PyArrowFileIO):
    """pyiceberg's access to files, which reaches S3 as the store does: pyiceberg knows no CA, and waits for ever."""

    @override
    def _initialize_s3_fs(self, netloc: str | None) -> fs.FileSystem:
        given = self.properties.get
        return S3Environment(given(S3_ENDPOINT), given(S3_REGION), given(_CA_FILE)).connect()


def _bounding(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> Iterator[TableUpdate]:
    """Updates that keep the metadata as small as it was, however many commits follow."""
    properties = {name: value for name, value in _PROPERTIES.items() if metadata.properties.get(name) != value}
    if properties:
        yield SetPropertiesUpdate(updates=properties)
    new = [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]
    gone = {number for update in updates if isinstance(update, RemoveSnapshotsUpdate) for number in update.snapshot_ids}
    left = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in gone]
    if old := superfluous([*left, *new]):
        yield RemoveSnapshotsUpdate(snapshot_ids=old)


def _named(metadata: TableMetadata, location: str) -> set[str]:
    """The metadata files that this one names, and itself; manifests are named by the lists of the snapshots."""
    lists = (snapshot.manifest_list for snapshot in metadata.snapshots)
    return {location, *(entry.metadata_file for entry in metadata.metadata_log), *lists}


def _start_again(place: LakePlace) -> str:
    option = dataset_option(place.dataset)
    others = f" AND table_name = '{place.dataset.table}'" if option else ""
    return (
        f"Put it back from a copy of {place.address}. Without one, start the lake again: in the database, DELETE "
        f"FROM public.iceberg_tables WHERE catalog_name = '{CATALOG}'{others}; then set ERA5_LAKE to an empty folder "
        f"or prefix, and run era5 load{option} for the months of era5 status{option}."
    )


@contextmanager
def lake_errors(place: LakePlace) -> Iterator[None]:
    """Translate errors of the lake's files."""
    address = place.address
    try:
        if is_s3(address):
            with s3_errors(f"the lake {address}"), _bad_files(place):
                yield
        else:
            with _bad_files(place):
                yield
    except (StoreError, TransientError) as error:
        # The store of files has the same errors, and another name.
        message = error.message.replace(f"the store {address}", f"the lake {address}")
        raise type(error)(message, remedy=error.remedy.replace("ERA5_STORE", "ERA5_LAKE")) from error
    except OSError as error:
        remedy = disk_remedy(error, "set ERA5_LAKE to another folder", name="ERA5_LAKE")
        message = f"the lake {address}: {error.strerror or error}"
        raise StoreError(message, remedy=remedy or "Check ERA5_LAKE, and that this user may write there.") from error


@contextmanager
def _bad_files(place: LakePlace) -> Iterator[None]:
    """Say how to go on without a file of the lake, which is lost or cannot be parsed."""
    address = place.address
    try:
        yield
    except FileNotFoundError as error:
        folder = f"{address.removeprefix('s3://').rstrip('/')}/{place.dataset.table}/"
        if folder not in str(error):
            raise
        remedy = _start_again(place)
        if f"{folder}data/" in str(error):
            option = dataset_option(place.dataset)
            remedy = f"era5 lake verify{option} names the months that lack files, and how to repair them."
        raise StoreError(f"a file of the lake {address} is lost: {error}", remedy=remedy) from error
    except Exception as error:
        location = None if isinstance(error, OSError | MemoryError) else _parsed_manifest(error)
        if location is None:
            raise
        raise StoreError(f"the lake's file {location} is damaged", remedy=_start_again(place)) from error


def _parsed_manifest(error: Exception) -> str | None:
    """Return the path of the manifest, or list of manifests, whose parsing raised this error; None for other errors.

    pyiceberg does not translate its parser's errors, such as EOFError or UnicodeDecodeError: the parser is looked for
    in the traceback.
    """
    for frame, _ in walk_tb(error.__traceback__):
        parser = frame.f_locals.get("self")
        if isinstance(parser, AvroFile):
            return parser.input_file.location
    return None


@dataclass(frozen=True)
class FoundMetadata:
    """A metadata file at the lake's place: the table it is of, when it was written, and whether it has data."""

    key: str
    table_uuid: str
    updated: datetime
    has_data: bool


def read_metadata(store: ObjectStore, key: str) -> FoundMetadata | None:
    """Describe a metadata file; None if it was not written to its end."""
    try:
        found = json.loads(store.read(key) or b"")
        updated = datetime.fromtimestamp(found["last-updated-ms"] / 1000, UTC)
        return FoundMetadata(key, found["table-uuid"], updated, bool(found.get("snapshots")))
    except (ValueError, KeyError, TypeError):
        return None


def _require_no_other_table(place: LakePlace) -> None:
    """Refuse a place where a table with data lies, which no row of this database's catalog points to."""
    store = open_store(f"{place.location}/metadata")
    for found in sorted(store.objects(), key=lambda found: found.key, reverse=True):
        metadata = read_metadata(store, found.key) if found.key.endswith(METADATA) else None
        if metadata is not None and metadata.has_data:
            raise UsageError(
                f"{place.location} has a table that is not of this database: metadata/{found.key}",
                remedy="Set ERA5_LAKE to a folder or prefix without one, or ERA5_DATABASE_URL to the database of that "
                "lake. If that database is gone for good, remove what is there first.",
            )


class WarehouseCatalog(NoopCatalog, MetastoreCatalog):
    """The catalog on a connection to the warehouse, of the one table; its caller commits the transaction."""

    def __init__(self, connection: psycopg.Connection[Any], place: LakePlace) -> None:
        super().__init__(CATALOG, **place.properties)
        self._connection = connection
        self._place = place

    def location_of_metadata(self, *, locked: bool = False) -> str | None:
        """The newest metadata file; None without a table. `locked`: no other session replaces it until the end."""
        location = metadata_file(self._connection, locked=locked)
        if location is not None and location.rpartition("/metadata/")[0] != self._place.location:
            address = address_of(location, self._place.dataset)
            raise UsageError(
                f"the lake of this database is at {address}, and ERA5_LAKE is {self._place.address}",
                remedy=f"Set ERA5_LAKE={address}, by this very path; or set ERA5_DATABASE_URL to the database of the "
                "lake that you mean.",
            )
        return location

    def ensure_table(self) -> None:
        """Create the table, without variables, unless it exists."""
        if self.location_of_metadata() is None:
            with lake_errors(self._place):
                _require_no_other_table(self._place)
            self._create()

    def open_table(self, columns: Iterable[str]) -> Table:
        """Lock and open the table, creating it if need be, with at least these variables.

        The catalog's tables must exist (`prepare`). Other loads wait here until the transaction ends.
        """
        if self.location_of_metadata(locked=True) is None:
            self.ensure_table()
            self.location_of_metadata(locked=True)
        with lake_errors(self._place):
            table = self.load_table(self._place.identifier)
            held = {field.name for field in table.schema().fields}
            wanted = {*held, *columns} - set(KEYS)
            if not wanted <= held:
                newest = max(schema.schema_id for schema in table.metadata.schemas)
                schema = schema_of_table(wanted, newest + 1, self._place.dataset)
                with table.transaction() as change:
                    change._apply((AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)))
        return table

    def _create(self) -> None:
        metadata = new_metadata(self._place.location, self._place.dataset)
        path = load_location_provider(metadata.location, metadata.properties).new_table_metadata_file_location()
        with lake_errors(self._place):
            self._write_metadata(metadata, load_file_io(self.properties, path), path)
        ensure_namespace(self._connection)
        self._connection.execute(
            "INSERT INTO public.iceberg_tables VALUES (%s, %s, %s, %s, NULL, 'TABLE') ON CONFLICT DO NOTHING",
            (CATALOG, *self._place.identifier, path),
        )

    @override
    def load_table(self, identifier: str | Identifier) -> Table:
        """Open the table as the connection sees it."""
        location = self.location_of_metadata()
        if location is None or Catalog.identifier_to_tuple(identifier) != self._place.identifier:
            raise NoSuchTableError(f"there is no table {identifier}")
        io = load_file_io(self.properties, location)
        try:
            metadata = FromInputFile.table_metadata(io.new_input(location))
        except (ValueError, ValidationError) as error:
            raise StoreError(
                f"the lake's metadata file {location} is damaged", remedy=_start_again(self._place)
            ) from error
        return Table(self._place.identifier, metadata, location, io, self)

    @override
    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Write new metadata, and point to it within the caller's transaction."""
        current = self.load_table(table.name())
        updates = (*updates, *_bounding(current.metadata, updates))
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        if staged.metadata == current.metadata:
            return CommitTableResponse(metadata=current.metadata, metadata_location=current.metadata_location)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        replaced = self._connection.execute(
            "UPDATE public.iceberg_tables SET metadata_location = %s, previous_metadata_location = metadata_location "
            "WHERE (catalog_name, table_namespace, table_name, metadata_location) = (%s, %s, %s, %s)",
            (staged.metadata_location, CATALOG, *self._place.identifier, current.metadata_location),
        )
        if replaced.rowcount != 1:
            raise CommitFailedException("the table was changed meanwhile")
        unused = _named(current.metadata, current.metadata_location) - _named(staged.metadata, staged.metadata_location)
        if unused:
            note_unused(self._connection, (path.rpartition("/")[2] for path in unused))
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)
