"""`api.xarray_backend`: `xr.open_dataset(url, engine="era5")`, by class and by the name that a user gives."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.api.xarray_backend import Era5Backend
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile


def test_the_backend_opens_what_dataset_gives(real: Warehouse, db: era5.Database, gulf: NetcdfFile) -> None:
    expected = db.dataset(start="2023-07", end="2023-07", columns="t2m")
    with xr.open_dataset(
        real.url, engine=Era5Backend, chunks={}, start="2023-07", end="2023-07", columns=["temperature_2m"]
    ) as ds:
        assert ds.chunks == expected.chunks
        xr.testing.assert_identical(ds.compute(), expected.compute())
        np.testing.assert_allclose(ds["temperature_2m"], gulf.of("2023-07"), rtol=0, atol=2e-6)
    with xr.open_dataset(real.url, engine=Era5Backend, start="2023-07", end="2023-07", drop_variables="snowfall") as ds:
        assert not ds.chunks
        assert list(ds) == ["temperature_2m"]
        xr.testing.assert_identical(ds.load(), expected.compute())


def test_its_arrays_outlive_the_dataset_that_was_opened(real: Warehouse) -> None:
    place = xr.open_dataset(real.url, engine=Era5Backend, start="2023-07", end="2023-07")["temperature_2m"][:, 0, 0]
    assert place.notnull().all()


def test_errors_are_those_of_era5(real: Warehouse) -> None:
    with pytest.raises(era5.UsageError, match="DROP TABLE"):
        xr.open_dataset(real.url, engine=Era5Backend, columns="'; DROP TABLE weather; --")
    with pytest.raises(era5.NoDataError, match="it holds 2018-10"):
        xr.open_dataset(real.url, engine=Era5Backend, start="2025")
    with pytest.raises(era5.ServerUnreachableError):
        xr.open_dataset("postgresql://127.0.0.1:1/era5", engine=Era5Backend)


def test_the_password_is_nowhere_in_the_dataset(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07"))
    url = warehouse.url + ("&" if "?" in warehouse.url else "?") + "password=hunter2"
    with xr.open_dataset(url, engine=Era5Backend) as ds:
        variable = ds["temperature_2m"].variable
        shown = (repr(ds), repr(ds.encoding), repr(ds.attrs), repr(variable._data), repr(variable.encoding))
    assert not any("hunter2" in one for one in shown)


def test_it_is_found_by_the_name_of_the_package(database_url: str, flat_months: FlatMonths, tmp_path: Path) -> None:
    """As an installed package declares it: in a process of its own, with the entry point of pyproject.toml."""
    from era5_pipeline.postgres.connect import Warehouse as At

    (name, value), *others = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "entry-points"
    ]["xarray.backends"].items()
    assert not others
    assert EntryPoint(name, value, "xarray.backends").load() is Era5Backend
    load_month(At(database_url), flat_months("2023-07"))
    metadata = tmp_path / "declares_backend-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declares-backend\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[xarray.backends]\n{name} = {value}\n")
    code = (
        "import sys, xarray as xr; url = sys.argv[1]; "
        "print(xr.open_dataset(url, engine='era5', chunks={}).temperature_2m.shape)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, database_url],
        env=environment(tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "(744, 2, 3)\n", result.stderr
