from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID, ERA5_LAND_GRID, Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_VARIABLES, VARIABLES
from era5_pipeline.sources.cds.request import (
    digest_of_inputs,
    fields_of,
    fresh_time_order,
    hour_before_inputs,
    inputs_of,
    month_inputs,
    months_a_request,
    months_together,
    portions_of,
    summed_before,
)
from era5_pipeline.sources.source import Request

JANUARY = Month(2020, 1)
AREA = Area(-5, 106, -8, 108)


def test_the_inputs_of_a_month() -> None:
    assert month_inputs(JANUARY, Request(area=Area(-5, 106, -8, 108))) == {
        "product_type": ["reanalysis"],
        "variable": [
            "2m_temperature",
            "10m_u_component_of_wind",
            "10m_v_component_of_wind",
            "total_cloud_cover",
            "total_precipitation",
            "snowfall",
        ],
        "year": ["2020"],
        "month": ["01"],
        "day": [f"{day:02d}" for day in range(1, 32)],
        "time": [f"{hour:02d}:00" for hour in range(24)],
        "data_format": "netcdf",
        "download_format": "unarchived",
        "area": [-5, 106, -8, 108],
    }


@pytest.mark.parametrize(("month", "days"), [("2023-02", 28), ("2024-02", 29), ("2000-02", 29), ("2023-04", 30)])
def test_only_days_that_the_month_has_are_requested(month: str, days: int) -> None:
    assert month_inputs(Month.parse(month), Request())["day"] == [f"{day:02d}" for day in range(1, days + 1)]


def test_the_globe_is_requested_without_an_area() -> None:
    assert "area" not in month_inputs(JANUARY, Request())
    assert "area" not in month_inputs(JANUARY, Request(area=Area.parse("global")))


def test_a_month_of_the_default_variables_is_one_request() -> None:
    assert fields_of(JANUARY, len(DEFAULT_VARIABLES)) == 4464 <= ERA5.cds_max_fields
    assert portions_of(Request()) == (Request(),)
    assert portions_of(Request(VARIABLES[:22])) == (Request(VARIABLES[:22]),)


@given(count=st.integers(1, len(VARIABLES)))
def test_portions_are_as_few_as_the_cost_limit_allows_and_lose_no_variable(count: int) -> None:
    request = Request(VARIABLES[:count], Area(1, 2, 0, 3))
    portions = portions_of(request)
    assert tuple(variable for portion in portions for variable in portion.wanted) == VARIABLES[:count]
    assert all(fields_of(JANUARY, len(portion.wanted)) <= ERA5.cds_max_fields for portion in portions)
    assert (len(portions) - 1) * ERA5.cds_max_fields < fields_of(JANUARY, count)
    assert {portion.area for portion in portions} == {request.area}
    digests = {digest_of_inputs(month_inputs(JANUARY, portion)) for portion in portions}
    assert len(digests) == len(portions)


def test_a_fresh_retrieval_requests_the_same_data_in_another_order() -> None:
    plain, fresh = month_inputs(JANUARY, Request()), month_inputs(JANUARY, Request(), time_order=fresh_time_order())
    assert fresh["time"] != plain["time"]
    assert sorted(fresh["time"]) == plain["time"]
    assert {**fresh, "time": plain["time"]} == plain
    assert digest_of_inputs(fresh) == digest_of_inputs(plain)
    assert digest_of_inputs(plain) != digest_of_inputs(month_inputs(Month(2020, 2), Request()))


degrees = st.floats(-180, 360).map(lambda value: round(value, 3))


@given(st.floats(-90, 90), st.floats(-90, 90), degrees, degrees)
def test_the_services_grid_has_the_points_of_the_area(a: float, b: float, west: float, east: float) -> None:
    try:
        area = Area(round(max(a, b), 3), west, round(min(a, b), 3), east)
    except UsageError:
        return  # it holds no point
    inputs = month_inputs(JANUARY, Request(area=area))
    if "area" not in inputs:
        assert area.latitude_indices().size == 721
        assert area.longitude_indices().size == 1440
        return
    north, w, south, e = inputs["area"]
    # As the service does: from the north-western corner in steps of 0.25 degrees.
    rows = ERA5_GRID.latitude_indices(np.arange(north, south - 0.01, -0.25))
    across = (e - w) % 360.0
    columns = ERA5_GRID.longitude_indices((w + np.arange(0, across + 0.01, 0.25) + 180.0) % 360.0 - 180.0)
    assert sorted(rows) == area.latitude_indices().tolist()
    assert sorted(columns) == area.longitude_indices().tolist()


# --- ERA5-Land ----------------------------------------------------------------

LAND = Request(area=Area(-5.04, 106, -5.3, 106.22, grid=ERA5_LAND_GRID), dataset=ERA5_LAND)


def test_the_inputs_of_a_month_of_era5_land() -> None:
    inputs = month_inputs(JANUARY, LAND)
    assert inputs["variable"] == [
        "2m_temperature",
        "10m_u_component_of_wind",
        "10m_v_component_of_wind",
        "total_precipitation",
        "snowfall",
    ]
    assert inputs["area"] == [-5.1, 106.0, -5.3, 106.2]
    assert sorted(inputs) == sorted(month_inputs(JANUARY, Request(area=AREA)).keys() - {"product_type"})
    named = replace(LAND, variables=ERA5_LAND.catalogue.find_all("sd,sde,e"))
    assert month_inputs(JANUARY, named)["variable"] == [
        "total_evaporation",
        "snow_depth_water_equivalent",
        "snow_depth",
    ]


def test_a_month_of_era5_land_needs_the_hour_before_it_of_what_accumulates() -> None:
    before = summed_before(JANUARY, LAND)
    assert before is not None
    inputs = hour_before_inputs(JANUARY, before)
    assert inputs == {
        **month_inputs(JANUARY, LAND),
        "variable": ["total_precipitation", "snowfall"],
        "year": ["2019"],
        "month": ["12"],
        "day": ["31"],
        "time": ["23:00"],
    }
    fresh = hour_before_inputs(JANUARY, before, time_order=fresh_time_order())
    assert len(fresh["time"]) == 24
    assert {**fresh, "time": ["23:00"]} == inputs


def test_months_without_sums_need_no_hour_before_them() -> None:
    assert summed_before(JANUARY, Request(area=AREA)) is None
    assert summed_before(JANUARY, replace(LAND, variables=ERA5_LAND.catalogue.find_all("t2m,skt"))) is None
    assert summed_before(Month(1950, 1), LAND) is None
    assert summed_before(Month(1950, 2), LAND) is not None


def test_requests_of_era5_land_are_for_a_month_of_six_variables_at_most() -> None:
    everything = replace(LAND, variables=ERA5_LAND.catalogue.variables)
    assert [len(portion.wanted) for portion in portions_of(everything)] == [5, 6, 5, 6, 5, 6, 5, 6, 6]
    assert months_a_request(LAND) == 1


# --- months together ----------------------------------------------------------

LATER = datetime(2026, 11, 20, tzinfo=UTC)


@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 60))
def test_a_request_for_several_months_is_within_the_limits(count: int, height: int, width: int) -> None:
    request = Request(VARIABLES[:count], Area(height / 2, 0, -height / 2, width))
    size = months_a_request(request)
    assert 12 % size == 0
    if size > 1:
        assert size * fields_of(JANUARY, count) <= ERA5.cds_max_fields
        assert len(portions_of(request)) == 1
        locations = (height * 4 + 1) * (width * 4 + 1)
        assert size * fields_of(JANUARY, count) * locations * 4 <= 500_000_000


@pytest.mark.parametrize(("count", "size"), [(1, 12), (2, 6), (3, 6), (4, 4), (5, 4), (6, 3), (7, 3), (8, 2), (12, 1)])
def test_a_request_of_fewer_variables_is_for_more_months(count: int, size: int) -> None:
    assert months_a_request(Request(VARIABLES[:count], Area(-5, 106, -8, 108))) == size


def test_a_request_of_a_large_area_is_for_one_month() -> None:
    assert months_a_request(Request()) == months_a_request(Request(area=Area.parse("global"))) == 1
    assert months_a_request(Request(area=Area(72, -25, 34, 45))) == 1


def test_the_months_of_a_request_are_a_fixed_part_of_a_year() -> None:
    request = Request(area=Area(-5, 106, -8, 108))
    parts = {months_together(Month(2020, month), request, LATER) for month in range(1, 13)}
    assert sorted(tuple(month.month for month in part) for part in parts) == [
        (1, 2, 3),
        (4, 5, 6),
        (7, 8, 9),
        (10, 11, 12),
    ]
    inputs = inputs_of(months_together(Month(2020, 5), request, LATER), request)
    assert (inputs["year"], inputs["month"], len(inputs["day"])) == (["2020"], ["04", "05", "06"], 31)


def test_a_month_that_may_be_preliminary_is_requested_alone_and_those_with_it() -> None:
    request = Request(area=Area(-5, 106, -8, 108))
    assert months_together(Month(2026, 5), request, LATER) == (Month(2026, 4), Month(2026, 5), Month(2026, 6))
    assert months_together(Month(2026, 5), request, datetime(2026, 10, 20, tzinfo=UTC)) == (Month(2026, 5),)
