"""Tests of `serving/archive/answer`."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.serving.archive.answer import PointHours, make_answer_of, read_point_hours
from era5_pipeline.serving.archive.parameters import read_question
from era5_pipeline.serving.archive.times import GMT, AnswerZone, Days
from era5_pipeline_tests.serving.archive import tamar_hours

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse

MEKONG = ERA5_GRID.nearest_location(10.75, 106.25)
TEMPERATURE = ("temperature_2m",)


def hours_of(
    real: Warehouse, first: date, last: date, columns: Any = TEMPERATURE, zone: AnswerZone = GMT
) -> PointHours:
    with real.connect() as connection:
        return read_point_hours(connection, MEKONG, columns, Days(first, last), zone)


def test_hours_without_a_row_are_counted(real: Warehouse, mekong: Any) -> None:
    days = Days(date(2022, 1, 1), date(2022, 1, 2))
    with real.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(
            "DELETE FROM weather WHERE location_id = %s AND time IN ('2022-01-01 05:00Z', '2022-01-02 00:00Z')",
            (MEKONG.location_id,),
        )
        found = read_point_hours(connection, MEKONG, TEMPERATURE, days, GMT)
    expected = np.array(mekong.loc["2022-01-01":"2022-01-02", "t2m"] - 273.15)
    expected[[5, 24]] = np.nan
    np.testing.assert_allclose(found.values["temperature_2m"], expected, atol=2e-5)
    assert (found.missing_months, found.missing_hours) == ((), 2)


def test_a_place_without_any_of_the_hours_has_all_of_them_missing(real: Warehouse) -> None:
    found = hours_of(real, date(1990, 1, 1), date(1990, 2, 28))
    assert np.isnan(found.values["temperature_2m"]).all()
    assert tuple(map(str, found.missing_months)) == ("1990-01", "1990-02")


def test_a_column_that_this_place_lacks_is_missing_in_every_month(real: Warehouse) -> None:
    found = hours_of(real, date(2022, 1, 1), date(2022, 1, 31), ("temperature_2m", "total_cloud_cover"))
    assert np.isnan(found.values["total_cloud_cover"]).all()
    assert tuple(map(str, found.missing_months)) == ("2022-01",)


def answered(**more: str) -> dict[str, tuple[str, list[float]]]:
    """By name, the unit and the values of the days and the first three hours."""
    days = {"start_date": "2022-01-01", "end_date": "2022-01-03"}
    parameters = {"latitude": "50.4", "longitude": "-4.2", **days, **more}
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


def test_a_sum_is_converted_after_it_is_made() -> None:
    found = answered(daily="precipitation_sum", precipitation_unit="inch")
    assert found["precipitation_sum"] == ("inch", [0.1, 0.259, 0.056])  # 2.544, 6.589, 1.422 mm
