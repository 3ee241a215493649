"""The test server for the Climate Data Store, called with the clients that users have for the real one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import cdsapi
import pytest
import requests
from ecmwf.datastores import Client

from era5_pipeline.model.dataset import ERA5
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
    client.retrieve(ERA5.cds_name, INPUTS, str(target))
    assert target.read_bytes().startswith(b"PK\x03\x04")


def test_the_order_of_the_hours_is_part_of_the_key_of_the_cache(server: CdsServer) -> None:
    """Each case was observed by running the service's own code."""
    client = client_of(server)

    def retrievals(**more: Any) -> int:
        client.submit(ERA5.cds_name, INPUTS | more).get_results()
        return server.retrievals

    assert retrievals() == 1
    assert retrievals() == 1
    assert retrievals(day=["02", "01"]) == 1
    assert retrievals(time=INPUTS["time"][1:] + INPUTS["time"][:1]) == 2
    assert retrievals(no_cache="now") == 3
    assert retrievals(no_cache="now") == 3


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"no_cache": True}, "request['no_cache'][0]: True is not of type 'string'"),
        ({"year": None}, "request['year'][0]: None is not of type 'string'"),
        ({"time": []}, "request['time']: []: list has too few items. Should have at least 1"),
        ({"time": ["00:00", "00:00"]}, "request['time']: has repeated values in the list, e.g. '00:00'"),
        ({"time": {"a": 1}}, "request['time'][0]: {'a': 1} is not of type 'string'"),
        ({"year": ["abc"]}, "Invalid integer for year: 'abc'"),
        ({"day": ["30"]}, "No valid dates from year=[2020] month=[2] day=[30]"),
        ({"year": ["2027"]}, "The latest date available for this dataset is: 2026-11-15 00:00"),
    ],
)
def test_invalid_requests_are_refused_in_the_services_words(
    server: CdsServer, changed: dict[str, Any], detail: str
) -> None:
    """The texts are those of the service's own code for the same requests."""
    with pytest.raises(requests.HTTPError, match="invalid request") as caught:
        client_of(server).submit(ERA5.cds_name, INPUTS | changed)
    assert caught.value.response is not None
    assert detail in caught.value.response.json()["detail"]
    assert caught.value.response.status_code == 400
    assert server.submissions == []


@pytest.mark.parametrize("changed", [{"year": [2020]}, {"year": 2020}, {"area": [-6.0, 106, -6.5, 106.5]}])
def test_numbers_and_scalars_are_valid(server: CdsServer, changed: dict[str, Any]) -> None:
    assert client_of(server).submit(ERA5.cds_name, INPUTS | changed).status == "successful"


def test_a_dismissed_job_is_not_found(server: CdsServer) -> None:
    server.faults.accepted_polls = 10
    remote = client_of(server).submit(ERA5.cds_name, INPUTS)
    assert remote.delete()["status"] == "dismissed"
    with pytest.raises(requests.HTTPError, match=f"job {remote.request_id} dismissed"):
        remote.status  # noqa: B018  # the property asks


@pytest.mark.parametrize(("month", "days", "hours"), [("02", 29, 696), ("12", 31, 744), ("04", 31, 720)])
def test_a_request_counts_days_that_the_month_lacks_as_cost_only(month: str, days: int, hours: int) -> None:
    inputs = INPUTS | {"month": [month], "day": [f"{day:02d}" for day in range(1, days + 1)]}
    assert len(hours_of(inputs)) == hours
    assert fields_of(inputs) == 2 * days * 24
