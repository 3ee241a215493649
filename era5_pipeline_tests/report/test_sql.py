"""The page's SQL: the rows that it asks for, and its answers for areas; of real places also in `cli/test_report.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.climate.answer import ClimatePlace
from era5_pipeline.climate.question import ClimateQuestion, DayChoice, Period
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.report.sql import statements
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture(scope="module")
def polar(shared_warehouse: Warehouse, flat_months: FlatMonths) -> Warehouse:
    """Three months at the north pole, across the antimeridian."""
    for month, parallels in (("2023-06", 5), ("2023-07", 4), ("2023-08", 4)):
        load_month(shared_warehouse, flat_months(month, points=(parallels, 5), north=90.0, west=179.25))
    return shared_warehouse


def test_days_of_an_offset_are_cut_there_and_totals_belong_to_the_hour_before() -> None:
    (_, years), (_, days), (_, rain) = statements(mekong_answer())
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')" in years
    assert "(time AT TIME ZONE 'UTC' + interval '420 minutes')::date AS day" in days
    assert "(time AT TIME ZONE 'UTC' + interval '360 minutes')" in rain
    for statement in (years, days, rain):
        assert "location_id = 581465" in statement
    assert "time >= '2019-12-31 17:00Z' AND time < '2025-06-01 17:00Z'" in years
    assert "time >= '2019-12-31 18:00Z' AND time < '2025-06-01 18:00Z'" in rain


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
        (Area(26.6, 50.4, 24.4, 52.1), "659521 AND 672480", "longitude BETWEEN 50.5 AND 52"),
        (Area(-16.0, 177.0, -19.0, -178.0), "408961 AND 427680", "(longitude >= 177 OR longitude <= -178)"),
        (Area(1.0, -180.0, 0.0, -179.0), "518401 AND 525600", "(longitude >= 180 OR longitude <= -179)"),
        (Area(1.0, 179.0, 0.0, 180.0), "518401 AND 525600", "longitude BETWEEN 179 AND 180"),
        (Area(1.0, 300.0, 0.0, 310.0), "518401 AND 525600", "longitude BETWEEN -60 AND -50"),
        (Area(90.0, -180.0, -90.0, 180.0), "1 AND 1038240", ""),
    ],
)
def test_the_rows_of_an_area_are_found_by_their_numbers(area: Area, rows: str, longitudes: str) -> None:
    locations = LocationSet.of_area(area)
    answer = replace(answer_of(made_hours([2001])), place=ClimatePlace(None, None, None, area, None, None, locations))
    for _, statement in statements(answer):
        assert f"location_id BETWEEN {rows}" in statement
        assert (longitudes in statement) if longitudes else ("longitude" not in statement)
        assert "cosd(latitude)" in statement
        assert f"= {len(locations)}" in statement


@pytest.mark.parametrize(
    ("area", "period", "offset", "points"),
    [
        # July and August have these four parallels, June a fifth one, to the south.
        (Area(90.0, 179.25, 88.75, -179.5), Period(), 0, 20),
        (Area(90.0, 179.25, 89.5, 180.0), Period(), 90, 12),
        (Area(90.0, -180.0, 89.5, -179.75), Period(date(2023, 6, 10), date(2023, 7, 20)), 0, 6),
        (Area(89.75, 179.25, 89.5, -179.75), Period(date(2023, 7, 2), None), -210, 10),
    ],
)
def test_the_statements_give_the_pages_numbers_of_an_area_at_a_pole(
    polar: Warehouse, area: Area, period: Period, offset: int, points: int
) -> None:
    asked = ClimatePlace(None, None, None, area, None, None)
    with polar.connect() as connection:
        answer = read_climate(connection, ClimateQuestion(asked, period, days=DayChoice(offset)))
        assert answer.place.points == points
        (_, years), (_, days), (_, rain) = statements(answer)
        found = [connection.execute(statement).fetchall() for statement in (years, days, rain)]
    row = answer.yearly.loc[2023]
    for name, element, rows in (
        ("mean_temperature", "temperature", found[0]),
        ("precipitation", "precipitation", found[2]),
    ):
        assert [(year, hours) for year, _, hours in rows] == [(2023, row[f"{element}_hours"])]
        assert rows[0][1] == pytest.approx(row[name], rel=1e-9)
    daily = answer.daily[["mean_temperature", "min_temperature", "max_temperature"]].dropna()
    assert [day for day, *_ in found[1]] == [stamp.date() for stamp in daily.index]
    np.testing.assert_allclose([values for _, *values in found[1]], daily.to_numpy(), rtol=1e-9)
