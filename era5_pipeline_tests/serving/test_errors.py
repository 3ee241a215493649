"""Errors as JSON: the status says whose fault it is, the reason what to do; the server's secrets stay in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fastapi import APIRouter

from era5_pipeline.model.errors import (
    Era5Error,
    MonthLockedError,
    NoDataError,
    ServerUnreachableError,
    ServerUnsuitableError,
    TransientError,
    UsageError,
    WarehouseError,
)
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

routes = APIRouter()
KINDS: dict[str, type[Era5Error]] = {
    kind.__name__: kind
    for kind in (
        *(UsageError, NoDataError, TransientError, ServerUnreachableError, MonthLockedError, WarehouseError),
        ServerUnsuitableError,
    )
}


@routes.get("/raise/{kind}")
def failing(kind: str) -> None:
    raise KINDS[kind]("what failed at postgresql://me@secret-host/era5", remedy="Do something else.")


@routes.get("/values/{count}")
def values(count: int) -> int:
    ServingLimits(values=1_000).require_values(count)
    return count


@pytest.fixture(scope="module")
def client(shared_database_url: str) -> Iterator[httpx.Client]:
    with served(Warehouse(shared_database_url), routes=routes) as client:
        yield client


@pytest.mark.parametrize("kind", ["UsageError", "NoDataError"])
def test_what_the_client_got_wrong_is_400_with_message_and_remedy(client: httpx.Client, kind: str) -> None:
    answer = client.get(f"/raise/{kind}")
    assert answer.status_code == 400
    reason = "What failed at postgresql://me@secret-host/era5. Do something else."
    assert answer.json() == {"error": True, "reason": reason}
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize("kind", ["TransientError", "ServerUnreachableError", "MonthLockedError"])
def test_what_passes_is_503_with_the_time_to_wait(
    client: httpx.Client, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get(f"/raise/{kind}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "secret-host" not in answer.text
    assert "secret-host" in caplog.text


@pytest.mark.parametrize("kind", ["WarehouseError", "ServerUnsuitableError"])
def test_what_an_administrator_must_mend_is_500_and_in_the_log(
    client: httpx.Client, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get(f"/raise/{kind}")
    assert answer.status_code == 500
    assert "secret-host" not in answer.text
    assert "secret-host" in caplog.text


def test_a_parameter_of_the_wrong_type_is_400_with_its_name(client: httpx.Client) -> None:
    answer = client.get("/values/many")
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("Parameter 'count': ")
    answer = client.get("/place")
    assert (answer.status_code, answer.json()["reason"]) == (400, "Parameter 'name' is missing")


def test_too_many_values_are_400_with_both_numbers(client: httpx.Client) -> None:
    assert client.get("/values/1000").json() == 1000
    answer = client.get("/values/10000000")
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("The answer would have 10,000,000 values, and the limit is 1,000. ")
