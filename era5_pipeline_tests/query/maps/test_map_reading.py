"""`query.maps.map_reading`: words of the terminal and of the picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_reading import MapReading, PlacedCells, unit_words

if TYPE_CHECKING:
    from era5_pipeline.query.maps.map_question import MapStatistic

TEMPERATURE = BY_COLUMN["temperature_2m"]
TIME = datetime(2023, 7, 1, tzinfo=UTC)


def reading_of(values: list[float], *, is_difference: bool) -> MapReading:
    placed = PlacedCells.of(np.arange(700_001, 700_001 + len(values), dtype=np.int32), np.array(values))
    field = FieldMap(
        kind="anomaly" if is_difference else "month",
        variable=TEMPERATURE,
        latitudes=placed.latitudes,
        longitudes=placed.longitudes,
        values=placed.values,
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
def test_units_say_over_which_time_totals_are(column: str, statistic: MapStatistic, period: str, unit: str) -> None:
    assert unit_words(BY_COLUMN[column], statistic, period) == unit


def test_locations_are_placed_on_their_rectangle() -> None:
    # Row 486 and 487, columns 160 to 162: 31.5 and 31.75 N, 139.75 to 139.25 W.
    placed = PlacedCells.of(np.array([701_443, 700_001], dtype=np.int32), np.array([2.0, 1.0]))
    assert placed.latitudes.tolist() == [31.5, 31.75]
    assert placed.longitudes.tolist() == [-139.75, -139.5, -139.25]
    np.testing.assert_array_equal(placed.values, [[1.0, np.nan, np.nan], [np.nan, np.nan, 2.0]])
