"""Real months in a table on each layout, served over HTTP, and the files they came from, read without this project.

Near Ho Chi Minh City (10.75 N 106.25 E): December 2021, January and March 2022, hours of wind, temperature and
precipitation; February 2022 is not loaded. In the Gulf of Mexico: temperature of July 2023, as netCDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.climate import real_weather
from era5_pipeline_tests.samples import DATA
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

MONTHS = ("2021-12", "2022-01", "2022-03")


@pytest.fixture(scope="session")
def mekong() -> Any:
    """All hours of the CSV as served, by pandas: `t2m` K, `u10` and `v10` m/s, `tp` m; times in UTC without a zone."""
    return real_weather.mekong()


@pytest.fixture(scope="session")
def gulf(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The netCDF file by xarray: `t2m` in K by `time`, `latitude`, `longitude`."""
    return real_weather.gridded(real_weather.GULF, tmp_path_factory.mktemp("gulf-file"))


@pytest.fixture(scope="session")
def loaded_months(tmp_path_factory: pytest.TempPathFactory) -> list[FlatMonth]:
    home = tmp_path_factory.mktemp("served-months")
    mekong, gulf = (sorted((DATA / delivery[0]).iterdir()) for delivery in (real_weather.MEKONG, real_weather.GULF))
    with era5_files.without_pictures():
        return [
            *(era5_files.flatten(mekong, month, home) for month in MONTHS),
            era5_files.flatten(gulf, "2023-07", home),
        ]


@pytest.fixture(scope="module")
def real(shared_warehouse: Warehouse, loaded_months: list[FlatMonth]) -> Warehouse:
    """The table with these months, on each layout."""
    for flat in loaded_months:
        load_month(shared_warehouse, flat)
    return shared_warehouse


@pytest.fixture(scope="module")
def client(real: Warehouse) -> Iterator[httpx.Client]:
    """A client of `era5 serve` on that table."""
    with served(real) as client:
        yield client
