"""From hours to an answer: real hours at the Tamar, in the units asked for."""

from __future__ import annotations

from datetime import date

import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.serving.archive.archive_answer import make_answer_of
from era5_pipeline.serving.archive.archive_hours import PointHours
from era5_pipeline.serving.archive.archive_question import read_question
from era5_pipeline_tests.serving.archive import tamar_hours


def answered(**more: str) -> dict[str, tuple[str, list[float]]]:
    """By name, the unit and the values of the days and the first three hours."""
    parameters = {
        "latitude": "50.4",
        "longitude": "-4.2",
        "start_date": "2022-01-01",
        "end_date": "2022-01-03",
        **more,
    }
    question = read_question(parameters.items(), date(2026, 11, 22))
    answer = make_answer_of(question, question.points[0], PointHours(tamar_hours.HOURS, (Month(2022, 2),), 0))
    assert answer.missing_months == ("2022-02",)
    return {
        column.name: (column.unit.name, column.rounded[:3].tolist())
        for section in answer.sections
        for column in section.columns
    }


def test_daily_values_are_those_that_open_meteo_would_give() -> None:
    found = answered(daily=",".join(tamar_hours.DAILY))
    assert {name: values for name, (_, values) in found.items()} == tamar_hours.DAILY
    assert [unit for unit, _ in found.values()] == ["°C", "°C", "°C", "mm", "km/h", "°"]


@pytest.mark.parametrize(
    ("unit", "name", "expected"),
    [
        # 12.61 degC; 8.7 m/s from u 0.30 and v 8.69; 2.544 mm
        ({"temperature_unit": "fahrenheit"}, "temperature_2m", ("°F", 54.7)),
        ({}, "wind_speed_10m", ("km/h", 31.3)),
        ({"wind_speed_unit": "ms"}, "wind_speed_10m", ("m/s", 8.7)),
        ({"wind_speed_unit": "mph"}, "wind_speed_10m", ("mp/h", 19.5)),
        ({"wind_speed_unit": "kn"}, "wind_speed_10m", ("kn", 16.9)),
        ({}, "wind_direction_10m", ("°", 182.0)),
    ],
)
def test_hours_are_in_the_units_asked_for(unit: dict[str, str], name: str, expected: tuple[str, float]) -> None:
    found = answered(hourly=name, **unit)[name]
    assert (found[0], found[1][0]) == expected


def test_a_sum_is_converted_after_it_is_made() -> None:
    found = answered(daily="precipitation_sum", precipitation_unit="inch")
    assert found["precipitation_sum"] == ("inch", [0.1, 0.259, 0.056])  # 2.544, 6.589, 1.422 mm
