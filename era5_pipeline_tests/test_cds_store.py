"""The stand-in for the Climate Data Store, asked by the programs that users have for the real one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import cdsapi
import netCDF4
import pytest
import requests
from ecmwf.datastores import Client

from era5_pipeline.sources.cds.request import DATASET
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.cds_store.data import fields_of, hours_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INPUTS: dict[str, Any] = {
    "product_type": ["reanalysis"],
    "variable": ["2m_temperature", "total_precipitation"],
    "year": ["2020"],
    "month": ["02"],
    "day": ["01", "02"],
    "time": [f"{hour:02d}:00" for hour in range(24)],
    "data_format": "netcdf",
    "download_format": "unarchived",
    "area": [-6, 106, -6.5, 106.5],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CdsServer]:
    (tmp_path / "made").mkdir()
    with CdsServer(tmp_path / "made", today=datetime(2026, 11, 20, tzinfo=UTC)) as server:
        yield server


def client_of(server: CdsServer) -> Client:
    return Client(server.url, server.key, progress=False, maximum_tries=1, retry_after=0)


def test_cdsapi_retrieves_a_zip(server: CdsServer, tmp_path: Path) -> None:
    client = cdsapi.Client(server.url, server.key, quiet=True, progress=False)
    target = tmp_path / "answer.zip"
    client.retrieve(DATASET, INPUTS, str(target))
    assert target.read_bytes().startswith(b"PK\x03\x04")


def test_cdsapi_retrieves_one_kind_as_netcdf(server: CdsServer, tmp_path: Path) -> None:
    client = cdsapi.Client(server.url, server.key, quiet=True, progress=False)
    target = tmp_path / "answer.nc"
    client.retrieve(DATASET, INPUTS | {"variable": ["2m_temperature"]}, str(target))
    with netCDF4.Dataset(target) as dataset:
        assert dataset["t2m"].shape == (48, 3, 3)


def test_jobs_are_found_again(server: CdsServer) -> None:
    remote = client_of(server).submit(DATASET, INPUTS)
    again = client_of(server).get_remote(remote.request_id)
    assert again.request == INPUTS
    assert client_of(server).get_jobs(limit=5, sortby="-created").request_ids == [remote.request_id]
    assert again.status == "successful"


def test_a_wrong_key_is_told_as_the_service_tells_it(server: CdsServer) -> None:
    client = Client(server.url, "wrong", progress=False, maximum_tries=1, retry_after=0)
    with pytest.raises(requests.HTTPError, match="authentication required"):
        client.submit(DATASET, INPUTS)


def test_the_cache_gives_the_older_file_unless_told_not_to(server: CdsServer) -> None:
    client = client_of(server)
    server.today = datetime(2020, 2, 6, tzinfo=UTC)

    def size(**more: Any) -> int:
        return client.submit(DATASET, INPUTS | more).get_results().content_length

    short = size()
    server.today = datetime(2020, 3, 6, tzinfo=UTC)
    assert size() == short
    assert size(no_cache=True) > short


@pytest.mark.parametrize(("month", "days", "hours"), [("02", 29, 696), ("12", 31, 744), ("04", 31, 720)])
def test_a_request_counts_days_that_the_month_lacks_as_cost_only(month: str, days: int, hours: int) -> None:
    inputs = INPUTS | {"month": [month], "day": [f"{day:02d}" for day in range(1, days + 1)]}
    assert len(hours_of(inputs)) == hours
    assert fields_of(inputs) == 2 * days * 24
