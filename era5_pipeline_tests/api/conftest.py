"""Real months in a table on each layout, one of them left out, and the netCDF files that they came from."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.api.database import open_database
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.samples import DATA
from era5_pipeline_tests.servers import database_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.api.database import Database
    from era5_pipeline.flat.flat_month import FlatMonth

GULF = DATA / "era5" / "gulf-2023" / "era5_t2m_2023.zip"
NORWAY = DATA / "era5" / "norway-2018-10-packed" / "SURF_201810.nc"
# Of the Gulf; August is not loaded.
MONTHS = ("2023-06", "2023-07", "2023-09")


class NetcdfFile:
    """A variable of a file as netCDF4 reads it, in units of the table, by month."""

    def __init__(self, path: Path, name: str, time: str, scale: float, offset: float) -> None:
        with netCDF4.Dataset(path) as file:
            self.latitudes: npt.NDArray[np.float64] = np.asarray(file["latitude"][:], dtype=np.float64)
            self.longitudes: npt.NDArray[np.float64] = np.asarray(file["longitude"][:], dtype=np.float64)
            stamps: Any = netCDF4.num2date(file[time][:], file[time].units, only_use_cftime_datetimes=False)
            self.times = np.array([np.datetime64(stamp, "h") for stamp in stamps.tolist()])
            self.values: npt.NDArray[np.float64] = np.asarray(file[name][:], dtype=np.float64) * scale + offset

    def at(self, latitude: float, longitude: float, month: str) -> npt.NDArray[np.float64]:
        """The values (hours,) of a grid point in a month."""
        row = int(np.flatnonzero(self.latitudes == latitude)[0])
        column = int(np.flatnonzero(self.longitudes == longitude)[0])
        return self.of(month)[:, row, column]

    def of(self, month: str) -> npt.NDArray[np.float64]:
        """The values (hours, latitudes, longitudes) of a month, in the order of the file."""
        found: npt.NDArray[np.float64] = self.values[self.times.astype("datetime64[M]") == np.datetime64(month)]
        return found


@pytest.fixture(scope="session")
def gulf(tmp_path_factory: pytest.TempPathFactory) -> NetcdfFile:
    """2 m temperature of 2023 in degC."""
    folder = tmp_path_factory.mktemp("gulf")
    with zipfile.ZipFile(GULF) as archive:
        (name,) = archive.namelist()
        return NetcdfFile(folder / archive.extract(name, folder), "t2m", "valid_time", 1.0, -273.15)


@pytest.fixture(scope="session")
def norway() -> NetcdfFile:
    """Precipitation of October 2018 in mm."""
    return NetcdfFile(NORWAY, "tp", "time", 1000.0, 0.0)


@pytest.fixture(scope="session")
def real_months(tmp_path_factory: pytest.TempPathFactory) -> list[FlatMonth]:
    home = tmp_path_factory.mktemp("real-months")
    with era5_files.without_pictures():
        months = [era5_files.flatten([GULF], month, home) for month in MONTHS]
        return [*months, era5_files.flatten([NORWAY], "2018-10", home)]


@pytest.fixture(scope="session")
def load_real_months(real_months: list[FlatMonth]) -> Callable[[str], None]:
    def load(url: str) -> None:
        for flat in real_months:
            load_month(Warehouse(url), flat)

    return load


@pytest.fixture(scope="module")
def real(host_url: str, load_real_months: Callable[[str], None]) -> Iterator[Warehouse]:
    """The table with these months, on each layout: loaded once, and a copy for each module."""
    with database_copy(host_url, load_real_months) as url:
        yield Warehouse(url)


@pytest.fixture(scope="module")
def db(real: Warehouse) -> Iterator[Database]:
    """The same, open for Python."""
    with open_database(real.url) as database:
        yield database
