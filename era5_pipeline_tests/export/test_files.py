"""Tests of `export/files`."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import dask
import dask.array
import netCDF4
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from era5_pipeline.export.contents import ExportContents
from era5_pipeline.export.files import CsvExport, ParquetExport
from era5_pipeline.export.pieces import ExportPiece
from era5_pipeline.export.run import export
from era5_pipeline.model.cf_names import CONVENTIONS
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import GridWindow
from era5_pipeline.model.variables import find_variables
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import BIN
from era5_pipeline_tests.export.test_run import DOHA, GULF_BOX, export_to, place_at
from era5_pipeline_tests.real_months import GULF

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile

START = 464_592  # 2023-01-01
# Finite, or missing.
FLOATS = st.floats(width=32, allow_infinity=False)
# (latitudes, longitudes, hours) of two columns
BOXES = hnp.arrays(np.float32, (2, 2, 3, 4), elements=FLOATS)


def contents(hours: int = 4) -> ExportContents:
    return ExportContents(
        dataset=ERA5,
        place=None,
        window=GridWindow(400, 1439, 2, 3, grid=ERA5_GRID),
        variables=find_variables("t2m,tp"),
        hours=range(START, START + hours),
        held=None,
        missing_months={},
        incomplete_months=(),
        lines=("no data for 2023-02",),
        parts=(),
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
    assert of_file["credit"] == "Source unknown"
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


def run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed (Debian: netcdf-bin, cdo)")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


needs_checker = pytest.mark.skipif(
    not (BIN / "compliance-checker").exists(), reason="the CF checker needs cf-units, which has no wheel here"
)


@needs_checker
@pytest.mark.parametrize("asked", [GULF_BOX, place_at(*DOHA), None], ids=["box", "place", "all"])
def test_netcdf_conforms_to_cf(real: Warehouse, tmp_path: Path, asked: Any) -> None:
    """Also with missing months, of several variables, instant and accumulated."""
    path = tmp_path / "out.nc"
    export_to(real, path, asked, "2023-06-29", "2023-09-02") if asked else export_to(
        real, path, Area(70.0, 4.0, 24.0, 55.0), "2018-10-31T22", "2018-11-01T01", columns="t2m,tp"
    )
    version = CONVENTIONS.removeprefix("CF-")
    tests = (f"cf:{version}", "cf:1.8")
    done = subprocess.run(
        [BIN / "compliance-checker", *(f"--test={test}" for test in tests), "--format=text", path],
        capture_output=True,
        text=True,
        check=False,
    )
    # In any order.
    reports = done.stdout.split("IOOS Compliance Checker Report")[1:]
    assert len(reports) == len(tests), done.stdout
    for test in tests:
        (report,) = (report for report in reports if test in report.split())
        findings = [line for line in report.splitlines() if line.startswith(("* ", "§"))]
        named = ["§2.6 Attributes", '* §2.6.1 Conventions global attribute does not contain "CF-1.8"']
        assert findings == ([] if test == f"cf:{version}" else named), done.stdout


@needs_checker
def test_the_checker_would_find_a_fault(real: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, GULF_BOX, "2023-07-01")
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["temperature_2m"].units = "degrees of heat"
    done = subprocess.run(
        [BIN / "compliance-checker", "--test=cf:1.10", path], capture_output=True, text=True, check=False
    )
    assert "degrees of heat" in done.stdout
    assert done.returncode == 1


def test_types_and_attributes_are_those_of_the_conventions(real: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, GULF_BOX, "2023-07")
    with netCDF4.Dataset(path) as dataset:
        dataset.set_auto_mask(False)
        assert dataset.Conventions == CONVENTIONS
        assert "doi:10.24381/cds.adbb2d47" in dataset.source
        assert "loaded from files" in dataset.source
        assert "exported by era5-pipeline" in dataset.history
        assert dataset.credit.startswith("Contains modified Copernicus Climate Change Service information 2023")
        assert dataset.license.startswith("CC BY 4.0")
        assert dataset.era5_versions == "final: 2023-07"
        assert "missing" not in dataset.ncattrs()
        time, values = dataset["time"], dataset["temperature_2m"]
        assert (time.dtype, time.units) == (np.int32, "hours since 1970-01-01 00:00:00")
        assert time[0] * 3600 == np.datetime64("2023-07-01", "s").astype(int)
        assert dataset["latitude"][:].tolist() == [26.0, 25.75, 25.5, 25.25, 25.0]
        assert dataset["longitude"][:].tolist() == [50.75, 51.0, 51.25, 51.5]
        assert values.dtype == np.float32
        assert np.isnan(values._FillValue)
        assert (values.units, values.standard_name, values.cell_methods) == ("degC", "air_temperature", "time: point")
        assert values.filters()["zlib"]
        assert values.chunking() == [744, 5, 4]


def numbers_of_cdo(*command: str) -> list[float]:
    return [float(word) for word in run("cdo", "-s", "output", *command).split()]


def test_cdo_computes_what_it_does_of_the_file_that_was_loaded(
    real: Warehouse, gulf: NetcdfFile, tmp_path: Path
) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, GULF_BOX, "2023-07")
    with zipfile.ZipFile(GULF.file) as archive:
        (name,) = archive.namelist()
        loaded = archive.extract(name, tmp_path)
    box = "-sellonlatbox,50.75,51.5,25,26"
    wanted = numbers_of_cdo("-subc,273.15", "-monmean", "-fldmean", box, "-selmonth,7", loaded)
    assert numbers_of_cdo("-monmean", "-fldmean", str(path)) == pytest.approx(wanted, abs=2e-4)
    assert wanted == pytest.approx([gulf.of("2023-07")[:, 2:7, 1:5].mean()], abs=0.02)  # that is not weighted by area
    assert "lonlat" in run("cdo", "-s", "griddes", str(path))
    stamps = run("cdo", "-s", "showtimestamp", str(path)).split()
    assert (stamps[0], stamps[-1], len(stamps)) == ("2023-07-01T00:00:00", "2023-07-31T23:00:00", 744)


def test_cdo_takes_a_place_as_a_grid_of_one_point(real: Warehouse, gulf: NetcdfFile, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, place_at(*DOHA), "2023-07")
    days = numbers_of_cdo("-daymean", str(path))
    np.testing.assert_allclose(days, gulf.at(*DOHA, "2023-07").reshape(31, 24).mean(axis=1), rtol=0, atol=2e-3)
    assert "gridtype  = lonlat" in run("cdo", "-s", "griddes", str(path))


def test_exports_of_two_months_are_joined_by_cdo(real: Warehouse, tmp_path: Path) -> None:
    for month in ("2023-06", "2023-07"):
        export_to(real, tmp_path / f"{month}.nc", GULF_BOX, month)
    run("cdo", "-s", "mergetime", str(tmp_path / "2023-06.nc"), str(tmp_path / "2023-07.nc"), str(tmp_path / "both.nc"))
    export_to(real, tmp_path / "whole.nc", GULF_BOX, "2023-06", "2023-07")
    with xr.open_dataset(tmp_path / "both.nc") as both, xr.open_dataset(tmp_path / "whole.nc") as whole:
        assert np.array_equal(both["temperature_2m"], whole["temperature_2m"])


def test_zarr_is_consolidated_and_read_lazily(warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path) -> None:
    """Across the equator and the prime meridian: 0 is a coordinate like any other."""
    flat = flat_months(points=(6, 8), north=0.5, west=-1.0, names=("t2m", "tp"))
    load_month(warehouse, flat)
    path = tmp_path / "out.zarr"
    export(warehouse, path, "zarr", None, piece_bytes=60_000)
    assert (path / ".zmetadata").is_file()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xr.open_zarr(path)
    values = dataset["temperature_2m"]
    assert isinstance(values.data, dask.array.Array)
    assert values.data.numblocks > (1, 1, 1)
    assert dataset["latitude"].values.tolist() == [0.5, 0.25, 0.0, -0.25, -0.5, -0.75]
    assert dataset["longitude"].values.tolist() == [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75]
    assert values.attrs["units"] == "degC"
    export(warehouse, tmp_path / "out.nc", "netcdf", None)
    with xr.open_dataset(tmp_path / "out.nc") as same:
        xr.testing.assert_identical(dataset.load().drop_attrs(deep=False), same.load().drop_attrs(deep=False))


def test_a_store_of_zarr_is_replaced_as_a_whole(real: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.zarr"
    export_to(real, path, GULF_BOX, "2023-06", "2023-07")
    before = path.stat().st_ino
    export_to(real, path, GULF_BOX, "2023-07-01")
    assert path.stat().st_ino != before
    with xr.open_zarr(path) as dataset:
        assert dataset["temperature_2m"].shape == (24, 5, 4)
        assert not np.isnan(dataset["temperature_2m"]).any()
    assert list(tmp_path.iterdir()) == [path]
