from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from era5_pipeline.flat.formats import KEYS, open_sink, schema_of
from era5_pipeline.model.errors import LocalDiskError, disk_errors
from era5_pipeline_tests.era5_files import COLUMNS as VALUE_COLUMNS
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.settings import FlatFormat

SCHEMA = schema_of(VALUE_COLUMNS)
COLUMNS = (*KEYS, *VALUE_COLUMNS)


def table(rows: int, start: int = 0) -> pa.Table:
    times = np.arange(start, start + rows).astype("datetime64[h]").astype("datetime64[us]")
    numbers = np.arange(start, start + rows)
    arrays = [
        pa.array(times, type=SCHEMA.field("time").type),
        pa.array(numbers.astype(np.int32)),
        *(pa.array((numbers / 4).astype(np.float32)) for _ in range(2)),
        *(pa.array((numbers * 0.1 - 3).astype(np.float32), mask=numbers % 3 == 1) for _ in VALUE_COLUMNS),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def test_the_schema_has_the_columns_that_the_month_has_in_the_order_of_the_catalogue() -> None:
    assert schema_of(["dewpoint_2m", "snowfall"]).names == [*KEYS, "snowfall", "dewpoint_2m"]
    assert [SCHEMA.field(name).nullable for name in COLUMNS] == [False] * 4 + [True] * 6


def test_parquet_has_the_rows_in_the_groups_they_came_in(tmp_path: Path) -> None:
    with open_sink(tmp_path / "x.parquet", "parquet", SCHEMA) as sink:
        sink.write(table(1000))
        sink.write(table(500, 1000))
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [1000, 500]
    assert file.schema_arrow.equals(SCHEMA, check_metadata=False)
    assert file.schema_arrow.field("snowfall").metadata[b"unit"] == b"mm"
    assert file.read().equals(table(1500))


def test_csv_is_what_postgres_and_spreadsheets_read(tmp_path: Path) -> None:
    with open_sink(tmp_path / "x.csv", "csv", SCHEMA) as sink:
        sink.write(table(2))
        sink.write(table(1, 2))
    assert (tmp_path / "x.csv").read_text().splitlines() == [
        ",".join(f'"{name}"' for name in COLUMNS),
        "1970-01-01 00:00:00Z,0,0,0,-3,-3,-3,-3,-3,-3",
        "1970-01-01 01:00:00Z,1,0.25,0.25,,,,,,",
        "1970-01-01 02:00:00Z,2,0.5,0.5,-2.8,-2.8,-2.8,-2.8,-2.8,-2.8",
    ]


def test_numbers_and_times_read_back_from_csv_are_the_same(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    values = np.concatenate(
        [
            random.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32),
            np.array([0.1, 1e-9, 1e20, -0.0, 16777216, 3.4e38, 1e-45], dtype=np.float32),
        ]
    )
    values = values[np.isfinite(values)]
    whole = table(values.size).set_column(4, SCHEMA.field(4), pa.array(values))
    with open_sink(tmp_path / "x.csv", "csv", SCHEMA) as sink:
        sink.write(whole)
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_array_equal(np.array([row["temperature_2m"] for row in rows], dtype=np.float32), values)
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    assert times == whole.column("time").to_pylist()
    assert times[0] == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("flat_format", ["parquet", "csv"])
def test_a_full_disk_is_an_error_even_when_the_file_is_closed(flat_format: FlatFormat) -> None:
    def fill(disk: Path) -> None:
        with disk_errors("writing", disk), open_sink(disk / "x", flat_format, SCHEMA) as sink:
            for start in range(0, 100_000, 10_000):
                sink.write(table(10_000, start))

    with full_disk(256 << 10) as disk:
        with pytest.raises(LocalDiskError, match="No space left") as raised:
            fill(disk)
        (disk / "x").unlink()
        # It is closed even while the error is handled: its disk space is free again.
        (disk / "y").write_bytes(bytes(200 << 10))
        assert str(disk) in raised.value.message
