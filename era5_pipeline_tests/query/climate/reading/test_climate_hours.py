"""`query.climate.reading.climate_hours`: hours of a cell, means of an area, and what the table lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.climate.reading.climate_hours import (
    cell_weights,
    columns_for_climate,
    hours_of_area,
    hours_of_cell,
    locations_of_area,
)
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.weather_table import (
    FIJI,
    HOUR,
    HOURS,
    JAKARTA,
    MISSING,
    START,
    Connection,
    make_table,
    temperature_of,
)

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def test_hours_of_a_cell_are_its_rows(weather_table: Connection) -> None:
    hours = hours_of_cell(weather_table, JAKARTA, None, None)
    assert list(hours) == ["temperature_2m", "zonal_wind_10m", "meridional_wind_10m", "total_precipitation"]
    assert str(pd.DatetimeIndex(hours.index).tz) == "UTC"
    assert len(hours) == HOURS - 1
    assert hours["temperature_2m"].tolist() == [temperature_of(JAKARTA, n) for n in range(HOURS) if n != MISSING]
    some = hours_of_cell(weather_table, JAKARTA, START + 20 * HOUR, START + 30 * HOUR)
    assert some.index[0] == START + 20 * HOUR
    assert len(some) == 10


def test_an_area_across_the_antimeridian_is_the_weighted_mean_of_its_points(weather_table: Connection) -> None:
    area = Area.parse("-17/179.75/-17.25/-179.75")
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # without a ledger, the locations are found by a row
    locations = locations_of_area(weather_table, area)
    assert locations == LocationSet.of_ids([location.location_id for location in FIJI])
    hours = hours_of_area(weather_table, locations, None, None)
    weights = [np.cos(np.deg2rad(location.latitude)) for location in FIJI]
    for hour in (0, 40, HOURS - 1):
        expected = np.average([temperature_of(location, hour) for location in FIJI], weights=weights)
        assert hours["temperature_2m"].iloc[hour] == pytest.approx(expected, rel=1e-9)
    assert hours["wind_speed_10m"].tolist() == pytest.approx([np.hypot(1.5, 2.5)] * HOURS)
    assert len(hours_of_area(weather_table, locations, START + HOUR, START + 3 * HOUR)) == 2


def test_an_hour_that_lacks_a_location_has_no_mean(weather_table: Connection) -> None:
    both = LocationSet.of_ids([JAKARTA.location_id, FIJI[0].location_id])
    hours = hours_of_area(weather_table, both, None, None)
    assert np.flatnonzero(hours["temperature_2m"].isna()).tolist() == [MISSING]


def test_an_hour_that_lacks_a_value_of_one_location_has_no_mean_of_it(weather_table: Connection) -> None:
    weather_table.execute(
        "UPDATE weather SET zonal_wind_10m = NULL WHERE location_id = %s AND time = %s",
        (FIJI[0].location_id, START + 5 * HOUR),
    )
    hours = hours_of_area(weather_table, LocationSet.of_ids([place.location_id for place in FIJI]), None, None)
    assert np.flatnonzero(hours["wind_speed_10m"].isna()).tolist() == [5]
    assert hours["temperature_2m"].notna().all()


def test_all_hours_of_an_area_are_means_of_the_same_locations(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    # Six points in two months, and three of them in a third: the six are the ones that most months have.
    for month, points in (("2023-01", (2, 3)), ("2023-02", (2, 3)), ("2023-03", (1, 3))):
        load_month(warehouse, flat_months(month, points=points))
    area = Area.parse("10.5/20/10.25/20.5")
    with warehouse.connect() as connection:
        locations = locations_of_area(connection, area)
        hours = hours_of_area(connection, locations, None, None)
    assert len(locations) == 6
    by_month = hours["temperature_2m"].notna().groupby(pd.DatetimeIndex(hours.index).month).mean()
    assert by_month.tolist() == [1.0, 1.0, 0.0]
    names = (*KEYS, "temperature_2m")
    rows = [dict(zip(names, row, strict=False)) for row in rows_of_table(warehouse)]
    first = [row for row in rows if row["time"] == hours.index[0]]
    assert len(first) == 6
    weights = [np.cos(np.deg2rad(row["latitude"])) for row in first]
    expected = np.average([row["temperature_2m"] for row in first], weights=weights)
    assert hours["temperature_2m"].iloc[0] == pytest.approx(expected, rel=1e-6)


def test_cells_weigh_as_the_cosine_of_latitude_and_half_as_high_at_the_poles() -> None:
    rows = np.array([0, 40, 360, 600, 720])
    latitudes = np.array([-80.0, 0.0, 60.0])
    assert cell_weights(rows)[1:4].tolist() == pytest.approx(np.cos(np.deg2rad(latitudes)).tolist())
    # The cap within 0.125 degrees of the pole.
    cap = (1 - np.cos(np.deg2rad(0.125))) / (2 * np.sin(np.deg2rad(0.125)))
    assert cell_weights(rows)[[0, 4]].tolist() == pytest.approx([cap, cap], rel=1e-6)
    # All cells of a meridian and its weights make the sphere.
    assert cell_weights(np.arange(721)).sum() * 2 * np.sin(np.deg2rad(0.125)) == pytest.approx(2)


def test_an_empty_warehouse_says_so(empty_database: Connection) -> None:
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        columns_for_climate(empty_database)
    make_table(empty_database)
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        locations_of_area(empty_database, Area.parse("1/1/0/2"))


def test_a_table_without_temperature_and_precipitation_says_what_to_load(weather_table: Connection) -> None:
    weather_table.execute("ALTER TABLE weather DROP COLUMN temperature_2m")
    assert "total_precipitation" in {variable.column for variable in columns_for_climate(weather_table)}
    weather_table.execute("ALTER TABLE weather DROP COLUMN total_precipitation")
    with pytest.raises(NoDataError, match=r"neither temperature_2m nor total_precipitation(.|\n)*--variables t2m,tp"):
        columns_for_climate(weather_table)
