from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.cds_files import point_netcdf
from era5_pipeline.netcdf.contents import inspect, open_netcdf

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ERA5_GRID.nearest_location(-6.25, 106.75)
HOURS = np.arange(-262_992, -262_992 + 48)
VALUES = {
    "temperature_2m": np.linspace(290, 300, 48, dtype=np.float32),
    "total_precipitation": np.array([np.nan] * 24 + [0.001] * 24, dtype=np.float32),
}


def written(folder: Path, content: bytes) -> NetcdfFile:
    path = folder / "month.nc"
    path.write_bytes(content)
    return NetcdfFile(path=path, source=path)


@pytest.mark.parametrize(("preliminary", "version"), [(True, "0005"), (False, "unknown")])
def test_what_is_written_is_read(tmp_path: Path, *, preliminary: bool, version: str) -> None:
    file = written(tmp_path, point_netcdf(PLACE, HOURS, VALUES, preliminary=preliminary))
    contents = inspect(file)
    assert contents.problems == ()
    assert {field.column for field in contents.fields} == set(VALUES)
    for field in contents.fields:
        assert field.hours.tolist() == HOURS.tolist()
        assert set(field.expver) == {version}
        assert (field.latitude_index.tolist(), field.longitude_index.tolist()) == ([335], [1146])
    with open_netcdf(file) as dataset:
        np.testing.assert_array_equal(dataset["t2m"].values, VALUES["temperature_2m"])
        np.testing.assert_array_equal(dataset["tp"].values, VALUES["total_precipitation"])


def test_equal_values_give_equal_bytes_and_others_do_not() -> None:
    made = {point_netcdf(PLACE, HOURS, VALUES, preliminary=False) for _ in range(20)}
    assert len(made) == 1
    changed = dict(VALUES, temperature_2m=VALUES["temperature_2m"] + np.float32(0.01))
    others = {
        point_netcdf(PLACE, HOURS, changed, preliminary=False),
        point_netcdf(PLACE, HOURS, VALUES, preliminary=True),
        point_netcdf(PLACE, HOURS + 1, VALUES, preliminary=False),
        point_netcdf(ERA5_GRID.nearest_location(-6.0, 106.75), HOURS, VALUES, preliminary=False),
    }
    assert len(others | made) == 5
