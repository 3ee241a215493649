"""The lake's Iceberg table: its form, and its catalog in the warehouse's database.

Iceberg keeps what a table holds in files that are never changed; a catalog points to the newest. Here the pointer is a
row in the warehouse, replaced on the connection that loads a month, and so in the transaction of the ledger: warehouse
and lake change together or not at all. The row has the form of pyiceberg's SqlCatalog, so other programs open the table
with that, or with Iceberg's JdbcCatalog; pyiceberg's own class would commit in a session of its own.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate
from pyiceberg.transforms import MonthTransform, TruncateTransform
from pyiceberg.types import FloatType, IntegerType, NestedField, TimestamptzType
from typing_extensions import override

from era5_pipeline.flat.bands import BAND_LOCATIONS
from era5_pipeline.flat.formats import KEYS, field_id
from era5_pipeline.model.errors import StoreError, TransientError, disk_remedy
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.runtime.stores import S3Environment, is_s3, s3_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

CATALOG, NAMESPACE, TABLE = "era5", "era5", "weather"
IDENTIFIER = (NAMESPACE, TABLE)
_KEY_DOCS = {
    "time": "Hour in UTC: of instantaneous values the time, of accumulations the end",
    "location_id": "Number of the grid point: 1 to 1,038,240, from south-west to north-east",
    "latitude": "Degrees north",
    "longitude": "Degrees east, -179.75 to 180",
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
    # A manifest for each commit would make plans of a thousand months read a thousand files.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "50",
    # The row of the catalog is locked during a commit, so none has to be tried again.
    "commit.retry.num-retries": "0",
}


def schema_of_table(columns: Iterable[str], schema_id: int = 0) -> Schema:
    """The schema of the table with these variables: names, units in the comments, and numbers that never change."""
    keys = (
        NestedField(field_id(name), name, _KEY_TYPES.get(name, FloatType()), required=True, doc=_KEY_DOCS[name])
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


def new_metadata(location: str, columns: Iterable[str]) -> TableMetadata:
    """The metadata of an empty table at this location."""
    schema = schema_of_table(columns)
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
    """Where the lake is: a folder or `s3://bucket/prefix`; the table is below it."""

    address: str

    @property
    def location(self) -> str:
        """The table's location, as its metadata has it."""
        return f"{self.address.rstrip('/')}/{TABLE}"

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg needs to open files there; keys come from AWS's usual places, and are never in here."""
        if not is_s3(self.address):
            return {}
        environment = S3Environment.read()
        region = environment.region or ("us-east-1" if environment.endpoint else None)
        found = {"s3.endpoint": environment.endpoint, "s3.region": region}
        return {name: value for name, value in found.items() if value}


@contextmanager
def lake_errors(address: str) -> Iterator[None]:
    """Translate errors of the lake's files.

    Raises:
        StoreError, TransientError: in place of an `OSError`.
    """
    try:
        if is_s3(address):
            with s3_errors(f"the lake {address}"):
                yield
        else:
            yield
    except (StoreError, TransientError) as error:
        # The store of files has the same errors, and another name.
        message = error.message.replace(f"the store {address}", f"the lake {address}")
        raise type(error)(message, remedy=error.remedy.replace("ERA5_STORE", "ERA5_LAKE")) from error
    except OSError as error:
        remedy = disk_remedy(error, "set ERA5_LAKE to another folder", name="ERA5_LAKE")
        message = f"the lake {address}: {error.strerror or error}"
        raise StoreError(message, remedy=remedy or "Check ERA5_LAKE, and that this user may write there.") from error


class WarehouseCatalog(NoopCatalog, MetastoreCatalog):
    """The catalog on a connection to the warehouse, of the one table; its caller commits the transaction."""

    def __init__(self, connection: psycopg.Connection[Any], place: LakePlace) -> None:
        super().__init__(CATALOG, **place.properties)
        self._connection = connection
        self._place = place

    def location_of_metadata(self, *, locked: bool = False) -> str | None:
        """The newest metadata file; None without a table. `locked`: nobody else replaces it until the transaction ends.

        Raises:
            psycopg.Error: any error of the server.
        """
        if not _is_prepared(self._connection):
            return None
        statement = (
            "SELECT metadata_location FROM public.iceberg_tables "
            "WHERE (catalog_name, table_namespace, table_name) = (%s, %s, %s)"
        )
        if locked:
            statement += " FOR UPDATE"
        row = self._connection.execute(statement, (CATALOG, *IDENTIFIER)).fetchone()
        return None if row is None else row[0]

    def open_table(self, columns: Iterable[str]) -> Table:
        """Lock the table and open it, creating it if there is none, with at least these variables.

        The catalog's tables must exist (`prepare`). Other loads wait here until the transaction ends.

        Raises:
            StoreError, TransientError: if a file cannot be read or written.
            psycopg.Error: any error of the server.
        """
        if self.location_of_metadata(locked=True) is None:
            self._create(columns)
        with lake_errors(self._place.address):
            table = self.load_table(IDENTIFIER)
            held = {field.name for field in table.schema().fields}
            wanted = {*held, *columns} - set(KEYS)
            if not wanted <= held:
                newest = max(schema.schema_id for schema in table.metadata.schemas)
                schema = schema_of_table(wanted, newest + 1)
                with table.transaction() as change:
                    change._apply((AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)))
        return table

    def _create(self, columns: Iterable[str]) -> None:
        metadata = new_metadata(self._place.location, columns)
        path = load_location_provider(metadata.location, metadata.properties).new_table_metadata_file_location()
        with lake_errors(self._place.address):
            self._write_metadata(metadata, load_file_io(self.properties, path), path)
        self._connection.execute(
            "INSERT INTO public.iceberg_tables VALUES (%s, %s, %s, %s, NULL, 'TABLE') ON CONFLICT DO NOTHING",
            (CATALOG, *IDENTIFIER, path),
        )
        self.location_of_metadata(locked=True)

    @override
    def load_table(self, identifier: str | Identifier) -> Table:
        """Open the table as the connection sees it.

        Raises:
            NoSuchTableError: if there is none.
        """
        location = self.location_of_metadata()
        if location is None or Catalog.identifier_to_tuple(identifier) != IDENTIFIER:
            raise NoSuchTableError(f"there is no table {identifier}")
        io = load_file_io(self.properties, location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(IDENTIFIER, metadata, location, io, self)

    @override
    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Write new metadata, and point to it within the caller's transaction."""
        current = self.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        if staged.metadata == current.metadata:
            return CommitTableResponse(metadata=current.metadata, metadata_location=current.metadata_location)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        replaced = self._connection.execute(
            "UPDATE public.iceberg_tables SET metadata_location = %s, previous_metadata_location = metadata_location "
            "WHERE (catalog_name, table_namespace, table_name, metadata_location) = (%s, %s, %s, %s)",
            (staged.metadata_location, CATALOG, *IDENTIFIER, current.metadata_location),
        )
        if replaced.rowcount != 1:
            raise CommitFailedException("the table was changed meanwhile")
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Create the catalog's tables, if they do not exist."""
    if not _is_prepared(connection):
        # One at a time: two sessions that create a table at once fail, even with IF NOT EXISTS.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('era5.lake', 0))")
            connection.execute(read_sql("lake_catalog"))
            _grant_as_on_the_ledger(connection)


def _grant_as_on_the_ledger(connection: psycopg.Connection[Any]) -> None:
    """Let those who load load into the lake, and those who read see where it is."""
    granted = connection.execute(
        "SELECT pg_get_userbyid(acl.grantee), array_agg(acl.privilege_type) "
        "FROM pg_class c, aclexplode(c.relacl) acl WHERE c.oid = to_regclass('era5.ledger') AND acl.grantee <> 0 "
        "AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') GROUP BY 1"
    ).fetchall()
    for role, privileges in granted:
        connection.execute(
            sql.SQL("GRANT {} ON public.iceberg_tables, public.iceberg_namespace_properties TO {}").format(
                sql.SQL(", ").join(map(sql.SQL, privileges)), sql.Identifier(role)
            )
        )


def _is_prepared(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute("SELECT to_regclass('public.iceberg_tables')").fetchone() != (None,)
