"""An answer as CSV, to the letter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from era5_pipeline.serving.archive.answer_csv import answer_as_csv, csv_name
from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer
from era5_pipeline.serving.archive.variables import answer_units as units
from era5_pipeline_tests.serving.archive.tamar_hours import POINT
from era5_pipeline_tests.serving.archive.test_answer_json import ANSWER

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


def test_the_file_is_named_after_the_cell() -> None:
    assert csv_name([DAILY]) == "era5-50.50N4.25W.csv"
