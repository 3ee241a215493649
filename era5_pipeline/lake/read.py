"""Read rows of the lake file by file, so that many processes, here or on other machines, can share the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io import load_file_io
from pyiceberg.types import IntegerType

from era5_pipeline.flat.formats import field_id
from era5_pipeline.lake.catalog import LakePlace, lake_errors
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg
    import pyarrow as pa

    from era5_pipeline.lake.months import Lake

_LOCATION = field_id("location_id")


@dataclass(frozen=True)
class LakeFile:
    """A data file of a snapshot: rows of `month`, at locations from `first_id` to `last_id`."""

    path: str
    month: Month
    first_id: int
    last_id: int
    rows: int


def list_files(lake: Lake, connection: psycopg.Connection) -> tuple[LakeFile, ...]:
    """The data files of the newest snapshot, by month; empty without a table.

    Raises:
        StoreError, TransientError: if the lake cannot be read.
    """
    table = lake.open(connection)
    if table is None:
        return ()
    with lake_errors(lake.place.address):
        files = [task.file for task in table.scan().plan_files()]
    found = []
    for file in files:
        low, high = (int(from_bytes(IntegerType(), of[_LOCATION])) for of in (file.lower_bounds, file.upper_bounds))
        month = Month.from_number(Month(1970, 1).number + file.partition[0])
        found.append(LakeFile(file.file_path, month, low, high, file.record_count))
    return tuple(sorted(found, key=lambda file: (file.month, file.first_id, file.path)))


def read_rows(
    address: str, files: Iterable[LakeFile], first_id: int, last_id: int, columns: Iterable[str]
) -> Iterator[tuple[LakeFile, pa.Table]]:
    """Read these columns of the row groups that may have locations from `first_id` to `last_id`, one at a time.

    A table has `location_id`, and those of the columns that its file has. For keys of S3 see `LakePlace.properties`:
    each process finds its own.

    Raises:
        StoreError, TransientError: if a file cannot be read.
    """
    place = LakePlace(address)
    wanted = ["location_id", *columns]
    with lake_errors(address):
        store = load_file_io(place.properties, location=place.location)
        for file in files:
            if file.last_id < first_id or file.first_id > last_id:
                continue
            with store.new_input(file.path).open() as source, pq.ParquetFile(source, pre_buffer=True) as parquet:
                names = [name for name in wanted if name in parquet.schema_arrow.names]
                at = parquet.schema_arrow.names.index("location_id")
                for number in range(parquet.num_row_groups):
                    bounds = parquet.metadata.row_group(number).column(at).statistics
                    if bounds.max >= first_id and bounds.min <= last_id:
                        yield file, parquet.read_row_group(number, columns=names, use_threads=False)
