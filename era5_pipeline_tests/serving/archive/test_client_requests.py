"""Open-Meteo's official clients on `era5 serve`, unchanged but for the address; and what they send, by hand."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import openmeteo_requests
import pytest
from openmeteo_requests.Client import OpenMeteoRequestsError
from openmeteo_sdk.Unit import Unit
from openmeteo_sdk.Variable import Variable

from era5_pipeline.planning.fetches import FetchFolder
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.fetch import FetchRequests
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    import httpx

    from era5_pipeline_tests.flat_months import FlatMonths

PLACE: dict[str, Any] = {"latitude": 10.8, "longitude": 106.3}
JANUARY: dict[str, Any] = {**PLACE, "start_date": "2022-01-01", "end_date": "2022-01-31"}
NPM = Path(__file__).with_name("openmeteo_npm")
NPM_SECONDS = 180
# Half a decimal, and what float32 adds.
TENTH = 0.05 + 1e-4


def address(client: httpx.Client) -> str:
    return str(client.base_url.join("/v1/archive"))


def understood(client: httpx.Client, method: str, **parameters: Any) -> list[Any]:
    found: list[Any] = openmeteo_requests.Client().weather_api(address(client), parameters, method)
    return found


# --- The Python client ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_python_client_reads_hours_and_days_of_the_file(client: httpx.Client, mekong: Any, method: str) -> None:
    (found,) = understood(
        client,
        method,
        **JANUARY,
        hourly=["temperature_2m", "wind_speed_10m"],
        daily=["temperature_2m_max"],
        temperature_unit="fahrenheit",
        wind_speed_unit="ms",
    )
    assert (found.Latitude(), found.Longitude(), found.UtcOffsetSeconds()) == (10.75, 106.25, 0)
    hourly, daily, file = found.Hourly(), found.Daily(), mekong.loc["2022-01"]
    assert (hourly.Time(), hourly.Interval()) == (file.index[0].timestamp(), 3_600)
    assert hourly.TimeEnd() == file.index[-1].timestamp() + 3_600
    temperature, wind, highest = hourly.Variables(0), hourly.Variables(1), daily.Variables(0)
    assert [temperature.Unit(), wind.Unit(), highest.Unit()] == [
        *(Unit.fahrenheit, Unit.metre_per_second, Unit.fahrenheit),
    ]
    fahrenheit = (file["t2m"] - 273.15) * 1.8 + 32
    np.testing.assert_allclose(temperature.ValuesAsNumpy(), fahrenheit, atol=2e-3, rtol=0)
    np.testing.assert_allclose(wind.ValuesAsNumpy(), np.hypot(file["u10"], file["v10"]), atol=1e-3, rtol=0)
    np.testing.assert_allclose(highest.ValuesAsNumpy(), fahrenheit.resample("D").max(), atol=2e-3, rtol=0)


def test_the_python_client_reads_several_places_and_gaps(client: httpx.Client, gulf: Any) -> None:
    other = gulf["t2m"].isel(latitude=0, longitude=0)
    found = understood(
        client,
        "POST",
        latitude=[10.75, float(other.latitude)],
        longitude=[106.25, float(other.longitude)],
        start_date=["2022-01-30", "2023-07-01"],
        end_date=["2022-03-02", "2023-07-02"],
        hourly="temperature_2m",
    )
    assert [one.LocationId() for one in found] == [0, 1]
    first, second = (one.Hourly().Variables(0).ValuesAsNumpy() for one in found)
    assert np.isnan(first).tolist() == [False] * 48 + [True] * 28 * 24 + [False] * 48
    np.testing.assert_allclose(second, other.sel(time="2023-07").values[:48] - 273.15, atol=1e-3, rtol=0)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_python_client_shows_the_reason_of_a_refusal(client: httpx.Client, method: str) -> None:
    with pytest.raises(OpenMeteoRequestsError, match="Did you mean temperature_2m"):
        understood(client, method, **JANUARY, hourly=["temperatur_2m"])


def test_a_server_without_database_is_429_for_the_clients_of_flatbuffers() -> None:
    with served(Warehouse("postgresql://nobody@127.0.0.1:1/era5"), ServingLimits(wait_seconds=0.5)) as client:
        parameters = {**JANUARY, "hourly": "temperature_2m"}
        assert client.get("/v1/archive", params=parameters).status_code == 503
        refused = client.get("/v1/archive", params={**parameters, "format": "flatbuffers"})
        assert (refused.status_code, refused.json()["error"]) == (429, True)
        assert refused.headers["retry-after"]
        with pytest.raises(OpenMeteoRequestsError, match="reason"):
            understood(client, "GET", **parameters)


# --- The npm client ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm package, of the version and the digests of `package-lock.json`."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json", "ask.mjs"):
        shutil.copy(NPM / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_SECONDS, check=False)
    if done.returncode and "EINTEGRITY" not in done.stderr:
        pytest.skip(f"npm has no openmeteo here: {done.stderr.strip().splitlines()[-1:]}")
    assert not done.returncode, done.stderr
    return folder


def asked_by_npm(folder: Path, client: httpx.Client, **parameters: Any) -> Any:
    command = ["node", "ask.mjs", address(client), json.dumps(parameters)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=NPM_SECONDS, check=True)
    return json.loads(done.stdout)


def test_the_npm_client_reads_what_json_has(client: httpx.Client, npm_folder: Path) -> None:
    parameters: dict[str, Any] = {
        "latitude": [10.75, 10.75],
        "longitude": [106.25, 106.25],
        "start_date": "2022-01-31",
        "end_date": "2022-02-01",
        "hourly": ["temperature_2m", "precipitation"],
        "daily": ["precipitation_sum"],
        "timezone": "Asia/Jakarta",
    }
    found = asked_by_npm(npm_folder, client, **parameters)
    lists = {name: ",".join(map(str, value)) for name, value in parameters.items() if isinstance(value, list)}
    expected = client.get("/v1/archive", params={**parameters, **lists, "timeformat": "unixtime"}).json()
    for one, other in zip(found, expected, strict=True):
        assert (one["latitude"], one["timezone"], one["offset"]) == (10.75, "Asia/Jakarta", 25_200)
        hourly, daily = one["hourly"], one["daily"]
        assert (hourly["time"], hourly["interval"]) == (other["hourly"]["time"][0], 3_600)
        assert hourly["timeEnd"] == other["hourly"]["time"][-1] + 3_600
        assert [variable["variable"] for variable in hourly["variables"]] == [
            *(Variable.temperature, Variable.precipitation),
        ]
        temperature = list(zip(hourly["variables"][0]["values"], other["hourly"]["temperature_2m"], strict=True))
        assert all((value is None) == (known is None) for value, known in temperature)
        assert sum(known is None for _, known in temperature) == 17  # of February in UTC, which is not loaded
        assert max(abs(value - known) for value, known in temperature if known is not None) <= TENTH
        assert daily["variables"][0]["values"][1] is None


def test_the_npm_client_shows_the_reason_of_a_refusal(client: httpx.Client, npm_folder: Path) -> None:
    found = asked_by_npm(npm_folder, client, **{**JANUARY, "latitude": 91}, hourly="temperature_2m")
    assert found == {"reason": "Latitude must be in range of -90 to 90°. Given: 91.0."}


def test_the_npm_client_shows_that_a_place_is_being_loaded_and_then_reads_it(
    embedded_warehouse: Warehouse, flat_months: FlatMonths, npm_folder: Path, tmp_path: Path
) -> None:
    day = {"start_date": "2023-07-01", "end_date": "2023-07-01", "hourly": "temperature_2m"}
    with served(embedded_warehouse, fetches=FetchRequests(tmp_path)) as client:
        found = asked_by_npm(npm_folder, client, latitude=10.25, longitude=20.25, **day)
        assert found["reason"].startswith("Latitude 10.25, longitude 20.25 is not loaded yet: waiting for its turn.")
        load_month(embedded_warehouse, flat_months("2023-07"))
        (fetch,) = FetchFolder(tmp_path).unfinished()
        FetchFolder(tmp_path).end(fetch, 0)
        (place,) = asked_by_npm(npm_folder, client, latitude=10.25, longitude=20.25, **day)
    assert len(place["hourly"]["variables"][0]["values"]) == 24


# --- The examples of docs/http.md -------------------------------------------------------------------------------------


def example(language: str, client: httpx.Client) -> str:
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(found).replace("http://127.0.0.1:8000", str(client.base_url))


def test_the_example_in_python_works(client: httpx.Client, mekong: Any) -> None:
    found: dict[str, Any] = {}
    exec(example("python", client), found)
    celsius = mekong.loc["2022-01-01":"2022-01-02"]["t2m"] - 273.15
    np.testing.assert_allclose(found["temperatures"], celsius, atol=1e-3, rtol=0)


def test_the_example_in_javascript_works(client: httpx.Client, npm_folder: Path, mekong: Any) -> None:
    text = example("js", client) + "console.log(JSON.stringify(Array.from(temperatures)));"
    (npm_folder / "example.mjs").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["node", "example.mjs"], cwd=npm_folder, capture_output=True, text=True, timeout=NPM_SECONDS, check=True
    )
    celsius = mekong.loc["2022-01-01":"2022-01-02"]["t2m"] - 273.15
    np.testing.assert_allclose(json.loads(done.stdout), celsius, atol=1e-3, rtol=0)


# --- Forms and statuses, by hand --------------------------------------------------------------------------------------


def test_a_form_json_and_a_url_are_the_same_question(client: httpx.Client) -> None:
    asked = {**JANUARY, "hourly": ["temperature_2m", "precipitation"]}
    answers = [
        client.get("/v1/archive", params=asked),
        client.post("/v1/archive", data=asked),
        client.post("/v1/archive", json={**asked, "timezone": None}),
        client.post("/v1/archive", params={"hourly": "temperature_2m,precipitation"}, data=JANUARY),
        client.get("/v1/archive", params={**JANUARY, "hourly[]": asked["hourly"]}),
        client.get("/v1/archive", params={**JANUARY, "hourly": "temperature_2m|precipitation"}),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    expected = answers[0].json()["hourly"]
    assert [answer.json()["hourly"] == expected for answer in answers] == [True] * len(answers)
    assert "etag" in answers[0].headers
    assert "etag" not in answers[1].headers
    assert answers[1].headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (b"x" * 200_000, "application/x-www-form-urlencoded", 413, "more than 131,072 bytes"),
        (b"<latitude/>", "text/xml", 415, "A body of text/xml is not read"),
        (b"{", "application/json", 400, "The body is not JSON"),
        (b"[1]", "application/json", 400, "it is not an object"),
        (b'{"hourly": {"0": "temperature_2m"}}', "application/json", 400, "hourly is neither a value nor a list"),
        (b"", "application/x-www-form-urlencoded", 400, "Both 'start_date' and 'end_date' must be set"),
    ],
)
def test_a_body_that_holds_no_question_is_refused_with_the_reason(
    client: httpx.Client, content: bytes, kind: str, status: int, words: str
) -> None:
    answer = client.post("/v1/archive", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["error"]) == (status, True)
    assert words in answer.json()["reason"]


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    with served(Warehouse("postgresql://nobody@127.0.0.1:1/era5"), ServingLimits(wait_seconds=0.5)) as impatient:
        host, port = impatient.base_url.host, impatient.base_url.port
        assert port is not None
        with socket.create_connection((host, port), timeout=60) as slow:
            slow.sendall(b"POST /v1/archive HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nlat")
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")


def test_too_many_places_are_refused_before_any_is_read(client: httpx.Client) -> None:
    many = ",".join(["1"] * 4_001)
    answer = client.post("/v1/archive", data={**JANUARY, "latitude": many, "longitude": many})
    assert answer.status_code == 400
    assert "4,001 places are requested, and the limit is 4,000" in answer.json()["reason"]


def test_an_etag_of_flatbuffers_is_known_again(client: httpx.Client) -> None:
    parameters = {**JANUARY, "hourly": "temperature_2m", "format": "flatbuffers"}
    first = client.get("/v1/archive", params=parameters)
    assert first.headers["content-type"] == "application/octet-stream"
    again = client.get("/v1/archive", params=parameters, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
