"""Commits to the lake's table: one snapshot each, in which new files take the place of others."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import (
    _FastAppendFiles,
    _ManifestMergeManager,
    _OverwriteFiles,
    _SnapshotProducer,
)
from typing_extensions import override

from era5_pipeline.lake.snapshots import MONTH

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.parquet as pq
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from era5_pipeline.model.months import Month


@dataclass(frozen=True)
class Committed:
    """A month in the lake after its load: the newest snapshot, and number, rows and bytes of the month's files.

    `changed`: whether this load made the snapshot; otherwise the lake had the month already, all of it. `lost`:
    names of earlier files that could not be read, and are no longer part of the table.
    """

    snapshot_id: int
    files: int
    rows: int
    bytes: int
    changed: bool = True
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagedFile:
    """A data file in the lake that may not be part of the table yet."""

    path: str
    bytes: int
    metadata: pq.FileMetaData


def commit_files(
    table: Table, month: Month, replaced: list[DataFile], added: list[StagedFile], properties: dict[str, str]
) -> Committed:
    """Make one snapshot, in which the new files take the place of others."""
    with _Change(table) as change:
        make, operation = (_Replacement, Operation.OVERWRITE) if replaced else (_Addition, Operation.APPEND)
        said = {MONTH: str(month), **properties}
        with make(operation, change, table.io, snapshot_properties=said) as snapshot:
            for file in replaced:
                snapshot.delete_data_file(file)
            for staged in added:
                snapshot.append_data_file(_data_file(staged, table))
    rows, size = sum(file.metadata.num_rows for file in added), sum(file.bytes for file in added)
    return Committed(snapshot.snapshot_id, len(added), rows, size)


class _Change(Transaction):
    """pyiceberg's transaction, without the dozen copies that it makes of metadata that no update has changed yet."""

    @property
    @override
    def table_metadata(self) -> TableMetadata:
        return super().table_metadata if self._updates else self._table.metadata


class _Merging(_SnapshotProducer[Any]):
    """A snapshot that merges all small manifests into one as soon as they are many.

    pyiceberg packs manifests into bins of a size, and for hundreds of commits writes a full one again with each; its
    overwrite merges none, and keeps those of removed files.
    """

    @override
    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        needed = [
            one
            for one in manifests
            if one.has_added_files() or one.has_existing_files() or one.added_snapshot_id == self.snapshot_id
        ]
        settings = self._transaction.table_metadata.properties
        size, count = (
            int(settings[name])
            for name in (TableProperties.MANIFEST_TARGET_SIZE_BYTES, TableProperties.MANIFEST_MIN_MERGE_COUNT)
        )
        small = [one for one in needed if one.manifest_length < size]
        if len(small) < count:
            return needed
        merged = _ManifestMergeManager(size, count, True, self)._create_manifest(small[0].partition_spec_id, small)
        return [merged, *(one for one in needed if one.manifest_length >= size)]


class _Addition(_Merging, _FastAppendFiles):
    pass


class _Replacement(_Merging, _OverwriteFiles):
    @override
    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        # pyiceberg (0.12) shares one evaluator among the threads that read manifests, and it keeps the manifest that
        # it looks at in itself: one thread's manifest was judged by another's bounds, and the month's file not found.
        evaluator, lock = super()._build_manifest_evaluator(spec_id), Lock()

        def may_have_files(manifest: ManifestFile) -> bool:
            with lock:
                return evaluator(manifest)

        return may_have_files


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
