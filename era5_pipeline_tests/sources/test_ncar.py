"""Monthly files in the layout of NSF NCAR's archive, which the original study used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import xarray as xr

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_VARIABLES, in_table_order
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.stages import run_flat, run_raw

if TYPE_CHECKING:
    from pathlib import Path

MONTH = Month(2020, 2)
AREA = Area(-6.0, 106.0, -6.5, 107.0)
LATITUDES, LONGITUDES = np.arange(-6.0, -6.6, -0.25), np.arange(106.0, 107.1, 0.25)
# By column: short name, name in the file, paramId, unit, long name, and the first value.
KINDS = {
    "temperature_2m": ("2t", "VAR_2T", 167, "K", "2 metre temperature", 300.0),
    "zonal_wind_10m": ("10u", "VAR_10U", 165, "m s**-1", "10 metre U wind component", -3.0),
    "meridional_wind_10m": ("10v", "VAR_10V", 166, "m s**-1", "10 metre V wind component", 2.0),
    "total_cloud_cover": ("tcc", "TCC", 164, "(0 - 1)", "Total cloud cover", 0.25),
}


def values_of(column: str) -> np.ndarray:
    """The values of the file, shape (hour, latitude, longitude), float32, all different."""
    first = KINDS[column][-1]
    count = MONTH.hours * LATITUDES.size * LONGITUDES.size
    return (first + np.arange(count) / count / 2).astype(np.float32).reshape(MONTH.hours, LATITUDES.size, -1)


def write(folder: Path, column: str, *, parameter: int | None = None) -> Path:
    short, name, number, unit, long_name, _ = KINDS[column]
    folder.mkdir(exist_ok=True)
    path = folder / f"e5.oper.an.sfc.128_{number}_{short}.ll025sc.2020020100_2020022923.nc"
    hours = np.arange(MONTH.hours)
    since_1900 = (MONTH.start - datetime(1900, 1, 1, tzinfo=UTC)) // timedelta(hours=1)
    of_time = {"long_name": "time", "units": "hours since 1900-01-01 00:00:00", "calendar": "gregorian"}
    of_date = {"long_name": "UTC date yyyy-mm-dd hh:00:00 as yyyymmddhh", "units": "Gregorian_year month day"}
    of_values = {
        "long_name": long_name,
        "short_name": short,
        "units": unit,
        "original_format": "WMO GRIB 1 with ECMWF local table",
        "ecmwf_local_table": np.int32(128),
        "ecmwf_parameter": np.int32(number if parameter is None else parameter),
    }
    dataset = xr.Dataset(
        {
            name: (("time", "latitude", "longitude"), values_of(column), of_values),
            "utc_date": ("time", (2020020000 + (hours // 24 + 1) * 100 + hours % 24).astype("i4"), of_date),
        },
        {
            "time": ("time", (since_1900 + hours).astype("i4"), of_time),
            "latitude": ("latitude", LATITUDES, {"short_name": "lat", "units": "degrees_north"}),
            "longitude": ("longitude", LONGITUDES, {"short_name": "lon", "units": "degrees_east"}),
        },
        {"DATA_SOURCE": "ECMWF: https://cds.climate.copernicus.eu", "Conventions": "CF-1.6"},
    )
    chunks = (27, LATITUDES.size, LONGITUDES.size)
    packing = {"zlib": True, "complevel": 1, "chunksizes": chunks, "_FillValue": np.float32(9.999e20)}
    dataset.to_netcdf(path, format="NETCDF4_CLASSIC", encoding={name: packing})
    return path


def rows(settings: Settings) -> dict[str, np.ndarray]:
    run_raw(settings, MONTH)
    table = pq.read_table(run_flat(settings, MONTH).flat.path).sort_by(
        [("location_id", "ascending"), ("time", "ascending")]
    )
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def expected(column: str) -> np.ndarray:
    """The rows: by location, south to north and west to east, then by hour; in the unit of the table."""
    offset = -273.15 if column == "temperature_2m" else 0.0
    return (values_of(column).transpose(1, 2, 0)[::-1].astype(np.float64) + offset).astype(np.float32).reshape(-1)


def test_four_monthly_files_become_rows(tmp_path: Path) -> None:
    for column in KINDS:
        write(tmp_path / "files", column)
    got = rows(Settings(home=tmp_path / "home", files_dir=str(tmp_path / "files")))
    for column in KINDS:
        np.testing.assert_array_equal(got[column], expected(column))
    for column in ("total_precipitation", "snowfall"):
        assert column not in got


def test_files_of_the_archive_and_of_the_store_are_combined(tmp_path: Path) -> None:
    for column in KINDS:
        write(tmp_path / "files", column)
    accumulations = in_table_order(variable.column for variable in DEFAULT_VARIABLES if variable.step_type == "accum")
    SampleSource(tmp_path / "files", Request(accumulations, AREA)).fetch(MONTH)
    settings = Settings(home=tmp_path / "home", files_dir=str(tmp_path / "files"))
    result = run_raw(settings, MONTH)
    assert [outcome.passed for outcome in result.outcomes] == [True] * 3
    assert set(result.columns) == {variable.column for variable in DEFAULT_VARIABLES}
    got = rows(settings)
    np.testing.assert_array_equal(got["total_cloud_cover"], expected("total_cloud_cover"))
    assert np.isfinite(got["snowfall"].astype(np.float64)).all()


def test_a_variable_with_another_parameter_id_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "files", "temperature_2m", parameter=168)
    source = FilesSource((tmp_path / "files",), tmp_path / "home")
    (problem,) = source.problems()
    assert problem.kind == "units"
    assert "parameter 168" in problem.text
