"""The rows that the page's SQL asks for; that its answers are right is tested on servers, in `cli/test_report.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from era5_pipeline.climate.answer import ClimatePlace
from era5_pipeline.model.grid import Area
from era5_pipeline.report.sql import statements
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer


def test_days_of_an_offset_are_cut_there_and_totals_belong_to_the_hour_before() -> None:
    (_, years), (_, days), (_, rain) = statements(mekong_answer())
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')" in years
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')::date AS day" in days
    assert "(time AT TIME ZONE 'UTC' + interval '360 minutes')" in rain
    for statement in (years, days, rain):
        assert "location_id = 581465" in statement
        assert "time BETWEEN '2020-01-01 00:00Z' AND '2025-05-31 23:00Z'" in statement


def test_days_in_utc_have_no_offset() -> None:
    (_, years), _, (_, rain) = statements(answer_of(made_hours([2001])))
    assert "(time AT TIME ZONE 'UTC'))" in years
    assert "(time AT TIME ZONE 'UTC' - interval '60 minutes')" in rain


def test_without_precipitation_there_is_no_statement_of_it() -> None:
    assert len(statements(answer_of(made_hours([2001])[["temperature_2m"]]))) == 2


@pytest.mark.parametrize(
    ("area", "rows", "longitudes"),
    [
        (Area(26.5, 50.5, 24.5, 52.0), "659521 AND 672480", "longitude BETWEEN 50.5 AND 52"),
        (Area(-16.0, 177.0, -19.0, -178.0), "408961 AND 427680", "(longitude >= 177 OR longitude <= -178)"),
        (Area(1.0, 300.0, 0.0, 310.0), "518401 AND 525600", "longitude BETWEEN -60 AND -50"),
        (Area(90.0, -180.0, -90.0, 180.0), "1 AND 1038240", ""),
    ],
)
def test_the_rows_of_an_area_are_found_by_their_numbers(area: Area, rows: str, longitudes: str) -> None:
    answer = replace(answer_of(made_hours([2001])), place=ClimatePlace(None, None, None, area, 63, None, None))
    for _, statement in statements(answer):
        assert f"location_id BETWEEN {rows}" in statement
        assert (longitudes in statement) if longitudes else ("longitude" not in statement)
        assert "cosd(latitude)" in statement
