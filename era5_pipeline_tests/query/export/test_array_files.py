"""`query.export.array_files`: netCDF by the CF conventions, as tools read it, and Zarr that is opened lazily."""

from __future__ import annotations

import shutil
import subprocess
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import dask.array
import netCDF4
import numpy as np
import pytest
import xarray as xr

from era5_pipeline.model.grid import Area
from era5_pipeline.query.api.cf_attributes import CONVENTIONS, cf_attributes
from era5_pipeline.query.export.run_export import export
from era5_pipeline_tests.commands import BIN
from era5_pipeline_tests.query.api.conftest import GULF
from era5_pipeline_tests.query.export.test_run_export import DOHA, GULF_BOX, export_to, place_at

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.query.api.conftest import NetcdfFile


def run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed (Debian: netcdf-bin, cdo)")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("asked", [GULF_BOX, place_at(*DOHA), None], ids=["box", "place", "all"])
def test_netcdf_conforms_to_cf(real: Warehouse, tmp_path: Path, asked: Any) -> None:
    """Also with missing months, of several variables, instant and accumulated."""
    path = tmp_path / "out.nc"
    export_to(real, path, asked, "2023-06-29", "2023-09-02") if asked else export_to(
        real, path, Area(70.0, 4.0, 24.0, 55.0), "2018-10-31T22", "2018-11-01T01", columns="t2m,tp"
    )
    version = CONVENTIONS.removeprefix("CF-")
    for test in (f"cf:{version}", "cf:1.8"):
        done = subprocess.run(
            [BIN / "compliance-checker", f"--test={test}", "--format=text", path],
            capture_output=True,
            text=True,
            check=False,
        )
        findings = [line for line in done.stdout.splitlines() if line.startswith(("* ", "§"))]
        named = ["§2.6 Attributes", '* §2.6.1 Conventions global attribute does not contain "CF-1.8"']
        assert findings == ([] if test == f"cf:{version}" else named), done.stdout


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


def test_every_hour_says_whether_it_is_final(real: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, place_at(*DOHA), "2023-07")
    with zipfile.ZipFile(GULF) as archive:
        (name,) = archive.namelist()
        loaded = archive.extract(name, tmp_path)
    with xr.open_dataset(loaded) as file, xr.open_dataset(path) as dataset:
        wanted = file["expver"].sel(valid_time="2023-07").values
        assert dataset["expver"].values.tolist() == wanted.tolist() == ["0001"] * 744


def test_ncdump_reads_it_as_the_file_that_was_loaded(real: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, place_at(*DOHA), "2023-07-01T00", "2023-07-01T03")
    text = run("ncdump", "-t", "-v", "time,expver", str(path))
    assert 'time = "2023-07-01", "2023-07-01 01", "2023-07-01 02", "2023-07-01 03" ;' in text
    assert 'expver = "0001", "0001", "0001", "0001" ;' in text
    assert 'temperature_2m:standard_name = "air_temperature" ;' in text


def numbers_of_cdo(*command: str) -> list[float]:
    return [float(word) for word in run("cdo", "-s", "output", *command).split()]


def test_cdo_computes_what_it_does_of_the_file_that_was_loaded(
    real: Warehouse, gulf: NetcdfFile, tmp_path: Path
) -> None:
    path = tmp_path / "out.nc"
    export_to(real, path, GULF_BOX, "2023-07")
    with zipfile.ZipFile(GULF) as archive:
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
    from era5_pipeline.warehouse.load_month import load_month

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
    assert values.attrs["units"] == cf_attributes(flat_variable())["units"]
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


def flat_variable() -> Any:
    from era5_pipeline.model.variables import BY_COLUMN

    return BY_COLUMN["temperature_2m"]
