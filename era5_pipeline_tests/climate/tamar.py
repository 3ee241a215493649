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

# By year: the mean of all hours in degC; the sum of the values with times in the year in mm.
YEARS = {
    1994: (10.955185, 1127.224081),
    1995: (11.365632, 894.015000),
    1996: (9.949483, 861.618960),
    1997: (11.100099, 1019.637001),
    1998: (11.007211, 1096.508879),
    1999: (11.178961, 1127.387520),
    2000: (10.768208, 1197.992521),
    2001: (10.746184, 952.679880),
    2002: (11.171759, 1173.821042),
    2003: (11.063090, 862.464961),
    2004: (10.991797, 938.766241),
    2005: (11.002477, 831.047760),
    2006: (11.253316, 958.344481),
    2007: (11.334407, 1051.128360),
    2008: (10.658085, 1079.892000),
    2009: (10.675664, 1059.748921),
    2010: (9.688456, 837.485640),
    2011: (11.235522, 798.893279),
    2012: (10.553444, 1225.865521),
    2013: (10.504007, 1024.973280),
    2014: (11.539879, 1153.918801),
    2015: (11.131937, 907.089480),
    2016: (11.028843, 896.412240),
    2017: (11.242822, 918.920160),
    2018: (11.354204, 1060.652520),
    2019: (11.216974, 1126.399322),
    2020: (11.425447, 1098.114840),
    2021: (11.057177, 1089.056161),
    2022: (11.868322, 943.799401),
    2023: (11.887158, 1111.779720),
}
MEAN_TEMPERATURE: Any = pd.Series({year: temperature for year, (temperature, _) in YEARS.items()})
PRECIPITATION: Any = pd.Series({year: total for year, (_, total) in YEARS.items()})


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
