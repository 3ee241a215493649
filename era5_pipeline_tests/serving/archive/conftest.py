"""Real months in a table on each layout, served over HTTP, and the files they came from, read without this project.

Near Ho Chi Minh City (10.75 N 106.25 E): December 2021, January and March 2022, hours of wind, temperature and
precipitation; February 2022 is not loaded. In the Gulf of Mexico: temperature of July 2023, as netCDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline_tests import real_months
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

    from era5_pipeline.postgres.connect import Warehouse


@pytest.fixture(scope="session")
def mekong() -> Any:
    """All hours of the CSV as served, by pandas: `t2m` K, `u10` and `v10` m/s, `tp` m; times in UTC without a zone."""
    return real_months.mekong()


@pytest.fixture(scope="session")
def gulf(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The netCDF file by xarray: `t2m` in K by `time`, `latitude`, `longitude`."""
    return real_months.gridded(real_months.GULF, tmp_path_factory.mktemp("gulf-file"))


@pytest.fixture(scope="module")
def real(real_table: Callable[..., Warehouse]) -> Warehouse:
    """The table with these months, on each layout."""
    return real_table(real_months.MEKONG.of("2021-12", "2022-01", "2022-03"), real_months.GULF.of("2023-07"))


@pytest.fixture(scope="module")
def client(real: Warehouse) -> Iterator[httpx.Client]:
    """A client of `era5 serve` on that table."""
    with served(real) as client:
        yield client
