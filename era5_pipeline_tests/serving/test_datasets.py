"""Two data sets of one database over HTTP, on each layout: the archive by model, climate, pages, health, places."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import openmeteo_requests
import pytest
from openmeteo_sdk.Model import Model

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.planning.fetches import FetchFolder
from era5_pipeline.serving.fetch import FetchRequests
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.era5_files import Weather, hours_from, raw_month, weather, without_pictures, write_netcdf
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from era5_pipeline.postgres.connect import Warehouse

HOURS = hours_from("2023-07-01T00", 744)
OF_LAND = weather(HOURS, [10.1, 10.0, 9.9], [9.8, 9.9, 10.0], ("t2m", "tp"))
OF_ERA5 = weather(HOURS, [10.25, 10.0], [9.75, 10.0], ("t2m", "tp", "tcc"), seed=2)
# At 05:00 sums fall by less than the packing of real files.
FALLS_MM = -1e-4
PLACE: dict[str, Any] = {"latitude": 9.92, "longitude": 9.93}
DAY: dict[str, Any] = {**PLACE, "start_date": "2023-07-02", "end_date": "2023-07-02"}


def summed(of: Weather) -> Weather:
    """The files of ERA5-Land: precipitation is the sum since 00 UTC."""
    of_day = HOURS % 24
    amounts = np.where((of_day == 5)[:, np.newaxis, np.newaxis], FALLS_MM / 1000, of.fields["tp"])
    sums = np.zeros_like(amounts)
    for position, hour in enumerate(of_day):
        sums[position] = amounts[position] + (sums[position - 1] if position and hour != 1 else 0.0)
    return replace(of, fields={**of.fields, "tp": sums})


@pytest.fixture(scope="module")
def both(shared_warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("both")
    for dataset, of in ((ERA5, OF_ERA5), (ERA5_LAND, summed(OF_LAND))):
        raw = replace(raw_month([write_netcdf(folder / f"{dataset.name}.nc", of)], "2023-07"), dataset=dataset)
        with without_pictures():
            flat = flatten_month(raw, folder / dataset.name, home=folder, flat_format="parquet")
        warehouse = replace(shared_warehouse, dataset=dataset)
        with warehouse.connect() as connection:
            ensure_schema(connection)
        load_month(warehouse, flat)
    return shared_warehouse


@pytest.fixture(scope="module")
def client(both: Warehouse) -> Iterator[httpx.Client]:
    with served(both) as client:
        yield client


def archive(client: httpx.Client, **parameters: Any) -> Any:
    answer = client.get("/v1/archive", params={**DAY, **parameters})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(client: httpx.Client, **parameters: Any) -> str:
    answer = client.get("/v1/archive", params={**DAY, **parameters})
    assert answer.status_code == 400, answer.text
    return str(answer.json()["reason"])


def celsius(of: Weather, row: int, column: int) -> np.ndarray[Any, Any]:
    return of.fields["t2m"][24:48, row, column] - 273.15


def test_the_archive_answers_the_model_that_is_asked_for(client: httpx.Client) -> None:
    found = archive(client, hourly="temperature_2m,precipitation", models="era5_land")
    assert (found["latitude"], found["longitude"]) == (9.9, 9.9)
    np.testing.assert_allclose(found["hourly"]["temperature_2m"], celsius(OF_LAND, 2, 1), atol=0.051)
    (said,) = found["era5"]["datasets"]
    assert (said["name"], said["doi"]) == ("era5-land", "10.24381/cds.e2161bac")
    assert said["title"].startswith("ERA5-Land hourly data")
    assert "data ERA5-Land" in found["era5"]["credit"]
    for models in ({}, {"models": "era5"}, {"models": "best_match"}):
        own = archive(client, hourly="temperature_2m", **models)
        assert (own["latitude"], own["longitude"]) == (10.0, 10.0)
        np.testing.assert_allclose(own["hourly"]["temperature_2m"], celsius(OF_ERA5, 1, 1), atol=0.051)
        assert [one["name"] for one in own["era5"]["datasets"]] == ["era5"]


def test_several_models_are_columns_that_end_with_their_names(client: httpx.Client) -> None:
    asked = {"hourly": "temperature_2m,cloud_cover", "daily": "temperature_2m_max", "models": "era5,era5_land"}
    found = archive(client, **asked)
    assert (found["latitude"], found["longitude"]) == (10.0, 10.0)
    assert list(found["hourly"]) == [
        "time",
        *("temperature_2m_era5", "cloud_cover_era5", "temperature_2m_era5_land", "cloud_cover_era5_land"),
    ]
    np.testing.assert_allclose(found["hourly"]["temperature_2m_era5_land"], celsius(OF_LAND, 2, 1), atol=0.051)
    np.testing.assert_allclose(found["hourly"]["temperature_2m_era5"], celsius(OF_ERA5, 1, 1), atol=0.051)
    # ERA5-Land has no clouds: null, as with Open-Meteo.
    assert set(found["hourly"]["cloud_cover_era5_land"]) == {None}
    assert found["hourly_units"]["cloud_cover_era5_land"] == "%"
    assert found["daily"]["temperature_2m_max_era5_land"] == [max(found["hourly"]["temperature_2m_era5_land"])]
    assert found["era5"]["points"]["era5_land"] == {"latitude": 9.9, "longitude": 9.9}
    assert [one["name"] for one in found["era5"]["datasets"]] == ["era5", "era5-land"]
    text = client.get("/v1/archive", params={**DAY, **asked, "format": "csv"})
    assert "time,temperature_2m_era5 (°C),cloud_cover_era5 (%),temperature_2m_era5_land (°C)" in text.text
    assert text.headers["x-era5-dataset"] == "era5, era5-land"
    again = client.get("/v1/archive", params={**DAY, **asked}, headers={"If-None-Match": '"x"'})
    known = {"If-None-Match": again.headers["etag"]}
    assert client.get("/v1/archive", params={**DAY, **asked}, headers=known).status_code == 304


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_python_client_has_a_message_for_each_place_and_model(client: httpx.Client, method: str) -> None:
    asked = {**DAY, "latitude": [9.92, 10.02], "longitude": [9.93, 10.0], "hourly": "precipitation"}
    url = str(client.base_url.join("/v1/archive"))
    found = openmeteo_requests.Client().weather_api(url, {**asked, "models": ["era5", "era5_land"]}, method)
    assert [one.Model() for one in found] == [Model.era5, Model.era5_land] * 2
    assert [one.LocationId() for one in found] == [0, 0, 1, 1]
    assert [round(one.Latitude(), 4) for one in found] == [10, 9.9, 10, 10]
    (alone,) = openmeteo_requests.Client().weather_api(url, {**asked, **PLACE, "models": "era5_land"}, method)
    millimetres = alone.Hourly().Variables(0).ValuesAsNumpy()
    np.testing.assert_array_equal(millimetres, found[1].Hourly().Variables(0).ValuesAsNumpy())
    # The rounding of sums, as in the table; JSON has two decimals.
    assert millimetres[5] == pytest.approx(FALLS_MM, abs=1e-5)
    np.testing.assert_allclose(
        np.delete(millimetres, 5), np.delete(OF_LAND.fields["tp"][24:48, 2, 1], 5) * 1e3, atol=1e-3
    )
    assert archive(client, hourly="precipitation", models="era5_land")["hourly"]["precipitation"][5] == 0


def test_what_is_not_here_is_refused_with_what_there_is(client: httpx.Client) -> None:
    for model in ("era5_seamless", "cerra", "era5-land"):
        said = refusal(client, hourly="temperature_2m", models=f"era5,{model}")
        assert said == (
            f"The model {model} is not available. Leave models out, or set it to era5, era5_land or best_match."
        )
    said = refusal(client, hourly="temperature_2m,cloud_cover", models="era5_land")
    assert said.startswith(
        "The variable cloud_cover is not available: ERA5-Land has no total_cloud_cover. Leave it out"
    )
    early = {"start_date": "1949-12-31", "hourly": "temperature_2m"}
    assert "out of allowed range from 1950-01-01" in refusal(client, **early, models="era5_land")
    elsewhere = refusal(client, latitude=50, longitude=10, hourly="temperature_2m", models="era5_land")
    assert "era5 load --dataset era5-land" in elsewhere


def test_a_server_started_for_another_data_set_answers_that_by_default(both: Warehouse) -> None:
    with served(replace(both, dataset=ERA5_LAND)) as client:
        found = archive(client, hourly="temperature_2m")
        assert (found["latitude"], found["era5"]["datasets"][0]["name"]) == (9.9, "era5-land")
        assert archive(client, hourly="temperature_2m", models="era5")["latitude"] == 10.0
        health = client.get("/healthz").json()
        assert list(health["newest_hours_of"]) == ["era5"]


def test_pages_show_both_and_their_links_lead_somewhere(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["x-era5-dataset"] == "era5, era5-land"
    for words in (ERA5.title, ERA5_LAND.title, ERA5_LAND.doi, "grid of 0.1 degrees", "data ERA5-Land"):
        assert words in page.text, words
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+)"', page.text)}
    assert [link for link in links if "models=era5_land" in link]
    assert [link for link in links if "dataset=era5-land" in link]
    for link in links:
        assert client.get(link).status_code == 200, link
    moved = client.get("/place", params={"name": "9.9,9.9", "dataset": "era5-land"})
    assert moved.headers["location"] == "/place/9.9%2C9.9?dataset=era5-land"
    assert client.get("/healthz").json()["newest_hours_of"] == {"era5-land": {"files": "2023-07-31T23:00:00Z"}}
    assert client.get("/place/9.9,9.9?dataset=era6").status_code == 404


def test_the_climate_is_that_of_the_data_set(client: httpx.Client) -> None:
    for dataset, day in (("era5", celsius(OF_ERA5, 1, 1)), ("era5-land", celsius(OF_LAND, 2, 1))):
        answer = client.get("/v1/climate", params={**PLACE, "dataset": dataset, "table": "daily"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-era5-dataset"] == dataset
        second = next(one for one in answer.json()["daily"] if one["date"].startswith("2023-07-02"))
        assert second["mean_temperature"] == pytest.approx(day.mean(), abs=0.01)


def test_a_place_of_another_data_set_is_fetched_for_it(both: Warehouse, tmp_path: Path) -> None:
    with served(both, fetches=FetchRequests(tmp_path, places_a_day=1)) as client:
        asked = {**DAY, "latitude": 9.61, "longitude": 9.62, "hourly": "temperature_2m", "models": "era5_land"}
        answer = client.get("/v1/archive", params=asked)
        assert (answer.status_code, answer.json()["reason"].partition(" is not")[0]) == (
            503,
            "Latitude 9.6, longitude 9.6",
        )
        (fetch,) = FetchFolder(tmp_path, ERA5_LAND).unfinished()
        assert (fetch.location.latitude, FetchFolder(tmp_path).unfinished()) == (9.6, [])
        # The limit of a day is one for all data sets.
        assert client.get("/v1/archive", params={**asked, "latitude": 8, "models": "era5"}).status_code == 429
