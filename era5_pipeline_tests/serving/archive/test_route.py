"""`/v1/archive` on real months and each layout: values of the files, gaps, refusals, and what clients of it do."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from openmeteo_sdk.Aggregation import Aggregation
from openmeteo_sdk.Unit import Unit as SdkUnit
from openmeteo_sdk.Variable import Variable
from openmeteo_sdk.WeatherApiResponse import WeatherApiResponse

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.serving.archive.answer import read_elevations
from era5_pipeline.serving.archive.formats import ARCHIVE_RESPONSE
from era5_pipeline.serving.archive.parameters import ARCHIVE_PARAMETERS
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from era5_pipeline.postgres.connect import Warehouse

PLACE = {"latitude": "10.8", "longitude": "106.3"}
JANUARY = {**PLACE, "start_date": "2022-01-01", "end_date": "2022-01-31"}
# Half a decimal, and what float32 adds.
TENTH, HUNDREDTH = 0.05 + 1e-4, 0.005 + 1e-5


def answer_of(client: httpx.Client, **parameters: Any) -> Any:
    answer = client.get("/v1/archive", params=parameters)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    return answer.json()


def numbers(values: list[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def test_a_month_has_the_values_of_the_file_in_their_units(client: httpx.Client, mekong: Any) -> None:
    variables = "temperature_2m,precipitation,wind_speed_10m,wind_direction_10m"
    found = answer_of(client, **JANUARY, hourly=variables)
    assert (found["latitude"], found["longitude"]) == (10.75, 106.25)
    assert list(found["hourly_units"].values()) == ["iso8601", "°C", "mm", "km/h", "°"]
    file, hours = mekong.loc["2022-01"], found["hourly"]
    assert hours["time"] == [f"{time:%Y-%m-%dT%H:%M}" for time in file.index]
    np.testing.assert_allclose(numbers(hours["temperature_2m"]), file["t2m"] - 273.15, atol=TENTH, rtol=0)
    np.testing.assert_allclose(numbers(hours["precipitation"]), file["tp"] * 1000, atol=HUNDREDTH, rtol=0)
    speed = np.hypot(file["u10"], file["v10"]) * 3.6
    np.testing.assert_allclose(numbers(hours["wind_speed_10m"]), speed, atol=TENTH, rtol=0)
    direction = np.degrees(np.arctan2(-file["u10"], -file["v10"])) % 360
    turned = (numbers(hours["wind_direction_10m"]) - direction + 180) % 360 - 180
    assert np.abs(turned).max() <= 0.501
    assert all(round(value, 1) == value for value in hours["temperature_2m"])
    assert all(type(value) is int for value in hours["wind_direction_10m"])
    assert not {"missing_months", "missing_hours"} & set(found)


def test_days_of_a_zone_are_those_of_the_files_hours(client: httpx.Client, mekong: Any) -> None:
    names = "temperature_2m_mean,temperature_2m_max,temperature_2m_min,precipitation_sum,wind_speed_10m_max"
    found = answer_of(client, **JANUARY, daily=names, timezone="Asia/Ho_Chi_Minh")
    assert (found["utc_offset_seconds"], found["timezone"]) == (25_200, "Asia/Ho_Chi_Minh")
    local = mekong.loc["2021-12-31T17":"2022-01-31T16"].copy()
    local.index += pd.Timedelta(hours=7)
    days, daily = local.resample("D"), found["daily"]
    assert daily["time"] == [f"{day:%Y-%m-%d}" for day in days.mean().index]
    for name, values in (("mean", days["t2m"].mean()), ("max", days["t2m"].max()), ("min", days["t2m"].min())):
        np.testing.assert_allclose(numbers(daily[f"temperature_2m_{name}"]), values - 273.15, atol=TENTH, rtol=0)
    total = days["tp"].sum() * 1000
    np.testing.assert_allclose(numbers(daily["precipitation_sum"]), total, atol=HUNDREDTH, rtol=0)
    speed = np.hypot(local["u10"], local["v10"]).resample("D").max() * 3.6
    np.testing.assert_allclose(numbers(daily["wind_speed_10m_max"]), speed, atol=TENTH, rtol=0)


def test_csv_has_the_same_values(client: httpx.Client) -> None:
    parameters = {**JANUARY, "hourly": "temperature_2m,precipitation", "daily": "temperature_2m_mean"}
    answer = client.get("/v1/archive", params={**parameters, "format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="era5-10.75N106.25E.csv"'
    place, hours, days = answer.text.split("\n\n")
    assert next(csv.DictReader(io.StringIO(place)))["timezone_abbreviation"] == "GMT"
    found = answer_of(client, **parameters)
    table = pd.read_csv(io.StringIO(hours))
    assert table["time"].tolist() == found["hourly"]["time"]
    assert table["temperature_2m (°C)"].tolist() == found["hourly"]["temperature_2m"]
    assert table["precipitation (mm)"].tolist() == found["hourly"]["precipitation"]
    assert pd.read_csv(io.StringIO(days))["temperature_2m_mean (°C)"].tolist() == found["daily"]["temperature_2m_mean"]


def test_every_format_says_where_the_data_come_from_and_what_a_day_is(client: httpx.Client) -> None:
    parameters = {**JANUARY, "daily": "precipitation_sum"}
    formats: tuple[dict[str, str], ...] = ({}, {"format": "csv"}, {"format": "flatbuffers"})
    asked = [client.get("/v1/archive", params={**parameters, **more}) for more in formats]
    asked.append(client.post("/v1/archive", data=parameters))
    for answer in asked:
        assert answer.status_code == 200
        headers = answer.headers
        assert (headers["x-era5-sources"], headers["x-era5-versions"]) == ("files", "unknown")
        assert (
            headers["x-era5-credit"] == "Contains modified Copernicus Climate Change Service information 2022; "
            "data ERA5, C3S/ECMWF (version not stated)"
        )
        assert "00:00 to 23:00" in headers["x-era5-day-rule"]
        assert "x-era5-notice" not in headers
    found = asked[0].json()
    assert (next(iter(found)), list(found)[-1]) == ("latitude", "era5")
    (dataset,) = found["era5"].pop("datasets")
    assert (dataset["name"], dataset["doi"]) == ("era5", "10.24381/cds.adbb2d47")
    assert found["era5"] == {
        "sources": ["files"],
        "versions": ["unknown"],
        "credit": asked[0].headers["x-era5-credit"],
        "day_rule": asked[0].headers["x-era5-day-rule"],
    }
    again = client.get("/v1/archive", params=parameters, headers={"If-None-Match": asked[0].headers["etag"]})
    assert (again.status_code, again.headers["x-era5-sources"]) == (304, "files")
    hourly = client.get("/v1/archive", params={**JANUARY, "hourly": "precipitation"})
    assert "x-era5-day-rule" not in hourly.headers


def test_each_answer_counts_the_rain_of_midnight_by_the_rule_that_it_names(client: httpx.Client, mekong: Any) -> None:
    """The rain of 00:00 is that of the hour before: it is the next day's here, and the same day's in /v1/climate."""
    march = {**PLACE, "start_date": "2022-03-01", "end_date": "2022-03-30"}
    archive = client.get("/v1/archive", params={**march, "daily": "precipitation_sum"})
    climate = client.get("/v1/climate", params={**PLACE, "start": "2022-03", "end": "2022-03", "table": "daily"})
    labelled = mekong["tp"].resample("D").sum().loc["2022-03-01":"2022-03-30"] * 1000
    ending = mekong["tp"].shift(-1).resample("D").sum().loc["2022-03-01":"2022-03-30"] * 1000
    archived = archive.json()["daily"]["precipitation_sum"]
    counted = [day["precipitation"] for day in climate.json()["daily"]][:30]
    np.testing.assert_allclose(archived, labelled, atol=HUNDREDTH, rtol=0)
    np.testing.assert_allclose(counted, ending, atol=HUNDREDTH, rtol=0)
    assert (archived[27], round(counted[27], 2)) == (7.06, 7.15)  # as docs/http.md says
    assert "counts to the day that begins then" in archive.json()["era5"]["day_rule"]
    assert "from 01:00 to 24:00" in climate.json()["days"]["rule"]
    assert climate.json()["days"]["rule"] == climate.headers["x-era5-day-rule"]
    assert climate.headers["x-era5-sources"] == "files"


def test_stamps_of_a_zone_with_minutes_have_them_and_the_value_of_the_full_hour(client: httpx.Client) -> None:
    """As the page says, and as Open-Meteo does: 18:15 in UTC, local midnight in Nepal, has the value of 19:00."""
    day = {**PLACE, "start_date": "2022-01-10", "end_date": "2022-01-10", "hourly": "temperature_2m"}
    nepal = answer_of(client, **day, timezone="Asia/Kathmandu", timeformat="unixtime")["hourly"]
    utc = answer_of(client, **{**day, "start_date": "2022-01-09"}, timeformat="unixtime")["hourly"]
    begin = int(datetime(2022, 1, 9, 18, 15, tzinfo=UTC).timestamp())
    assert nepal["time"] == [begin + 3600 * hour for hour in range(24)]
    of_utc = dict(zip(utc["time"], utc["temperature_2m"], strict=True))
    assert nepal["temperature_2m"] == [of_utc[time + 45 * 60] for time in nepal["time"]]


def test_a_month_that_is_missing_is_null_and_named_in_the_answer_and_its_headers(client: httpx.Client) -> None:
    parameters = {**PLACE, "start_date": "2022-01-30", "end_date": "2022-03-02", "daily": "temperature_2m_mean"}
    answer = client.get("/v1/archive", params=parameters)
    found = answer.json()
    assert [value is None for value in found["daily"]["temperature_2m_mean"]] == [False] * 2 + [True] * 28 + [False] * 2
    assert found["missing_months"] == ["2022-02"]
    assert answer.headers["x-era5-missing-months"] == "2022-02"
    as_csv = client.get("/v1/archive", params={**parameters, "format": "csv"})
    assert as_csv.headers["x-era5-missing-months"] == "2022-02"
    assert "2022-02-01,NaN" in as_csv.text


def test_without_variables_the_answer_has_only_the_place(client: httpx.Client) -> None:
    assert list(answer_of(client, **JANUARY))[-2:] == ["timezone_abbreviation", "era5"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hourly": "dew_point_2m"}, "The table has no column dewpoint_2m"),
        ({"hourly": "et0_fao_evapotranspiration"}, "The table has no column dewpoint_2m"),
        ({"daily": "et0_fao_evapotranspiration"}, "surface_solar_radiation_downwards"),
        ({"latitude": "11", "longitude": "107"}, "the nearest of its"),
        ({"hourly": "temperature_2m'--"}, "from invalid String value temperature_2m'--"),
    ],
)
def test_what_is_wrong_or_not_here_is_400_with_the_reason(
    client: httpx.Client, changed: dict[str, str], words: str
) -> None:
    answer = client.get("/v1/archive", params={**JANUARY, "hourly": "temperature_2m", **changed})
    found = answer.json()
    assert (answer.status_code, found["error"], list(found)) == (400, True, ["error", "reason"])
    assert words in found["reason"]


def test_more_values_than_one_answer_may_have_are_refused_with_the_limit(real: Warehouse) -> None:
    with served(real, ServingLimits(values=10_000_000)) as client:
        most = {"latitude": ",".join(["10.75"] * 20), "longitude": ",".join(["106.25"] * 20)}
        days = {"start_date": "1960-01-01", "end_date": "2021-12-31"}
        answer = client.get("/v1/archive", params={**most, **days, "hourly": "temperature_2m"})
    assert answer.status_code == 400
    # 62 years with 16 leap days, of 20 places
    assert answer.json()["reason"].startswith("The answer would have 10,870,080 values, and the limit is 10,000,000.")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_answers_are_compressed_for_clients_that_take_it(client: httpx.Client, form: str) -> None:
    parameters = {**JANUARY, "hourly": "temperature_2m", "format": form}
    packed = client.get("/v1/archive", params=parameters)
    assert packed.headers["content-encoding"] == "gzip"
    plain = client.get("/v1/archive", params=parameters, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    if form == "csv":
        assert packed.text == plain.text


def test_an_answer_has_the_form_that_the_routes_page_describes(client: httpx.Client) -> None:
    schema = ARCHIVE_RESPONSE[200]["content"]["application/json"]["schema"]
    parameters = {"hourly": "temperature_2m,weather_code", "daily": "wind_direction_10m_dominant"}
    for more in ({}, {"end_date": "2022-02-28"}, {"timeformat": "unixtime"}):
        jsonschema.validate(answer_of(client, **{**JANUARY, **more, **parameters}), schema)
    described = {
        one["name"]: one for one in client.get("/openapi.json").json()["paths"]["/v1/archive"]["get"]["parameters"]
    }
    assert list(described) == [one["name"] for one in ARCHIVE_PARAMETERS]
    assert [name for name, one in described.items() if one["required"]] == [
        *("latitude", "longitude", "start_date", "end_date"),
    ]


def test_the_sun_of_a_place_needs_nothing_of_the_table(client: httpx.Client) -> None:
    parameters = {**JANUARY, "daily": "sunrise,sunset,daylight_duration", "end_date": "2022-01-02"}
    found = answer_of(client, **parameters, timezone="Asia/Ho_Chi_Minh")
    assert found["daily_units"] == {**dict.fromkeys(("time", "sunrise", "sunset"), "iso8601"), "daylight_duration": "s"}
    # The nearest minutes of what pvlib's SPA gives for 10.75 N 106.25 E.
    assert found["daily"]["sunrise"] == ["2022-01-01T06:13", "2022-01-02T06:14"]
    assert found["daily"]["sunset"] == ["2022-01-01T17:44", "2022-01-02T17:44"]
    seconds = answer_of(client, **parameters, timezone="Asia/Ho_Chi_Minh", timeformat="unixtime")
    assert seconds["daily_units"]["sunrise"] == "unixtime"
    length = np.subtract(seconds["daily"]["sunset"], seconds["daily"]["sunrise"])
    assert length.tolist() == found["daily"]["daylight_duration"]
    as_csv = client.get("/v1/archive", params={**parameters, "timezone": "Asia/Ho_Chi_Minh", "format": "csv"})
    assert "2022-01-01,2022-01-01T06:13,2022-01-01T17:44,41" in as_csv.text
    hours = answer_of(client, **{**JANUARY, "latitude": "78.25", "longitude": "15.5"}, hourly="is_day")
    assert hours["hourly"]["is_day"] == [0] * 744


def test_the_height_of_the_ground_and_evapotranspiration_are_of_their_columns(
    shared_warehouse: Warehouse, tmp_path: Path
) -> None:
    names = ("t2m", "d2m", "u10", "v10", "ssrd", "sp", "z")
    of = era5_files.weather(era5_files.hours_from("2019-07-01T00", 744), [10.5], [20.0], names)
    columns = tuple(era5_files.ALL_VARIABLES[name][0] for name in names)
    with era5_files.without_pictures():
        load_month(
            shared_warehouse,
            era5_files.flatten(era5_files.write(tmp_path, of), "2019-07", tmp_path, variables=columns),
        )
    here = ERA5_GRID.nearest_location(10.5, 20)
    with shared_warehouse.connect() as connection:
        found = read_elevations(connection, [here, ERA5_GRID.nearest_location(-60, -120), here])
        rows = connection.execute(
            "SELECT surface_geopotential FROM weather WHERE location_id = %s", (here.location_id,)
        ).fetchall()
    assert found[1] is None
    assert found[0] == found[2]
    assert found[0] in {round(geopotential / 9.80665, 1) for (geopotential,) in rows}
    with served(shared_warehouse) as client:
        place = {"latitude": 10.5, "longitude": 20}
        asked: dict[str, Any] = {**place, "start_date": "2019-07-02", "end_date": "2019-07-03"}
        variable = "et0_fao_evapotranspiration"
        answer = answer_of(client, **asked, hourly=f"{variable},shortwave_radiation", daily=variable)
        assert list(answer)[6] == "elevation"
        as_csv = client.get("/v1/archive", params={**asked, "hourly": "temperature_2m", "format": "csv"}).text
        assert as_csv.splitlines()[1].split(",")[2] == str(answer["elevation"])
        content = client.get("/v1/archive", params={**asked, "daily": variable, "format": "flatbuffers"}).content
    hours = numbers(answer["hourly"][variable])
    assert hours.min() >= 0
    # More sunlight than reaches the Earth: no hour may have more than evaporates with all of it, and the wind.
    assert 0.2 < hours.max() < 5
    days = hours.reshape(-1, 24).sum(axis=1)
    np.testing.assert_allclose(numbers(answer["daily"][variable]), days, atol=24 * HUNDREDTH)
    message = WeatherApiResponse.GetRootAs(content, 4)
    assert message.Elevation() == np.float32(answer["elevation"])
    one = message.Daily().Variables(0)
    assert (one.Variable(), one.Unit(), one.Aggregation()) == (
        *(Variable.et0_fao_evapotranspiration, SdkUnit.millimetre, Aggregation.sum),
    )
    np.testing.assert_allclose(one.ValuesAsNumpy(), days, atol=24 * HUNDREDTH)


# --- What public clients do with an answer; docs/http.md names them ---------------------------------------------------


def test_a_client_that_sends_all_defaults_and_asks_for_the_zone_of_the_place(client: httpx.Client) -> None:
    """As openmeteo-python does, every unit by name, and the R package openmeteo, which reads times as local."""
    found = answer_of(
        client,
        **JANUARY,
        hourly="temperature_2m,cloud_cover",
        temperature_unit="celsius",
        wind_speed_unit="kmh",
        precipitation_unit="mm",
        timezone="auto",
        cell_selection="land",
    )
    assert found["timezone"] == "Asia/Ho_Chi_Minh"
    table = pd.DataFrame(found["hourly"])
    assert list(table.columns) == ["time", "temperature_2m", "cloud_cover"]
    assert (pd.to_datetime(table["time"]).iloc[0], len(table)) == (pd.Timestamp("2022-01-01"), 744)
    assert table["temperature_2m"].dtype == np.float64
    assert found["hourly"]["cloud_cover"] == [None] * 744


def test_the_example_of_the_documentation_is_answered_as_it_says(client: httpx.Client) -> None:
    text = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    url, answer = re.findall(r"GET http://[^/]*(/v1/archive\S*)\n```\n\n```json\n(.*?)```", text, re.DOTALL)[0]
    found, written = client.get(url).json(), json.loads(answer)
    assert list(found) == list(written)
    assert {**found, "generationtime_ms": 0} == {**written, "generationtime_ms": 0}
