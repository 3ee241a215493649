"""FlatBuffers of an answer, as the readers of Open-Meteo's SDK have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from openmeteo_sdk.Aggregation import Aggregation
from openmeteo_sdk.Model import Model
from openmeteo_sdk.Unit import Unit as SdkUnit
from openmeteo_sdk.Variable import Variable
from openmeteo_sdk.WeatherApiResponse import WeatherApiResponse

from era5_pipeline.serving.archive.answer_flatbuffers import answer_as_flatbuffers
from era5_pipeline.serving.archive.answer_times import AnswerZone
from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer
from era5_pipeline.serving.archive.variables import answer_units as units
from era5_pipeline_tests.serving.archive.tamar_hours import POINT

HOURS = np.arange(72, dtype=np.float32) / np.float32(7)
HOURS[5] = np.nan
ANSWER = PointAnswer(
    replace(POINT, zone=AnswerZone("Asia/Kolkata", 19_800)),
    (
        AnswerSection(
            "hourly",
            (
                AnswerColumn("soil_temperature_7_to_28cm", units.FAHRENHEIT, HOURS),
                AnswerColumn("windspeed_100m", units.KNOTS, HOURS * 2),
            ),
        ),
        AnswerSection("daily", (AnswerColumn("temperature_2m_max", units.CELSIUS, HOURS[:3]),)),
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
    (found,) = messages(answer_as_flatbuffers([ANSWER], "iso8601", 1.5))
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
    np.testing.assert_array_equal(soil.ValuesAsNumpy(), HOURS)
    np.testing.assert_array_equal(wind.ValuesAsNumpy(), HOURS * 2)
    np.testing.assert_array_equal(highest.ValuesAsNumpy(), HOURS[:3])


def test_places_follow_one_another_and_gmt_has_no_name() -> None:
    other = PointAnswer(replace(POINT, number=7), ())
    first, second = messages(answer_as_flatbuffers([ANSWER, other], "iso8601", 0))
    assert (first.LocationId(), second.LocationId()) == (0, 7)
    assert (second.Timezone(), second.TimezoneAbbreviation(), second.Hourly(), second.Daily()) == (None,) * 4


def test_moments_are_integers_in_utc() -> None:
    seconds = np.array([1_640_995_200, 1_641_081_601, 1_641_168_002])
    answer = PointAnswer(POINT, (AnswerSection("daily", (AnswerColumn("sunrise", units.SECONDS, seconds),)),))
    (found,) = messages(answer_as_flatbuffers([answer], "iso8601", 0))
    sunrise = found.Daily().Variables(0)
    assert (sunrise.Variable(), sunrise.Unit(), sunrise.ValuesIsNone()) == (Variable.sunrise, SdkUnit.iso8601, True)
    np.testing.assert_array_equal(sunrise.ValuesInt64AsNumpy(), seconds)
