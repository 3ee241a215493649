"""Thirty years of the river Tamar, Devon: yearly values, and all hours where ERA5_SAMPLES has them.

ERA5 between four of its grid points (50.408 N 4.185 W), bilinear, 1994 to 2023, every hour: from the files
`data/era5_1994.nc` to `era5_2023.nc` of github.com/riquitorres/pygetm_2d_xz at 5ebad9b, which iGOTM served. Contains
modified Copernicus Climate Change Service information 1994 to 2023.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pandas as pd
import pytest

from era5_pipeline_tests.samples import more_real_files

if TYPE_CHECKING:
    from pathlib import Path


def _by_year(text: str) -> Any:
    return pd.Series([float(value) for value in text.split()], index=range(1994, 2024))


# The mean of all hours in degC; the sum of the values with times in the year in mm.
MEAN_TEMPERATURE = _by_year(
    """
    10.955185 11.365632 9.949483 11.100099 11.007211 11.178961 10.768208 10.746184 11.171759 11.063090 10.991797
    11.002477 11.253316 11.334407 10.658085 10.675664 9.688456 11.235522 10.553444 10.504007 11.539879 11.131937
    11.028843 11.242822 11.354204 11.216974 11.425447 11.057177 11.868322 11.887158
    """
)
PRECIPITATION = _by_year(
    """
    1127.224081 894.015000 861.618960 1019.637001 1096.508879 1127.387520 1197.992521 952.679880 1173.821042
    862.464961 938.766241 831.047760 958.344481 1051.128360 1079.892000 1059.748921 837.485640 798.893279 1225.865521
    1024.973280 1153.918801 907.089480 896.412240 918.920160 1060.652520 1126.399322 1098.114840 1089.056161
    943.799401 1111.779720
    """
)


def tamar_hours(folder: Path) -> Any:
    """All 262,968 hours, with columns and units of the table; skips the test where ERA5_SAMPLES lacks them."""
    archives = more_real_files("era5_1994-2023.tar.xz")
    if not archives:
        pytest.skip("ERA5_SAMPLES names no folder with era5_1994-2023.tar.xz, thirty years of hours at the Tamar")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    parts = [_hours_of(path) for path in sorted(folder.rglob("era5_*.nc"))]
    assert len(parts) == 30
    return pd.concat(parts)


def _hours_of(path: Path) -> pd.DataFrame:
    with netCDF4.Dataset(path) as of_year:
        unit = of_year["time"].units
        times = netCDF4.num2date(of_year["time"][:], unit, only_use_cftime_datetimes=False)
        columns = {
            "temperature_2m": of_year["t2m"][:].ravel(),
            # m/s, the mean of the hour
            "total_precipitation": of_year["tp"][:].ravel().astype(np.float64) * 3600 * 1000,
            "zonal_wind_10m": of_year["u10"][:].ravel(),
            "meridional_wind_10m": of_year["v10"][:].ravel(),
        }
        index = pd.DatetimeIndex(np.array(times, dtype="datetime64[s]"), tz="UTC", name="time")
        return pd.DataFrame({name: np.ma.getdata(values) for name, values in columns.items()}, index=index)
