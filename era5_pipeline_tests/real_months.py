"""A pytest plugin: months of the repository's real files, in tables, and as other libraries read these files."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from era5_pipeline.cli.demo import FOLDERS as FOLDERS_OF_DEMO
from era5_pipeline.model.months import month_range, months_between
from era5_pipeline.model.times import time_of
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.samples import DATA, unpacked
from era5_pipeline_tests.servers import database_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth


@dataclass(frozen=True)
class Delivery:
    """The files of a folder below `data/`, and some of their months."""

    folder: str
    months: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(path for path in (DATA / self.folder).iterdir() if path.is_file()))

    @property
    def file(self) -> Path:
        """The only file."""
        (path,) = self.files
        return path

    def of(self, *months: str) -> Self:
        """The same files, with these months only."""
        return replace(self, months=months)


def _months(first: str, last: str) -> tuple[str, ...]:
    return tuple(map(str, month_range(months_between(first)[0], months_between(last)[0])))


# 2 m temperature around Qatar; precipitation and more in Norway; precipitation of Telangana in the monsoon.
GULF = Delivery("era5/gulf-2023", _months("2023-01", "2023-12"))
NORWAY = Delivery("era5/norway-2018-10-packed", ("2018-10",))
TELANGANA = Delivery("era5/telangana-2023-jja", ("2023-06", "2023-07"))
# The first week of a September there.
TELANGANA_WEEK = Delivery("era5/telangana-2023-09", ("2023-09",))
# Series of one place.
PARIS = Delivery("timeseries/paris-2024-nc-zip", _months("2024-01", "2024-12"))
MEKONG = Delivery("timeseries/mekong-2020-2025-csv-zip", _months("2020-01", "2025-05"))


class RealMonths:
    """Flatten months of deliveries, each of them once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str], FlatMonth] = {}
        # The same function for the same deliveries: a database with them is then copied, not loaded again.
        self.loading = cache(self._loading)

    def __call__(self, *deliveries: Delivery) -> list[FlatMonth]:
        """The flat months of the deliveries, in order."""
        return [self._flat(delivery, month) for delivery in deliveries for month in delivery.months]

    def all_of(self, folder: str) -> Delivery:
        """The files of a folder below `data/`, with every month that they hold."""
        return Delivery(folder, tuple(map(str, FilesSource((DATA / folder,), self._folder).months())))

    def _flat(self, delivery: Delivery, month: str) -> FlatMonth:
        key = (delivery.folder, month)
        if key not in self._made:
            home = self._folder / delivery.folder
            with era5_files.without_pictures():
                self._made[key] = era5_files.flatten(delivery.files, month, home)
        return self._made[key]

    def _loading(self, *deliveries: Delivery) -> Callable[[str], None]:
        def load(url: str) -> None:
            for flat in self(*deliveries):
                load_month(Warehouse(url), flat)

        return load


@pytest.fixture(scope="session")
def real_months(tmp_path_factory: pytest.TempPathFactory) -> RealMonths:
    """Flat months of real files."""
    return RealMonths(tmp_path_factory.mktemp("real-months"))


@pytest.fixture(scope="module")
def real_table(host_url: str, real_months: RealMonths) -> Iterator[Callable[..., Warehouse]]:
    """A function from deliveries to a table with their months, on each layout; for tests that leave it unchanged."""
    with ExitStack() as stack:
        yield lambda *deliveries: Warehouse(
            stack.enter_context(database_copy(host_url, real_months.loading(*deliveries)))
        )


@pytest.fixture(scope="module")
def demo_table(server_url: str, real_months: RealMonths) -> Iterator[Warehouse]:
    """All that `era5 demo` loads, in a table on the embedded server, as it has one; for tests that leave it unchanged.

    Loaded once for all modules of a process.
    """
    loading = real_months.loading(*map(real_months.all_of, FOLDERS_OF_DEMO))
    with database_copy(server_url, loading) as url:
        yield Warehouse(url)


class NetcdfFile:
    """A variable of a file as netCDF4 reads it, in units of the table."""

    def __init__(self, path: Path, name: str, time: str, scale: float, offset: float) -> None:
        with netCDF4.Dataset(path) as file:
            self.latitudes: npt.NDArray[np.float64] = np.asarray(file["latitude"][:], dtype=np.float64)
            self.longitudes: npt.NDArray[np.float64] = np.asarray(file["longitude"][:], dtype=np.float64)
            stamps: Any = netCDF4.num2date(file[time][:], file[time].units, only_use_cftime_datetimes=False)
            self.times = np.array([np.datetime64(stamp, "h") for stamp in stamps.tolist()])
            self.values: npt.NDArray[np.float64] = np.asarray(file[name][:], dtype=np.float64) * scale + offset

    @property
    def instants(self) -> list[datetime]:
        """The times as Python's, in UTC."""
        return [time_of(hour) for hour in self.times.astype("datetime64[h]").astype(np.int64).tolist()]

    def at(self, latitude: float, longitude: float, month: str | None = None) -> npt.NDArray[np.float64]:
        """The values (hours,) of a grid point, of all times or in a month."""
        row = int(np.flatnonzero(self.latitudes == latitude)[0])
        column = int(np.flatnonzero(self.longitudes == longitude)[0])
        return (self.values if month is None else self.of(month))[:, row, column]

    def series(self, latitude: float, longitude: float) -> dict[datetime, float]:
        """The values of a grid point by time."""
        return dict(zip(self.instants, self.at(latitude, longitude).tolist(), strict=True))

    def of(self, month: str) -> npt.NDArray[np.float64]:
        """The values (hours, latitudes, longitudes) of a month, in the order of the file."""
        found: npt.NDArray[np.float64] = self.values[self.times.astype("datetime64[M]") == np.datetime64(month)]
        return found


@pytest.fixture(scope="session")
def gulf(tmp_path_factory: pytest.TempPathFactory) -> NetcdfFile:
    """2 m temperature of 2023 in degC."""
    return NetcdfFile(_unzipped(GULF.file, tmp_path_factory.mktemp("gulf")), "t2m", "valid_time", 1.0, -273.15)


@pytest.fixture(scope="session")
def norway() -> NetcdfFile:
    """Precipitation of October 2018 in mm."""
    return NetcdfFile(NORWAY.file, "tp", "time", 1000.0, 0.0)


def gridded(delivery: Delivery, folder: Path) -> Any:
    """The delivery's netCDF file, from its ZIP if it is in one: `time`, `latitude`, `longitude`, units as served."""
    with xr.open_dataset(_unzipped(delivery.file, folder)) as opened:
        found = opened.load()
    return found.rename(valid_time="time") if "valid_time" in found.dims else found


def mekong() -> Any:
    """All hours near Ho Chi Minh City as pandas reads the CSV as served: K, m, m/s, times without zone in UTC."""
    with zipfile.ZipFile(MEKONG.file) as archive, archive.open(archive.namelist()[0]) as file:
        return pd.read_csv(file, parse_dates=["valid_time"], index_col="valid_time").astype(np.float64)


def _unzipped(path: Path, folder: Path) -> Path:
    """The file, or the only member of the ZIP that it is."""
    (found,) = unpacked(path, folder)
    return found
