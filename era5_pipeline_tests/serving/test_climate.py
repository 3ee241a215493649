"""`/v1/climate` says what `era5 climate --format json` says, and refuses what that refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.climate.answers import fill_with_hours, warming_hours
from era5_pipeline_tests.served import served
from era5_pipeline_tests.weather_table import JAKARTA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline_tests.commands import InProcess

HERE = {"latitude": "-6.2", "longitude": "106.8"}


@pytest.fixture(scope="module")
def made(shared_database_url: str) -> str:
    """A table with three years at Jakarta, of which June 2011 is missing."""
    hours = warming_hours("2010-01-01T00", "2012-12-31T23")
    hours = hours[~((hours.index >= "2011-06-01T00Z") & (hours.index < "2011-07-01T00Z"))]
    fill_with_hours(shared_database_url, {JAKARTA: hours})
    return shared_database_url


@pytest.fixture(scope="module")
def client(made: str) -> Iterator[httpx.Client]:
    with served(Warehouse(made)) as client:
        yield client


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        (HERE, ("--lat", "-6.2", "--lon", "106.8")),
        ({"place": "Jakarta", "days": "local"}, ("--place", "Jakarta", "--days", "local")),
        (
            {**HERE, "start": "2010", "end": "2010-12", "baseline": "2001-2012"},
            ("--lat", "-6.2", "--lon", "106.8", "--from", "2010", "--to", "2010-12", "--baseline", "2001-2012"),
        ),
        ({"place": "Jakarta", "table": "daily"}, ("--place", "Jakarta", "--table", "daily")),
    ],
)
def test_the_answer_is_that_of_the_command(
    client: httpx.Client, made: str, parameters: dict[str, str], options: tuple[str, ...], here: InProcess
) -> None:
    here.set(ERA5_DATABASE_URL=made)
    printed: Any = json.loads(here.run("climate", *options, "--format", "json").out)
    answer = client.get("/v1/climate", params=parameters)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert answer.json() == printed
    assert ("daily" in printed) == ("table" in parameters)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "No place is given"),
        ({**HERE, "latitude": "north"}, "Parameter 'latitude'"),
        ({**HERE, "days": "solar"}, "Parameter 'days'"),
        ({"latitude": "50", "longitude": "10"}, "the table has no data there"),
    ],
)
def test_what_is_wrong_is_400_with_the_reason(client: httpx.Client, parameters: dict[str, str], words: str) -> None:
    answer = client.get("/v1/climate", params=parameters)
    found = answer.json()
    assert (answer.status_code, list(found), found["error"]) == (400, ["error", "reason"], True)
    assert words in found["reason"]
