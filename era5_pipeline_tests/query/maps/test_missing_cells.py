"""`query.maps.missing_cells`: months without summaries, and lines that count locations, hours and years."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.cell_values import CellValues
from era5_pipeline.query.maps.map_question import AnomalyQuestion, PartQuestion, TrendQuestion
from era5_pipeline.query.maps.missing_cells import lines_of_few_years, lines_of_short
from era5_pipeline.query.maps.read_map import read_map
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, calendar_month
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
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


def test_an_empty_database_is_said(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection, pytest.raises(NoDataError, match="the table weather is empty"):
        read_map(connection, PartQuestion(JULY, 2023, "mean"), TEMPERATURE)


def test_lines_count_locations_hours_and_years() -> None:
    hours = np.array([744, 743, 100, 20], dtype=np.int32)
    cells = CellValues(np.arange(1, 5, dtype=np.int32), np.ones(4), hours)
    enough = hours > 720
    assert lines_of_short(cells, enough, 744, "July 2023") == [
        "2 of 4 locations have only 20 to 100 of 744 hours of July 2023"
    ]
    assert lines_of_short(cells.where(enough), enough[enough], 744, "July 2023") == []
    absent, remarks = lines_of_few_years(np.array([30, 30, 25, 3]), 10, 30, "complete years")
    assert absent == ["1 of 4 locations have fewer than 10 complete years"]
    assert remarks == ["1 of 4 locations have only 25 complete years"]
    assert lines_of_few_years(np.array([30, 30]), 10, 30, "complete years") == ([], [])
