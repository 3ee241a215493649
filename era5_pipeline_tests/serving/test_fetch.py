"""Tests of `serving/fetch`: the answers to requests for places that are not loaded, and the loads that they cause."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import openmeteo_requests
import psutil as _psutil
import pytest
import requests
from openmeteo_requests.Client import OpenMeteoRequestsError
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import read_settings
from era5_pipeline.planning import fetches as records
from era5_pipeline.planning.fetches import FetchFolder, PlaceFetch
from era5_pipeline.serving import fetch as serving_fetch
from era5_pipeline.serving import fetch_runner
from era5_pipeline.serving.fetch import FetchRequests
from era5_pipeline.serving.fetch_runner import running_fetches
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.pipelines import dagster_beside
from era5_pipeline_tests.served import served
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.warehouse.loads import ask, wait_until
from era5_pipeline_tests.zarr_stores import hours_between, write_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess
    from era5_pipeline_tests.flat_months import FlatMonths

psutil: Any = _psutil  # it comes without types

SECONDS = 180.0
PLACE: dict[str, Any] = {"latitude": 50.1, "longitude": -1.1}
HOURS: dict[str, Any] = {**PLACE, "start_date": "2020-02-28", "end_date": "2020-02-29", "hourly": "temperature_2m"}
WHERE = ERA5_GRID.nearest_location(**PLACE)
# An hour's place of `flat_months`.
HELD = ERA5_GRID.nearest_location(10.25, 20.25)


@pytest.fixture
def home(here: InProcess, server_url: str, embedded_warehouse: Warehouse, tmp_path: Path) -> Iterator[Path]:
    """The home of a server of an empty table, whose loads take two months from a repository, without a key."""
    here.set(
        ERA5_DATABASE_URL=embedded_warehouse.url,
        ERA5_EARTHMOVER_URL=f"icechunk+file://{tmp_path / 'open'}",
        ERA5_VARIABLES="t2m",
        CDSAPI_RC=str(tmp_path / "none"),
    )
    with dagster_beside(server_url, embedded_warehouse.url):
        yield here.home


def write_open_store(home: Path) -> None:
    write_repository(home / "open", hours_between(Month(2020, 1), Month(2020, 2)), ("temperature_2m",))


@contextmanager
def running() -> Iterator[list[str]]:
    """Run the loads in this context; yields what the server says of them."""
    said: list[str] = []
    with running_fetches(read_settings(), said.append):
        yield said


def together(*calls: Callable[[], httpx.Response]) -> list[httpx.Response]:
    found: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return found


def answered(call: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer when the place is there."""
    found: list[httpx.Response] = []

    def is_there() -> bool:
        found.append(call())
        return found[-1].status_code == 200

    wait_until(is_there, SECONDS)
    return found[-1]


def loads() -> list[Any]:
    """The processes that load a place."""
    return [one for one in psutil.Process().children() if "load" in one.cmdline() and "--yes" in one.cmdline()]


# --- Loads ------------------------------------------------------------------------------------------------------------


@NEEDS_ICECHUNK
def test_a_place_is_loaded_once_for_all_who_ask_and_then_answered(home: Path, embedded_warehouse: Warehouse) -> None:
    write_open_store(home)
    with served(embedded_warehouse, fetches=FetchRequests(home)) as client, running() as said:
        asking = together(
            *[lambda: client.get("/v1/archive", params=HOURS)] * 2,
            *[lambda: client.get("/v1/climate", params=PLACE)] * 2,
            *[lambda: client.get("/place/50.1,-1.1")] * 2,
        )
        by_status = sorted(asking, key=lambda answer: answer.status_code)
        assert [answer.status_code for answer in by_status] == [202] * 4 + [503] * 2
        assert {answer.headers["retry-after"] for answer in asking} == {"5"}
        refused = by_status[-1].json()
        assert refused["error"] is True
        assert refused["reason"].startswith("Latitude 50, longitude -1 is not loaded yet: ")
        archive = answered(lambda: client.get("/v1/archive", params=HOURS)).json()
        assert len(archive["hourly"]["temperature_2m"]) == 48
        assert None not in archive["hourly"]["temperature_2m"]
        assert client.get("/v1/climate", params=PLACE).json()["yearly"]
        page = client.get("/place/50.1,-1.1")
        assert (page.status_code, "refresh" in page.headers) == (200, False)
        wait_until(lambda: bool(said))
    assert said == ["loaded latitude 50, longitude -1 for a request"]
    assert ask(embedded_warehouse.url, "SELECT array_agg(month::text ORDER BY month) FROM era5.load_attempt") == [
        "2020-01-01",
        "2020-02-01",
    ]
    assert [path.name for path in (home / "fetch").glob(f"{WHERE.location_id}.*")] == [f"{WHERE.location_id}.lock"]


@NEEDS_ICECHUNK
def test_open_meteos_client_shows_the_reason_and_one_that_tries_again_gets_its_answer(
    home: Path, embedded_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_fetch, "RETRY_SECONDS", 1)
    write_open_store(home)
    with served(embedded_warehouse, fetches=FetchRequests(home)) as client, running():
        address = str(client.base_url.join("/v1/archive"))
        with pytest.raises(OpenMeteoRequestsError, match="Latitude 50, longitude -1 is not loaded yet"):
            openmeteo_requests.Client().weather_api(address, dict(HOURS))
        session = requests.Session()
        session.mount("http://", HTTPAdapter(max_retries=Retry(total=int(SECONDS), status_forcelist=[429, 503])))
        (found,) = openmeteo_requests.Client(session).weather_api(address, dict(HOURS))
        assert len(found.Hourly().Variables(0).ValuesAsNumpy()) == 48


@NEEDS_ICECHUNK
def test_a_load_that_fails_or_is_killed_is_explained_and_tried_again_only_after_a_while(
    home: Path, embedded_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> httpx.Response:
        return client.get("/v1/archive", params=HOURS)

    def failures() -> int:
        fetch = FetchFolder(home).find(WHERE)
        return fetch.failures if fetch and fetch.state == "failed" else 0

    with served(embedded_warehouse, fetches=FetchRequests(home)) as client, running() as said:
        # There is no repository yet.
        assert asked().status_code == 503
        wait_until(lambda: failures() == 1, SECONDS)
        for _ in range(3):
            refused = asked()
            reason = refused.json()["reason"]
            assert refused.status_code == 503
            assert 0 < int(refused.headers["retry-after"]) <= 600
            assert "could not be loaded: its source refused" in reason
            assert "era5 load --lat 50 --lon -1" in reason
            assert str(home) not in reason
        page = client.get("/place/50,-1")
        assert (page.status_code, "its source refused" in page.text) == (503, True)
        # The server's log has the details.
        assert len(said) == 1
        assert f"there is no Icechunk repository at file://{home}/open" in said[0]
        write_open_store(home)
        with monkeypatch.context() as soon:
            soon.setattr(records, "_PAUSE_SECONDS", 0.0)
            wait_until(lambda: bool(loads()), SECONDS)
        os.kill(loads()[0].pid, signal.SIGKILL)
        wait_until(lambda: failures() == 2, SECONDS)
        assert "it was ended from outside" in asked().json()["reason"]
        monkeypatch.setattr(records, "_PAUSE_SECONDS", 0.0)
        assert None not in answered(asked).json()["hourly"]["temperature_2m"]
    assert ask(embedded_warehouse.url, "SELECT count(*) FROM era5.month WHERE state = 'loaded'") == 2


@NEEDS_ICECHUNK
def test_a_load_is_interrupted_with_the_server_and_continued_by_the_next(
    home: Path, embedded_warehouse: Warehouse
) -> None:
    write_open_store(home)
    with served(embedded_warehouse, fetches=FetchRequests(home)) as client:
        with running() as said:
            assert client.get("/v1/climate", params=PLACE).status_code == 202
            wait_until(lambda: bool(loads()), SECONDS)
        assert (loads(), said) == ([], [])
        fetch = FetchFolder(home).find(WHERE)
        assert fetch is not None
        assert (fetch.state, fetch.failures) == ("waiting", 0)
        with running():
            answered(lambda: client.get("/v1/climate", params=PLACE))


def test_two_places_are_loaded_at_once_and_the_others_in_their_order(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each load is a process that ends when it is told to."""
    monkeypatch.setattr(fetch_runner, "fetch_command", lambda _: ("sleep", "600"))
    folder, places = FetchFolder(home), [ERA5_GRID.nearest_location(50, east) for east in range(4)]
    for number, place in enumerate(reversed(places)):
        folder.write(PlaceFetch(place.location_id, time.time() + number))

    def is_loading() -> list[bool]:
        found = [folder.find(place) for place in places]
        return [fetch is not None and fetch.state == "loading" for fetch in found]

    def sleeping() -> list[Any]:
        return [one for one in psutil.Process().children() if one.name() == "sleep"]

    with running():
        wait_until(lambda: len(sleeping()) == 2)
        assert is_loading() == [False, False, True, True]
        first, _ = sleeping()
        first.kill()
        wait_until(lambda: is_loading()[1] and len(sleeping()) == 2)
        assert sum(is_loading()) == 2
    assert sleeping() == []


def test_a_load_that_brings_nothing_is_a_failure(
    home: Path, embedded_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_runner, "fetch_command", lambda _: ("true",))
    with served(embedded_warehouse, fetches=FetchRequests(home)) as client:
        assert client.get("/v1/climate", params=PLACE).status_code == 202
        with running() as said:
            wait_until(lambda: client.get("/v1/climate", params=PLACE).status_code == 503)
        reason = client.get("/v1/climate", params=PLACE).json()["reason"]
    assert "could not be loaded: its sources have nothing there" in reason
    assert "ERA5_FETCH_DATABASE_URL names another database" in said[0]


# --- Answers, without loads -------------------------------------------------------------------------------------------


def test_progress_is_months_of_all(home: Path, warehouse_with_july: Warehouse) -> None:
    """A place is not answered from the months that its load has brought so far."""
    FetchFolder(home).write(PlaceFetch(HELD.location_id, time.time(), "loading", months=1035))
    with served(warehouse_with_july, fetches=FetchRequests(home)) as client:
        asked = {"latitude": HELD.latitude, "longitude": HELD.longitude}
        answer = client.get("/v1/climate", params=asked)
        assert (answer.status_code, answer.headers["retry-after"]) == (202, "5")
        assert answer.json() == {
            "reason": "Latitude 10.25, longitude 20.25 is not loaded yet: being loaded, 1 of 1,035 months so far. "
            "Ask again in 5 seconds.",
            "places": [{**asked, "state": "loading", "months": 1, "of_months": 1035}],
        }
        page = client.get("/place/10.25,20.25")
        assert (page.status_code, page.headers["refresh"], page.headers["retry-after"]) == (202, "5", "5")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "being loaded, 1 of 1,035 months so far" in page.text
        assert 'value="1" max="1035"' in page.text
        assert client.head("/v1/climate", params=asked).status_code == 202
        described = client.get("/openapi.json").json()["paths"]
        assert {"202", "429"} <= set(described["/v1/climate"]["get"]["responses"])


def test_what_failed_loads_have_left_is_answered(home: Path, warehouse_with_july: Warehouse) -> None:
    failed = PlaceFetch(HELD.location_id, time.time(), "failed", 1035, failures=1, exit_code=7, failed_at=time.time())
    with served(warehouse_with_july, fetches=FetchRequests(home)) as client:
        FetchFolder(home).write(failed)
        assert client.get("/place/10.25,20.25").status_code == 200
        FetchFolder(home).write(replace(failed, state="loading"))
        assert client.get("/place/10.25,20.25").status_code == 202


def test_requests_that_cannot_be_answered_ask_for_nothing(home: Path, embedded_warehouse: Warehouse) -> None:
    from_another_site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    in_a_frame = {**from_another_site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    by_a_link = {**from_another_site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    by_its_script = {**from_another_site, "Sec-Fetch-Mode": "cors", "Origin": "https://one.example"}
    with served(embedded_warehouse, fetches=FetchRequests(home), cors_origins=("https://one.example",)) as client:
        for path, status in (
            ("/healthz", 200),
            ("/metrics", 200),
            ("/", 200),
            ("/docs", 200),
            ("/v1/climate", 400),
            ("/v1/climate?latitude=91&longitude=0", 400),
            ("/v1/climate?place=Nowhereville", 400),
            ("/v1/climate?latitude=50&longitude=1&start=never", 400),
            ("/v1/archive?latitude=50&longitude=1", 400),
            ("/v1/archive?latitude=50&longitude=1&start_date=2020-01-01&end_date=2020-01-02&hourly=wether", 400),
            # It needs nothing from the table.
            ("/v1/archive?latitude=50&longitude=1&start_date=2020-01-01&end_date=2020-01-02&hourly=is_day", 200),
            # A load without a list of variables would not bring it.
            ("/v1/archive?latitude=50&longitude=1&start_date=2020-01-01&end_date=2020-01-02&hourly=snow_depth", 400),
            ("/place/Nowhereville", 404),
            ("/place/91,0", 404),
        ):
            assert client.get(path).status_code == status, path
        for path in ("/v1/climate?latitude=50&longitude=1", "/place/50,1"):
            assert client.head(path).status_code in (400, 404)
            assert client.get(path, headers=from_another_site).status_code in (400, 404)
            assert client.get(path, headers=in_a_frame).status_code in (400, 404)
        assert FetchFolder(home).unfinished() == []
        assert client.get("/place/50,1", headers=by_a_link).status_code == 202
        assert client.get("/v1/climate?latitude=50&longitude=2", headers=by_its_script).status_code == 202
        assert len(FetchFolder(home).unfinished()) == 2


def test_places_of_a_day_are_counted_once_and_over_restarts(home: Path, embedded_warehouse: Warehouse) -> None:
    def status(east: float) -> int:
        return client.get("/v1/climate", params={"latitude": 50, "longitude": east}).status_code

    for _ in range(2):
        with served(embedded_warehouse, fetches=FetchRequests(home, places_a_day=2)) as client:
            assert [status(1), status(2), status(3), status(1)] == [202, 202, 429, 202]
            refused = client.get("/v1/archive", params={**HOURS, "longitude": 3})
            assert refused.status_code == 429
            assert 0 < int(refused.headers["retry-after"]) <= 86_400
            assert "at most 2 places a day" in refused.json()["reason"]
            page = client.get("/place/50,3")
            assert (page.status_code, "at most 2 places a day" in page.text) == (429, True)
    assert len(FetchFolder(home).unfinished()) == 2
    day = home / "fetch" / "day.json"
    day.write_text(json.dumps(json.loads(day.read_text()) | {"day": "2020-01-01"}), encoding="utf-8")
    with served(embedded_warehouse, fetches=FetchRequests(home, places_a_day=2)) as client:
        assert [status(3), status(4), status(5)] == [202, 202, 429]


def test_only_some_places_may_wait(home: Path, embedded_warehouse: Warehouse) -> None:
    east = ",".join(str(number / 4) for number in range(101))
    with served(embedded_warehouse, fetches=FetchRequests(home)) as client:
        refused = client.get("/v1/archive", params={**HOURS, "latitude": ",".join(["50"] * 101), "longitude": east})
        assert refused.status_code == 503
        assert "no more than 100 may wait" in refused.json()["reason"]
        assert FetchFolder(home).unfinished() == []
        three = client.get("/v1/archive", params={**HOURS, "latitude": "50,50,50", "longitude": "1,1.1,2"})
        assert "longitude 1 is not loaded yet: waiting for its turn; 1 other place too" in three.json()["reason"]
        assert len(FetchFolder(home).unfinished()) == 2


def test_without_fetches_an_absent_place_is_refused_as_ever(home: Path, warehouse_with_july: Warehouse) -> None:
    FetchFolder(home).write(PlaceFetch(HELD.location_id, time.time(), "loading"))
    with served(warehouse_with_july) as client:
        assert client.get("/v1/climate", params=PLACE).status_code == 400
        page = client.get("/place/Southampton")
        assert page.status_code == 404
        assert "era5 load --place &#34;Southampton, United Kingdom&#34;." in page.text
        assert client.get("/place/10.25,20.25").status_code == 200
        assert "202" not in client.get("/openapi.json").json()["paths"]["/v1/climate"]["get"]["responses"]


@pytest.fixture
def warehouse_with_july(embedded_warehouse: Warehouse, flat_months: FlatMonths) -> Warehouse:
    """July 2023 around `HELD`."""
    load_month(embedded_warehouse, flat_months("2023-07"))
    return embedded_warehouse
