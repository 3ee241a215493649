"""Read rows of the lake file by file, so that many processes, here or on other machines, can share the work."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.conversions import from_bytes
from pyiceberg.io import load_file_io
from pyiceberg.types import IntegerType

from era5_pipeline.flat.formats import field_id
from era5_pipeline.lake.catalog import LakePlace, lake_errors
from era5_pipeline.lake.months import files_by_month

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month

_LOCATION = field_id("location_id")
# A store in a network answers after some milliseconds, and a file takes a dozen requests: those of its row groups are
# made at once, and several files are read at once.
_PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(
        pre_buffer=True, cache_options=pa.CacheOptions(lazy=False)
    )
)
_FILES_AHEAD = 4


@dataclass(frozen=True)
class LakeFile:
    """A data file of a snapshot: rows of `month`, at locations from `first_id` to `last_id`."""

    path: str
    month: Month
    first_id: int
    last_id: int
    rows: int


def list_files(lake: Lake, connection: psycopg.Connection) -> tuple[LakeFile, ...]:
    """The data files of the newest snapshot, by month; empty without a table."""
    table = lake.open(connection)
    if table is None:
        return ()
    with lake_errors(lake.place):
        planned = files_by_month(table)
    found = []
    for month, files in planned.items():
        for file in files:
            low, high = (int(from_bytes(IntegerType(), of[_LOCATION])) for of in (file.lower_bounds, file.upper_bounds))
            found.append(LakeFile(file.file_path, month, low, high, file.record_count))
    return tuple(sorted(found, key=lambda file: (file.month, file.first_id, file.path)))


def read_rows(
    place: LakePlace, files: Iterable[LakeFile], first_id: int, last_id: int, columns: Iterable[str]
) -> Iterator[tuple[LakeFile, pa.Table]]:
    """Read these columns of the row groups that may have locations from `first_id` to `last_id`, file by file.

    A table has `location_id`, and those of the columns that its file has. For keys of S3 see `LakePlace.properties`:
    each process finds its own.
    """
    wanted = ["location_id", *columns]
    may_have = (pc.field("location_id") >= first_id) & (pc.field("location_id") <= last_id)

    def read(file: LakeFile) -> tuple[LakeFile, pa.Table]:
        with store.new_input(file.path).open() as source:
            fragment = _PARQUET.make_fragment(source).subset(may_have)
            names = [name for name in wanted if name in fragment.physical_schema.names]
            return file, fragment.to_table(columns=names, use_threads=False)

    with lake_errors(place), ThreadPoolExecutor(_FILES_AHEAD) as pool:
        store = load_file_io(place.properties, location=place.location)
        ahead: deque[Future[tuple[LakeFile, pa.Table]]] = deque()
        try:
            for file in files:
                if file.last_id < first_id or file.first_id > last_id:
                    continue
                ahead.append(pool.submit(read, file))
                if len(ahead) > _FILES_AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
