"""Tests of `planning/extent`."""

from __future__ import annotations

from datetime import UTC, datetime

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.planning.extent import Load

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def test_months_of_sums_have_a_request_for_the_hour_before_them() -> None:
    months = (Month(1950, 1), Month(1950, 2), Month(1950, 3))
    area, of_land = Area.parse("10/10/9.9/10.1", ERA5_LAND.grid), ERA5_LAND.catalogue
    for names, requests in (("t2m", 3), ("t2m,tp", 5), ("all", 3 * 9 + 2)):
        variables = of_land.variables if names == "all" else of_land.find_all(names)
        load = Load(months, "cds", variables, area, dataset=ERA5_LAND)
        assert load.requests_of(months, NOW) == requests
        assert load.months_a_request == 1
        assert load.requests_a_month == (requests + 1) // 3


def test_a_data_set_of_land_is_counted_on_land() -> None:
    month, of_land = Month(2020, 1), ERA5_LAND.catalogue.default_variables
    globe = Load((month,), "cds", of_land, Area.parse("global", ERA5_LAND.grid), dataset=ERA5_LAND)
    assert (globe.locations, globe.size_of(month).rows) == (2_212_863, 1_646_370_072)
    assert globe.is_global
    coast = Load((month,), "cds", of_land, Area.parse("10/-20/0/10", ERA5_LAND.grid), dataset=ERA5_LAND)
    assert 0 < coast.locations < 101 * 301
    assert not coast.is_global
    assert len(coast.location_ids) == coast.locations
    sea = Load((month,), "cds", of_land, Area.parse("0/-30/-10/-20", ERA5_LAND.grid), dataset=ERA5_LAND)
    assert (sea.locations, sea.size_of(month).rows) == (0, 0)
