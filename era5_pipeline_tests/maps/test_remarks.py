"""What a map says of its values, and of what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.cells import CellValues
from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month
from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.maps.question import AnomalyQuestion, PartQuestion, TrendQuestion
from era5_pipeline.maps.read import read_map
from era5_pipeline.maps.remarks import (
    MapReading,
    describe_incomplete_locations,
    describe_short_records,
    unit_words,
)
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.read.fields import hour_field, placed
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.climate.question import CellStatistic
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

TEMPERATURE = BY_COLUMN["temperature_2m"]
JULY = calendar_month(7)


def test_months_of_an_earlier_version_need_their_summaries(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, replace(flat_months("2023-07", names=("t2m",)), summaries=None))
    load_month(warehouse, flat_months("2023-06", names=("t2m",)))
    with warehouse.connect() as connection:
        for question in (
            PartQuestion(JULY, 2023, "mean"),
            AnomalyQuestion(JULY, 2023, YearSpan(1991, 2020), "mean"),
        ):
            with pytest.raises(NoDataError, match="the table holds the hours of 2023-07, and no monthly summ") as error:
                read_map(connection, question, TEMPERATURE)
            assert error.value.remedy == "Compute them from the hours: era5 db summaries."
        year = read_map(connection, PartQuestion(WHOLE_YEAR, 2023, "mean"), TEMPERATURE)
        line = "no monthly summaries of 2023-07, whose hours are there: era5 db summaries makes them"
        assert line in year.remarks
        with pytest.raises(NoDataError, match=r"no location has more than 0 \(no monthly summaries of 2023-07"):
            read_map(connection, TrendQuestion(WHOLE_YEAR, YearSpan(2001, 2023), "mean"), TEMPERATURE)


def test_a_database_without_the_view_says_how_to_get_it(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", names=("t2m",)))
    with warehouse.connect() as connection:
        connection.execute("DROP VIEW weather_monthly")
        with pytest.raises(NoDataError, match="the database has no monthly summaries of temperature_2m") as error:
            read_map(connection, PartQuestion(JULY, 2023, "mean"), TEMPERATURE)
    assert "era5 db summaries" in error.value.remedy


def test_an_empty_database_is_said(empty_warehouse: Warehouse) -> None:
    with empty_warehouse.connect() as connection, pytest.raises(NoDataError, match="the table weather is empty"):
        read_map(connection, PartQuestion(JULY, 2023, "mean"), TEMPERATURE)


def test_lines_count_locations_hours_and_years() -> None:
    hours = np.array([744, 743, 100, 20], dtype=np.int32)
    cells = CellValues(np.arange(1, 5, dtype=np.int32), np.ones(4), hours)
    enough = hours > 720
    assert describe_incomplete_locations(cells, enough, 744, "July 2023") == [
        "2 of 4 locations have only 20 to 100 of 744 hours of July 2023"
    ]
    assert describe_incomplete_locations(cells.where(enough), enough[enough], 744, "July 2023") == []
    absent, remarks = describe_short_records(np.array([30, 30, 25, 3]), 10, 30, "complete years")
    assert absent == ["1 of 4 locations have fewer than 10 complete years"]
    assert remarks == ["1 of 4 locations have only 25 complete years"]
    assert describe_short_records(np.array([30, 30]), 10, 30, "complete years") == ([], [])


TIME = datetime(2023, 7, 1, tzinfo=UTC)


def reading_of(values: list[float], *, is_difference: bool) -> MapReading:
    window, found = placed(np.arange(700_001, 700_001 + len(values), dtype=np.int32), np.array(values))
    field = FieldMap(
        kind="anomaly" if is_difference else "month",
        variable=TEMPERATURE,
        window=window,
        values=found,
        unit="°C",
        title="2 m temperature",
        when="July 2023",
        is_difference=is_difference,
    )
    return MapReading(field, ("1 place lacks hours",), ("only 12 years",), TIME, TIME, "mean of July 2023", "degC")


def test_values_are_counted_and_rounded_by_what_they_are() -> None:
    values = reading_of([20.126, float("nan"), -3.004], is_difference=False)
    assert values.counted == "2 locations, -3.00 to 20.13 degC"
    assert reading_of([0.5, -0.001], is_difference=True).counted == "2 locations, +0.00 to +0.50 degC"
    assert reading_of([0.0123, -0.02], is_difference=True).counted == "2 locations, -0.0200 to +0.0123 degC"


def test_only_notes_of_grey_places_say_that_they_are() -> None:
    reading = reading_of([1.0], is_difference=False)
    assert reading.lines == ["1 place lacks hours", "only 12 years"]
    assert reading.notes == ["Grey: no data; 1 place lacks hours", "Only 12 years"]


@pytest.mark.parametrize(
    ("column", "statistic", "period", "unit"),
    [
        ("temperature_2m", "mean", "day", "°C"),
        ("total_precipitation", "sum", "day", "mm in the day"),
        ("total_precipitation", "sum", "season", "mm in the season"),
        ("total_precipitation", "max", "month", "mm in an hour"),
        ("surface_solar_radiation_downwards", "sum", "month", "J m⁻² in the month"),
        ("total_cloud_cover", "mean", "month", "fraction"),
    ],
)
def test_units_say_over_which_time_totals_are(column: str, statistic: CellStatistic, period: str, unit: str) -> None:
    assert unit_words(BY_COLUMN[column], statistic, period) == unit


def test_locations_are_placed_on_their_rectangle() -> None:
    # Row 486 and 487, columns 160 to 162: 31.5 and 31.75 N, 139.75 to 139.25 W.
    field = hour_field(TIME, TEMPERATURE, np.array([701_443, 700_001], dtype=np.int32), np.array([2.0, 1.0], "f4"))
    assert field.latitudes.tolist() == [31.5, 31.75]
    assert field.longitudes.tolist() == [-139.75, -139.5, -139.25]
    assert field.locations.ids().tolist() == [700_001, 701_443]
    np.testing.assert_array_equal(field.values, [[1.0, np.nan, np.nan], [np.nan, np.nan, 2.0]])
