"""Pages: what is loaded, the routes, a place's climate; they load nothing from a network, and escape what is asked."""

from __future__ import annotations

import re
from functools import partial
from html import unescape
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.climate.question import climate_question
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.places import find_place
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.report.page import report_page
from era5_pipeline.serving.pages import asked_place
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline_tests.flat_months import FlatMonths

DOHA = find_place("Doha")
CELL = ERA5_GRID.nearest_location(DOHA.latitude, DOHA.longitude)


@pytest.fixture(scope="module")
def doha(shared_database_url: str, flat_months: FlatMonths) -> Warehouse:
    """June to August 2023 at Doha's cell and three others."""
    warehouse = Warehouse(shared_database_url)
    for seed, month in enumerate(("2023-06", "2023-07", "2023-08"), start=1):
        flat = flat_months(month, points=(2, 2), seed=seed, north=CELL.latitude, west=CELL.longitude)
        load_month(warehouse, flat)
    return warehouse


@pytest.fixture(scope="module")
def client(doha: Warehouse) -> Iterator[httpx.Client]:
    with served(doha) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/docs", "/place/doha", "/place/springfield", "/place/nowhere-at-all"])
def test_a_page_loads_nothing_and_runs_nothing(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "<script" not in answer.text
    loaded = re.findall(r"<(?:link|img|iframe|object|embed|source|use)\b[^>]*", answer.text)
    assert [one for one in loaded if re.search(r'(src|href)="(?!#|data:)', one)] == []
    assert "@import" not in answer.text
    assert answer.text.startswith("<!DOCTYPE html>")


def test_the_start_page_says_what_is_loaded_and_its_links_lead_somewhere(client: httpx.Client) -> None:
    text = client.get("/").text
    assert "3: 2023-06 to 2023-08" in text
    assert "4 points of ERA5" in text
    assert "temperature_2m, total_precipitation" in text
    assert "Contains modified Copernicus Climate Change Service information 2023; " in text
    links = [unescape(link) for link in re.findall(r'href="([^"]+)"', text)]
    paths = [link.split("?")[0] for link in links]
    assert [path for path in paths if path.startswith(("/v1/", "/place"))] == [
        *(f"/place/{DOHA.geoname_id}", "/v1/archive", "/v1/climate")
    ]
    assert f'For example: <a href="/place/{DOHA.geoname_id}">Doha, Qatar</a>.' in text
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200, link
        if link.startswith("/v1/archive"):
            assert len([value for value in answer.json()["hourly"]["temperature_2m"] if value is not None]) == 24
        if link.startswith("/v1/climate"):
            assert answer.json()["yearly"]


def test_examples_are_of_the_fullest_month_and_not_of_the_newest_or_the_largest(
    database_url: str, flat_months: FlatMonths
) -> None:
    """An hour of many cities, a whole month at Doha, that with rain a month earlier, and a newer day there."""
    warehouse = Warehouse(database_url)
    at_doha = partial(flat_months, north=CELL.latitude, west=CELL.longitude)
    load_month(warehouse, flat_months("2023-05", points=(8, 8), north=31.5, west=120.5, names=("t2m",), hours=1))
    load_month(warehouse, at_doha("2023-06", points=(1, 2)))
    load_month(warehouse, at_doha("2023-07", points=(2, 2), names=("t2m",)))
    load_month(warehouse, at_doha("2023-08", points=(2, 2), hours=30))
    with served(warehouse) as client:
        text = client.get("/").text
        links = [unescape(link) for link in re.findall(r'href="([^"]+)"', text)]
        point = f"latitude={CELL.latitude:g}&longitude={CELL.longitude:g}"
        assert f'<a href="/place/{DOHA.geoname_id}">Doha, Qatar</a>' in text
        assert f"/v1/climate?{point}" in links
        (hours,) = (link for link in links if link.startswith("/v1/archive"))
        assert f"{point}&start_date=2023-06-" in hours
        assert None not in client.get(hours).json()["hourly"]["temperature_2m"]


def test_coordinates_have_a_page_and_what_is_not_loaded_leads_to_the_nearest_that_is(client: httpx.Client) -> None:
    page = client.get(f"/place/{CELL.latitude},{CELL.longitude}")
    assert page.status_code == 200
    assert client.get("/place", params={"name": f" {CELL.latitude}  {CELL.longitude} "}).headers["location"] == (
        f"/place/{CELL.latitude}%20%20{CELL.longitude}"
    )
    assert client.get(f"/place/{CELL.latitude}  {CELL.longitude}").status_code == 200
    for name in ("Dubai", "24.9,55.2"):
        answer = client.get(f"/place/{name}")
        assert answer.status_code == 404
        (link,) = re.findall(r'The page of the nearest place that is loaded: <a href="([^"]+)">', answer.text)
        assert answer.text.count(" km away") == 1
        assert "2023-06 to 2023-08" in answer.text
        assert client.get(link).status_code == 200
    for wrong in ("91,0", "0,999", "1e5,3", "nan,nan", "1,2,3", "1,"):
        assert client.get(f"/place/{wrong}").status_code == 404


def test_the_page_of_routes_has_every_route_with_parameters_and_examples(client: httpx.Client) -> None:
    text = client.get("/docs").text
    for path, found in client.get("/openapi.json").json()["paths"].items():
        assert f"<code>{path}</code></h2>" in text
        for parameter in found["get"].get("parameters", ()):
            assert f"<code>{parameter['name']}</code>" in text
    assert '<a href="/place/jakarta">' in text


def test_a_place_is_what_era5_report_writes(client: httpx.Client, doha: Warehouse) -> None:
    answer = client.get("/place/doha")
    assert answer.status_code == 200
    asked = asked_place("Doha")
    assert not isinstance(asked, list)
    with doha.connect() as connection:
        assert answer.text == report_page(read_climate(connection, climate_question(asked)))
    assert client.get("/place/Doha, Qatar").text == client.get(f"/place/{DOHA.geoname_id}").text == answer.text


def test_a_place_is_read_again_only_when_its_months_change(
    client: httpx.Client, doha: Warehouse, flat_months: FlatMonths
) -> None:
    before = client.get("/place/doha")
    known = {"If-None-Match": before.headers["etag"]}
    assert client.get("/place/doha", headers=known).status_code == 304

    with psycopg.connect(doha.url) as connection:
        # Nobody can read the hours meanwhile.
        connection.execute("LOCK TABLE weather IN ACCESS EXCLUSIVE MODE")
        assert client.get("/place/doha?again").text == before.text

    again = flat_months("2023-08", points=(2, 2), seed=9, north=CELL.latitude, west=CELL.longitude)
    load_month(doha, again)
    after = client.get("/place/doha", headers=known)
    assert after.status_code == 200
    assert after.headers["etag"] != before.headers["etag"]
    assert after.text != before.text


def test_a_misspelt_name_leads_to_the_city(client: httpx.Client) -> None:
    answer = client.get("/place/Dohha")
    assert answer.status_code == 404
    assert re.findall(r"Did you mean (.*)\?</p>", answer.text) == ['<a href="/place/Doha">Doha, Qatar</a>']
    assert client.get("/place/Doha").status_code == 200
    # A country has no page of its own. Neither page speaks of a command or of parameters; both let search again.
    of_country, elsewhere = client.get("/place/Qatar"), client.get("/place/Paris, Qatar")
    assert '<a href="/place/Doha">Doha, Qatar</a>' in of_country.text
    assert '<a href="/place/Paris">Paris, France</a>' in elsewhere.text
    for page in (answer, of_country, elsewhere, client.get("/place/1e5,3")):
        assert "--" not in page.text.partition("<main>")[2]
        assert "latitude=" not in page.text
        assert '<form action="/place" method="get">' in page.text


def test_a_suggested_city_whose_name_means_another_is_linked_by_its_number(client: httpx.Client) -> None:
    links = re.findall(r'<a href="(/place/[^"]+)">([^<]+)</a>', client.get("/place/Springfeld").text)
    assert any(re.fullmatch(r"/place/\d+", path) and name.startswith("Springfield, ") for path, name in links)


def test_a_name_of_several_cities_is_a_page_of_links(client: httpx.Client) -> None:
    answer = client.get("/place/Springfield")
    assert answer.status_code == 300
    links = re.findall(r'<a href="(/place/\d+)">([^<]+)</a>', answer.text)
    assert len(links) > 3
    assert sum(text.startswith("Springfield, ") and "United States" in text for _, text in links) > 3
    assert "Springfield" in client.get(links[0][0]).text  # nothing is loaded there, and it says so


# More of them, of every parameter: test_fuzzed.
NAMES = {
    "script": "<script>alert(1)</script>",
    "quote": '"><img src=x onerror=alert(1)>',
    "bytes": "%ff%fe",
    "direction": "%e2%80%aegnoht",
    "number": "12345678901234567890",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_is_only_ever_text(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/place/{name}")
    assert answer.status_code == 404
    assert "<script" not in answer.text
    assert "<img" not in answer.text
    assert "\u202e" not in answer.text
    assert client.get("/place/doha").status_code == 200


def test_the_form_leads_to_the_page(client: httpx.Client) -> None:
    answer = client.get("/place", params={"name": "Paris, Texas"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/place/Paris%2C%20Texas")
    # Never to another server.
    answer = client.get("/place", params={"name": "//example.org/"})
    assert answer.headers["location"] == "/place/%2F%2Fexample.org%2F"
    assert client.get("/place", params={"name": " "}).status_code == 400


def test_without_months_the_start_page_says_how_to_load_one(database_url: str) -> None:
    with served(Warehouse(database_url)) as client:
        assert "No month is loaded yet" in client.get("/").text
        assert client.get("/place/doha").status_code == 404
