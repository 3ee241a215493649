"""A flat month as a lake's files: one for each band, in row groups of whole locations that name few others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.flat import bands
from era5_pipeline.flat.bands import BAND_LOCATIONS, BandSink
from era5_pipeline.flat.formats import field_id, schema_of
from era5_pipeline_tests.era5_files import left_behind

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = schema_of(["temperature_2m"])


def table_of(ids: list[int], hours: int, first: int = 0) -> pa.Table:
    """Rows of these locations in order, with values that count up."""
    rows = len(ids) * hours
    location_ids = np.repeat(np.array(ids, dtype=np.int32), hours)
    return pa.table(
        [
            pa.array(np.tile(np.arange(hours) * 3_600_000_000, len(ids))).view(pa.timestamp("us", tz="UTC")),
            pa.array(location_ids),
            pa.array(np.zeros(rows, dtype=np.float32)),
            pa.array(np.zeros(rows, dtype=np.float32)),
            pa.array(np.arange(first, first + rows, dtype=np.float32)),
        ],
        schema=SCHEMA,
    )


def write(folder: Path, tables: list[pa.Table]) -> tuple[Path, ...]:
    with BandSink(lambda band: folder / f"{band}.parquet", SCHEMA) as sink:
        for table in tables:
            sink.write(table)
    return sink.paths


def groups_in(path: Path) -> list[pa.Table]:
    with pq.ParquetFile(path) as file:
        return [file.read_row_group(number) for number in range(file.num_row_groups)]


# Runs of neighbours, as the rows of a tile are: where each begins, and how many locations it has.
runs = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 60)), min_size=1, max_size=12)


@given(runs=runs, hours=st.integers(1, 5), cuts=st.integers(1, 4))
@settings(max_examples=60)
def test_groups_hold_whole_locations_of_one_band(
    runs: list[tuple[int, int]], hours: int, cuts: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids: list[int] = []
    for gap, length in runs:
        start = (ids[-1] if ids else 0) + gap
        ids += range(start, start + length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "BAND_LOCATIONS", 500)
        patch.setattr(bands, "GROUP_ROWS", 40)
        patch.setattr(bands, "_LEAST_ROWS", 20)
        step = -(-len(ids) // cuts)
        parts = [ids[start : start + step] for start in range(0, len(ids), step)]
        tables = [table_of(part, hours, first=ids.index(part[0]) * hours) for part in parts]
        paths = write(tmp_path_factory.mktemp("bands"), tables)
    whole = table_of(ids, hours)
    assert pa.concat_tables([pq.read_table(path) for path in paths]).equals(whole)
    for path in paths:
        assert len({location // 500 for location in pq.read_table(path).column("location_id").to_pylist()}) == 1
        groups = groups_in(path)
        places = [set(group.column("location_id").to_pylist()) for group in groups]
        assert all(group.num_rows <= max(40, hours) for group in groups)
        assert all(one.isdisjoint(other) for one, other in pairwise(places))
        # Together, two neighbours would be too large, or they are in different writes or bands.
        assert all(group.num_rows == len(place) * hours for group, place in zip(groups, places, strict=True))


def test_files_have_statistics_and_numbers_for_engines(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [table_of([1, 2, 3], 24)])
    metadata = pq.read_metadata(path)
    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    assert [column.path_in_schema for column in columns if column.statistics] == ["time", "location_id"]
    assert (columns[1].statistics.min, columns[1].statistics.max) == (1, 3)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in pq.read_schema(path)]
    assert ids == [1, 2, 3, 4, 1167] == [field_id(name) for name in SCHEMA.names]


def test_nothing_appears_if_writing_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with BandSink(lambda band: tmp_path / f"{band}.parquet", SCHEMA) as sink:
            sink.write(table_of([1, BAND_LOCATIONS], 24))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert left_behind(tmp_path) == []
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_month_without_rows_is_one_empty_file(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [])
    assert pq.read_metadata(path).num_rows == 0
