"""Tests of `maps/reading`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.maps.cells import CellValues
from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.maps.question import WHOLE_YEAR, AnomalyQuestion, PartQuestion, TrendQuestion, calendar_month
from era5_pipeline.maps.read import read_map
from era5_pipeline.maps.reading import (
    MapReading,
    PlacedCells,
    lines_of_few_years,
    lines_of_short,
    main_part,
    unit_words,
)
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.read.fields import on_rectangle
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.maps.question import MapStatistic
    from era5_pipeline.maps.reading import MainPart
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


QATAR, MEKONG, FIJI = "26.5/50.5/24.5/52", "10.75/106.25/10.75/106.25", "-16/179/-18/-179"


def part_of(*areas: str) -> MainPart | None:
    ids = np.unique(np.concatenate([LocationSet.of_area(Area.parse(area)).ids() for area in areas])).astype(np.int32)
    latitudes, longitudes, values = on_rectangle(ids, np.ones(ids.size, dtype=np.float32))
    found = main_part(latitudes, longitudes, np.isfinite(values))
    if found:
        shown = values[found.rows, found.columns]
        assert shown.shape == (
            found.area.latitude_indices().size,
            found.area.longitude_indices().size,
        )
        assert float(latitudes[found.rows][0]) == found.area.south
    return found


def test_of_places_far_apart_the_part_with_most_is_drawn_and_the_others_are_named() -> None:
    found = part_of(QATAR, MEKONG)
    assert found is not None
    assert str(found.area) == QATAR
    assert found.line == (f"the map shows 63 of 64 places, those of {QATAR}; the others are far away: --area {MEKONG}")


def test_a_part_may_cross_the_antimeridian() -> None:
    found = part_of(FIJI, MEKONG)
    assert found is not None
    assert str(found.area) == FIJI


def test_no_more_than_four_other_parts_are_named() -> None:
    found = part_of(
        QATAR,
        *(f"{latitude}/{longitude}/{latitude}/{longitude}" for latitude in (-30, 0) for longitude in (-60, 10, 120)),
    )
    assert found is not None
    assert found.line is not None
    assert found.line.count("--area") == 4
    assert found.line.endswith(" and 2 more")


@pytest.mark.parametrize("areas", [("global",), (QATAR,), (MEKONG,), (QATAR, "24/52/20/58"), ("global", MEKONG)])
def test_places_that_one_map_shows_are_all_drawn(areas: tuple[str, ...]) -> None:
    assert part_of(*areas) is None


def test_a_sparse_net_of_stations_is_one_part() -> None:
    stations = [
        f"{latitude}/{longitude}/{latitude}/{longitude}"
        for latitude in range(40, 56, 4)
        for longitude in range(0, 20, 4)
    ]
    found = part_of(*stations)
    assert found is not None
    assert (str(found.area), found.line) == ("52/0/40/16", None)


def test_without_any_value_there_is_no_part() -> None:
    assert main_part(np.zeros(3, dtype=np.float32), np.zeros(4, dtype=np.float32), np.zeros((3, 4), dtype=bool)) is None


def test_one_part_among_places_without_values_is_drawn_alone() -> None:
    ids = LocationSet.of_area(Area.parse("30/40/0/90")).ids().astype(np.int32)
    latitudes, longitudes, values = on_rectangle(ids, np.ones(ids.size, dtype=np.float32))
    has_value = np.zeros(values.shape, dtype=bool)
    has_value[98:107, 42:49] = True
    found = main_part(latitudes, longitudes, has_value)
    assert found is not None
    assert (str(found.area), found.line) == (QATAR, None)
