"""Tests of `serving/archive/formats`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from openmeteo_sdk.Aggregation import Aggregation
from openmeteo_sdk.Model import Model
from openmeteo_sdk.Unit import Unit as SdkUnit
from openmeteo_sdk.Variable import Variable
from openmeteo_sdk.WeatherApiResponse import WeatherApiResponse

from era5_pipeline.serving.archive import units
from era5_pipeline.serving.archive.answer import AnswerColumn, AnswerSection, PointAnswer
from era5_pipeline.serving.archive.formats import answer_as_csv, answer_as_flatbuffers, answer_as_json
from era5_pipeline.serving.archive.times import AnswerZone, Days
from era5_pipeline_tests.serving.archive.tamar_hours import POINT

HOURS = np.array([0.0, 1.5, -2.3, np.nan, *[12.0] * 20])
CODES = np.array([np.nan, 3.0, *[61.0] * 22])
DAY = Days(date(2022, 1, 1), date(2022, 1, 1))
ANSWER = PointAnswer(
    replace(POINT, days=DAY, zone=AnswerZone("Asia/Kolkata", 19_800)),
    (
        AnswerSection(
            "hourly",
            (
                AnswerColumn("temperature_2m", units.CELSIUS, HOURS),
                AnswerColumn("weathercode", units.WEATHER_CODE, CODES),
            ),
        ),
        AnswerSection("daily", (AnswerColumn("precipitation_sum", units.INCHES, np.array([0.125])),)),
    ),
)


def written(answers: list[PointAnswer], form: Any = "iso8601") -> Any:
    return json.loads(answer_as_json(answers, form, 1.23456))


def test_the_keys_are_in_the_order_of_open_meteo_and_what_is_unknown_is_left_out() -> None:
    found = written([ANSWER])
    assert list(found) == [
        *("latitude", "longitude", "generationtime_ms", "utc_offset_seconds", "timezone", "timezone_abbreviation"),
        *("hourly_units", "hourly", "daily_units", "daily"),
    ]
    assert {name: found[name] for name in list(found)[:6]} == {
        "latitude": 50.5,
        "longitude": -4.25,
        "generationtime_ms": 1.235,
        "utc_offset_seconds": 19_800,
        "timezone": "Asia/Kolkata",
        "timezone_abbreviation": "GMT+5:30",
    }
    assert found["hourly_units"] == {"time": "iso8601", "temperature_2m": "°C", "weathercode": "wmo code"}
    assert found["daily_units"] == {"time": "iso8601", "precipitation_sum": "inch"}
    assert found["daily"] == {"time": ["2022-01-01"], "precipitation_sum": [0.125]}


def test_nan_is_null_and_codes_are_integers() -> None:
    found = written([ANSWER])["hourly"]
    assert found["time"][0] == "2022-01-01T00:00"
    assert found["temperature_2m"][:4] == [0.0, 1.5, -2.3, None]
    assert found["weathercode"][:3] == [None, 3, 61]
    assert all(code is None or type(code) is int for code in found["weathercode"])


def test_values_without_decimals_and_gaps_are_integers_too() -> None:
    column = AnswerColumn("cloud_cover", units.PERCENT, np.array([100.0] * 24))
    text = answer_as_json([replace(ANSWER, sections=(AnswerSection("hourly", (column,)),))], "iso8601", 0)
    assert b'"cloud_cover":[100,100,' in text


def test_unix_times_are_integers() -> None:
    found = written([ANSWER], "unixtime")
    assert found["hourly_units"]["time"] == "unixtime"
    assert found["hourly"]["time"][:2] == [1_640_975_400, 1_640_979_000]  # 2021-12-31 18:30 and 19:30 in UTC
    assert found["daily"]["time"] == [1_640_975_400]


def test_several_places_are_a_list_and_numbered_from_the_second_on() -> None:
    found = written([ANSWER, replace(ANSWER, point=replace(ANSWER.point, number=1))])
    assert [one.get("location_id") for one in found] == [None, 1]
    assert list(found[1])[6] == "location_id"


def test_what_is_missing_is_named_at_the_end_and_only_then() -> None:
    found = written([replace(ANSWER, missing_months=("2022-02", "2022-03"), missing_hours=2)])
    assert list(found)[-2:] == ["missing_months", "missing_hours"]
    assert (found["missing_months"], found["missing_hours"]) == (["2022-02", "2022-03"], 2)


DAILY = PointAnswer(
    POINT,
    (
        AnswerSection(
            "daily",
            (
                AnswerColumn("temperature_2m_mean", units.CELSIUS, np.array([12.8, np.nan, -0.5])),
                AnswerColumn("snowfall_sum", units.CENTIMETRES, np.array([0.0, 0.1, 1.23])),
                AnswerColumn("weather_code", units.WEATHER_CODE, np.array([3.0, np.nan, 61.0])),
            ),
        ),
    ),
)
DAYS = """\
time,temperature_2m_mean (°C),snowfall_sum (cm),weather_code (wmo code)
2022-01-01,12.8,0.00,3
2022-01-02,NaN,0.10,NaN
2022-01-03,-0.5,1.23,61
"""


def test_a_place_and_its_days() -> None:
    place = (
        "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation\n50.5,-4.25,NaN,0,GMT,GMT\n\n"
    )
    assert answer_as_csv([DAILY], "iso8601").decode() == place + DAYS
    assert answer_as_csv([DAILY], "iso8601", "omit").decode() == DAYS


def test_hours_come_before_days_with_a_blank_line_between() -> None:
    lines = answer_as_csv([ANSWER], "unixtime").decode().split("\n")
    assert lines[:5] == [
        "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation",
        "50.5,-4.25,NaN,19800,Asia/Kolkata,GMT+5:30",
        "",
        "time,temperature_2m (°C),weathercode (wmo code)",
        "1640975400,0.0,NaN",
    ]
    assert lines[-4:] == ["", "time,precipitation_sum (inch)", "1640975400,0.125", ""]


def test_several_places_have_their_number_in_every_line() -> None:
    other = replace(DAILY, point=replace(POINT, number=1))
    lines = answer_as_csv([DAILY, other], "iso8601").decode().split("\n")
    assert lines[:5] == [
        "location_id,latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation",
        "0,50.5,-4.25,NaN,0,GMT,GMT",
        "1,50.5,-4.25,NaN,0,GMT,GMT",
        "",
        "location_id,time,temperature_2m_mean (°C),snowfall_sum (cm),weather_code (wmo code)",
    ]
    assert [line[:12] for line in lines[5:11]] == [
        *("0,2022-01-01", "0,2022-01-02", "0,2022-01-03", "1,2022-01-01", "1,2022-01-02", "1,2022-01-03"),
    ]


FLAT_HOURS = np.arange(72, dtype=np.float32) / np.float32(7)
FLAT_HOURS[5] = np.nan
FLAT_ANSWER = PointAnswer(
    replace(POINT, zone=AnswerZone("Asia/Kolkata", 19_800)),
    (
        AnswerSection(
            "hourly",
            (
                AnswerColumn("soil_temperature_7_to_28cm", units.FAHRENHEIT, FLAT_HOURS),
                AnswerColumn("windspeed_100m", units.KNOTS, FLAT_HOURS * 2),
            ),
        ),
        AnswerSection("daily", (AnswerColumn("temperature_2m_max", units.CELSIUS, FLAT_HOURS[:3]),)),
    ),
)


def messages(content: bytes) -> list[Any]:
    found, position = [], 0
    while position < len(content):
        length = int.from_bytes(content[position : position + 4], "little")
        found.append(WeatherApiResponse.GetRootAs(content, position + 4))
        position += length + 4
    assert position == len(content)
    return found


def test_the_sdk_reads_the_place_the_times_and_the_values_back() -> None:
    (found,) = messages(answer_as_flatbuffers([FLAT_ANSWER], "iso8601", 1.5))
    assert (found.Latitude(), found.Longitude(), found.Model()) == (50.5, -4.25, Model.era5)
    assert np.isnan(found.Elevation())
    assert (found.UtcOffsetSeconds(), found.Timezone(), found.TimezoneAbbreviation()) == (
        *(19_800, b"Asia/Kolkata", b"GMT+5:30"),
    )
    assert found.GenerationTimeMilliseconds() == 1.5
    hourly, daily = found.Hourly(), found.Daily()
    first = 1_640_995_200 - 19_800  # 2022-01-01 00:00 in that zone
    assert (hourly.Time(), hourly.TimeEnd(), hourly.Interval()) == (first, first + 3 * 86_400, 3_600)
    assert (daily.Time(), daily.TimeEnd(), daily.Interval()) == (first, first + 3 * 86_400, 86_400)
    assert [hourly.VariablesLength(), daily.VariablesLength()] == [2, 1]
    soil, wind, highest = hourly.Variables(0), hourly.Variables(1), daily.Variables(0)
    assert (soil.Variable(), soil.Unit(), soil.Depth(), soil.DepthTo()) == (
        *(Variable.soil_temperature, SdkUnit.fahrenheit, 7, 28),
    )
    assert (wind.Variable(), wind.Unit(), wind.Altitude()) == (Variable.wind_speed, SdkUnit.knots, 100)
    assert (highest.Variable(), highest.Altitude(), highest.Aggregation()) == (
        *(Variable.temperature, 2, Aggregation.maximum),
    )
    np.testing.assert_array_equal(soil.ValuesAsNumpy(), FLAT_HOURS)
    np.testing.assert_array_equal(wind.ValuesAsNumpy(), FLAT_HOURS * 2)
    np.testing.assert_array_equal(highest.ValuesAsNumpy(), FLAT_HOURS[:3])


def test_places_follow_one_another_and_gmt_has_no_name() -> None:
    other = PointAnswer(replace(POINT, number=7), ())
    first, second = messages(answer_as_flatbuffers([FLAT_ANSWER, other], "iso8601", 0))
    assert (first.LocationId(), second.LocationId()) == (0, 7)
    assert (second.Timezone(), second.TimezoneAbbreviation(), second.Hourly(), second.Daily()) == (None,) * 4


def test_moments_are_integers_in_utc() -> None:
    seconds = np.array([1_640_995_200, 1_641_081_601, 1_641_168_002])
    answer = PointAnswer(POINT, (AnswerSection("daily", (AnswerColumn("sunrise", units.MOMENT, seconds),)),))
    (found,) = messages(answer_as_flatbuffers([answer], "iso8601", 0))
    sunrise = found.Daily().Variables(0)
    assert (sunrise.Variable(), sunrise.Unit(), sunrise.ValuesIsNone()) == (Variable.sunrise, SdkUnit.iso8601, True)
    np.testing.assert_array_equal(sunrise.ValuesInt64AsNumpy(), seconds)
