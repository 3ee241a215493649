"""An answer as JSON: keys and their order, decimals, what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from era5_pipeline.serving.archive.answer_json import answer_as_json
from era5_pipeline.serving.archive.answer_times import AnswerZone, Days
from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer
from era5_pipeline.serving.archive.variables import answer_units as units
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
