"""A REST catalog that follows the warehouse's, for programs that open Iceberg's tables by such catalogs alone.

Another server cannot be part of the transaction that loads a month. So the warehouse's catalog says what the lake is;
after each load, the REST catalog is given the snapshots that it lacks, by one commit, and loses those that expired. A
load that ends in between leaves it behind: the next one, or `era5 lake publish`, brings it up to date.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
)
from requests import RequestException
from requests.adapters import HTTPAdapter
from typing_extensions import override

from era5_pipeline.lake.pointer import CATALOG, pointer_of
from era5_pipeline.model.dataset import ERA5, dataset_option
from era5_pipeline.model.errors import Era5Error, StoreError, TransientError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from requests import PreparedRequest, Response, Session

    from era5_pipeline.model.dataset import Dataset

_SECONDS = 30.0
# The catalog may be changed by its own upkeep meanwhile.
_ATTEMPTS = 5
# In the summary of each snapshot of ours.
_OURS = "era5.month"


@dataclass(frozen=True)
class Published:
    """Result of an update of a REST catalog: numbers of snapshots that it has now, was given, and has lost."""

    snapshots: int
    added: int
    removed: int


@dataclass(frozen=True)
class RestFollower:
    """The REST catalog at an address; the part after `?` are properties that it wants, such as `warehouse=name`.

    The token, if it wants one, is read from a file each time, and is in no message.
    """

    address: str
    token_file: Path | None = None
    properties: dict[str, str] = field(default_factory=dict)
    dataset: Dataset = ERA5

    @property
    def shown(self) -> str:
        """The address for messages, without user and password."""
        parts = urlsplit(self.address)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def _identifier(self) -> tuple[str, str]:
        return pointer_of(self.dataset)[1:]

    def publish(self, table: Table) -> Published:
        """Give the catalog the table's snapshots and schemas that it lacks, and take away those that expired."""
        with self._errors():
            catalog, registered = self._open(), 0
            for _ in range(_ATTEMPTS):
                held = self._held(catalog)
                if held is None:
                    with suppress(NamespaceAlreadyExistsError):
                        catalog.create_namespace(self.dataset.schema)
                    with suppress(TableAlreadyExistsError):
                        # Creating it there would renumber its columns.
                        catalog.register_table(self._identifier, table.metadata_location)
                    held = catalog.load_table(self._identifier)
                    registered = len(held.metadata.snapshots)
                requirements, updates, published = self._changes(held, table)
                published = replace(published, added=published.added + registered)
                if not updates:
                    return published
                try:
                    catalog.commit_table(held, requirements, updates)
                except CommitFailedException:
                    continue
                return published
        raise TransientError(
            f"the catalog {self.shown} was changed {_ATTEMPTS} times while the lake's snapshots were sent to it",
            remedy=f"Run era5 lake publish{dataset_option(self.dataset)} again.",
        )

    def own_files(self) -> set[str]:
        """The metadata files that the catalog itself has written beside the table's."""
        with self._errors():
            held = self._held(self._open())
        if held is None:
            return set()
        return {held.metadata_location, *(entry.metadata_file for entry in held.metadata.metadata_log)}

    def _open(self) -> _Catalog:
        parts = urlsplit(self.address)
        properties = {**self.properties, **dict(parse_qsl(parts.query))}
        if self.token_file is not None:
            try:
                properties["token"] = self.token_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise UsageError(
                    f"{self.token_file} cannot be read ({error.strerror})",
                    remedy="Correct ERA5_LAKE_CATALOG_TOKEN_FILE, or unset it if the catalog wants no token.",
                ) from error
        return _Catalog(CATALOG, uri=urlunsplit((*parts[:3], "", "")).rstrip("/"), **properties)

    def _held(self, catalog: _Catalog) -> Table | None:
        try:
            held: Table = catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        return held

    def _changes(
        self, held: Table, table: Table
    ) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...], Published]:
        if held.metadata.table_uuid != table.metadata.table_uuid:
            raise UsageError(
                f"the catalog {self.shown} has another table {'.'.join(self._identifier)}",
                remedy="Drop it there if it is of an earlier lake (without purging its files), or set "
                "ERA5_LAKE_CATALOG to another catalog.",
            )
        theirs = {snapshot.snapshot_id: snapshot for snapshot in held.metadata.snapshots}
        ours = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        for snapshot in theirs.values():
            if snapshot.snapshot_id not in ours and (snapshot.summary is None or snapshot.summary[_OURS] is None):
                raise UsageError(
                    f"another program has changed {'.'.join(self._identifier)} in the catalog {self.shown}",
                    remedy="Drop the table there (without purging its files): the next load registers it again.",
                )
        new = sorted(ours.keys() - theirs.keys(), key=lambda number: ours[number].sequence_number or 0)
        gone = sorted(theirs.keys() - ours.keys())
        schemas = {schema.schema_id for schema in held.metadata.schemas}
        updates: list[TableUpdate] = []
        for schema in sorted(table.metadata.schemas, key=lambda schema: schema.schema_id):
            if schema.schema_id not in schemas:
                updates += (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1))
        updates += (AddSnapshotUpdate(snapshot=ours[number]) for number in new)
        head, current = held.current_snapshot(), table.current_snapshot()
        if current is not None and (head is None or head.snapshot_id != current.snapshot_id):
            names = {"ref-name": "main", "type": "branch", "snapshot-id": current.snapshot_id}
            updates.append(SetSnapshotRefUpdate.model_validate(names))
        if gone:
            updates.append(RemoveSnapshotsUpdate(snapshot_ids=gone))
        requirements = (
            AssertTableUUID(uuid=held.metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=None if head is None else head.snapshot_id),
        )
        return requirements, tuple(updates), Published(len(ours), len(new), len(gone))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Era5Error:
            raise
        except (UnauthorizedError, ForbiddenError, OAuthError) as error:
            raise StoreError(
                f"the catalog {self.shown} refuses: {_first_line(error)}",
                remedy="Check ERA5_LAKE_CATALOG_TOKEN_FILE, and that the token may create and "
                f"change {self.dataset.schema}.{self.dataset.table}.",
            ) from error
        except (RESTError, RequestException, CommitFailedException) as error:
            raise TransientError(
                f"the catalog {self.shown} does not answer as it should: {_first_line(error)}",
                remedy="Check ERA5_LAKE_CATALOG, and that it runs; then run era5 lake "
                f"publish{dataset_option(self.dataset)}, or load again.",
            ) from error


def _first_line(error: Exception) -> str:
    """Describe the error on one line, without the request, whose headers have the token."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


class _Catalog(RestCatalog):
    """pyiceberg's, which would wait forever for a server that accepts connections and does not answer."""

    @override
    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Impatient())
        return session


class _Impatient(HTTPAdapter):
    @override
    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        return super().send(request, *args, **{**options, "timeout": options.get("timeout") or _SECONDS})
