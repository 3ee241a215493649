"""`query.export.table_files`: every float32 reads back as the same, from CSV and Parquet; units are in the metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from era5_pipeline.model.variables import find_variables
from era5_pipeline.query.api.boxes.grid_window import GridWindow
from era5_pipeline.query.export.export_contents import ExportContents
from era5_pipeline.query.export.export_pieces import ExportPiece
from era5_pipeline.query.export.table_files import CsvExport, ParquetExport

if TYPE_CHECKING:
    from pathlib import Path

START = 464_592  # 2023-01-01
# Finite, or missing.
FLOATS = st.floats(width=32, allow_infinity=False)
# (latitudes, longitudes, hours) of two columns
BOXES = hnp.arrays(np.float32, (2, 2, 3, 4), elements=FLOATS)


def contents(hours: int = 4) -> ExportContents:
    return ExportContents(
        place=None,
        window=GridWindow(400, 1439, 2, 3),
        variables=find_variables("t2m,tp"),
        hours=range(START, START + hours),
        held=None,
        missing_months={},
        incomplete_months=(),
        lines=("no data for 2023-02",),
        parts=(),
        credit="by nobody",
        state=None,
    )


@pytest.mark.parametrize("kind", [CsvExport, ParquetExport])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(box=BOXES)
def test_every_value_reads_back(tmp_path: Path, kind: Any, box: Any) -> None:
    path = tmp_path / ("out.csv" if kind is CsvExport else "out.parquet")
    piece = ExportPiece(range(START, START + 4), range(2), range(3))
    with kind(path, contents()) as sink:
        rows = sink.write(piece, {"temperature_2m": box[0], "total_precipitation": box[1]})
        sink.finish({})
    names = ["temperature_2m", "total_precipitation"]
    found: Any = (
        pd.read_csv(path, parse_dates=["time"], dtype=dict.fromkeys(names, "float32"))
        if kind is CsvExport
        else pd.read_parquet(path)
    )
    has_value = np.isfinite(box).any(axis=0)
    assert rows == len(found) == np.count_nonzero(has_value)
    for name, values in zip(names, box, strict=True):
        np.testing.assert_array_equal(found[name].to_numpy(), values[has_value])
    latitudes, longitudes, hours = np.nonzero(has_value)
    assert found["latitude"].tolist() == (10.0 - latitudes * 0.25).tolist()
    assert found["longitude"].tolist() == np.array([180.0, -179.75, -179.5])[longitudes].tolist()
    assert (found["time"].astype("int64") == 0).all() if not rows else True
    stamps = pd.to_datetime((START + hours) * 3600, unit="s", utc=True)
    assert found["time"].tolist() == stamps.tolist()


def test_parquet_says_units_names_and_origin(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    values = np.ones((2, 3, 4), dtype=np.float32)
    with ParquetExport(path, contents()) as sink:
        sink.write(ExportPiece(range(START, START + 4), range(2), range(3)), dict.fromkeys(contents().columns, values))
        sink.finish({"missing": "no data for 2023-02; and one hour"})
    schema = pq.read_schema(path)
    of_file = {key.decode(): text.decode() for key, text in schema.metadata.items()}
    assert of_file["Conventions"] == "CF-1.10"
    assert of_file["credit"] == "by nobody"
    assert of_file["missing"] == "no data for 2023-02"
    assert json.loads(of_file["units"]) == {"temperature_2m": "degC", "total_precipitation": "mm"}
    assert json.loads(of_file["long_names"])["total_precipitation"] == "Total precipitation"
    of_column = schema.field("total_precipitation").metadata
    assert of_column[b"units"] == b"mm"
    assert of_column[b"cell_methods"] == b"time: sum"
    assert [str(schema.field(name).type) for name in ("time", "location_id", "latitude", "temperature_2m")] == [
        *("timestamp[us, tz=UTC]", "int32", "float", "float")
    ]
    assert pq.read_metadata(path).num_row_groups == 1
