"""`read.held`: which months of which variables each area has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.months import Month
from era5_pipeline.read.held import read_coverage
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def test_an_empty_database_has_no_area(empty_warehouse: Warehouse) -> None:
    with empty_warehouse.connect() as connection:
        assert read_coverage(connection) == []


def test_each_area_has_its_months_variables_and_states(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    for month in ("2023-05", "2023-07"):
        load_month(warehouse, flat_months(month))
    load_month(warehouse, flat_months("2023-08", hours=100))
    load_month(warehouse, flat_months("2023-07", north=-5.0, points=(1, 1), names=("u10",)))
    preliminary = VersionedMonths(tmp_path)("0005", month="2023-09", north=60.0)
    load_month(warehouse, preliminary)
    with warehouse.connect() as connection:
        areas = read_coverage(connection)
    assert len({area.name for area in areas}) == len(areas) == 3
    large = areas[0]
    assert large.name == "10.5/20/10.25/20.5, 6 places"
    assert large.columns == ("temperature_2m", "total_precipitation")
    assert large.states["temperature_2m"] == {
        Month(2023, 5): "complete",
        Month(2023, 7): "complete",
        Month(2023, 8): "incomplete",
    }
    assert large.missing_months("temperature_2m") == (Month(2023, 6),)
    assert large.to_json()["variables"]["total_precipitation"] == {
        "complete": ["2023-05", "2023-07"],
        "incomplete": ["2023-08"],
        "preliminary": [],
        "missing": ["2023-06"],
    }
    (point,) = (area for area in areas if len(area.locations) == 1)
    assert point.states == {"zonal_wind_10m": {Month(2023, 7): "complete"}}
    assert point.name == "-5/20"
    (other,) = (area for area in areas if area.locations == preliminary.location_ids)
    assert {state for months in other.states.values() for state in months.values()} == {"preliminary"}


def test_areas_that_were_loaded_alike_keep_their_names(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for north in (10.5, -3.0):
        load_month(warehouse, flat_months("2023-01", north=north))
    with warehouse.connect() as connection:
        assert [area.name for area in read_coverage(connection)] == [
            "-3/20/-3.25/20.5, 6 places",
            "10.5/20/10.25/20.5, 6 places",
        ]


def test_many_points_that_were_loaded_alike_are_one_area(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for month in ("2023-01", "2023-02"):
        for west in range(9):
            load_month(warehouse, flat_months(month, points=(1, 1), north=-3.0, west=float(west)))
    with warehouse.connect() as connection:
        (area,) = read_coverage(connection)
    assert area.name == "9 places within -3/0/-3/8"
    assert area.months("temperature_2m", "complete") == (Month(2023, 1), Month(2023, 2))
