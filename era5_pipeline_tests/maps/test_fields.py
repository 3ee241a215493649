"""Titles, units and kinds of scales of any variable, and the part of a map that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.maps.fields import (
    is_signed,
    main_part,
    power_of,
    style_of,
    title_of,
    unit_of_hour,
    unit_text,
)
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.read.fields import placed
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, USUAL

if TYPE_CHECKING:
    from era5_pipeline.maps.fields import MainPart


@pytest.mark.parametrize(
    ("column", "title"),
    [
        ("wind_gust_10m", "10 m wind gust"),
        ("neutral_zonal_wind_100m", "100 m neutral eastward wind"),
        ("toa_incident_solar_radiation", "TOA incident solar radiation"),
        ("k_index", "K index"),
    ],
)
def test_a_title_is_the_column_in_words(column: str, title: str) -> None:
    assert title_of(column) == title


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("degC", "°C"),
        ("m/s", "m s⁻¹"),
        ("kg/m2/s", "kg m⁻² s⁻¹"),
        ("m3/m3", "m³ m⁻³"),
        ("N s/m2", "N s m⁻²"),
        ("hPa", "hPa"),
        ("1", ""),
        ("fraction", "fraction"),
    ],
)
def test_units_have_exponents(unit: str, text: str) -> None:
    assert unit_text(unit) == text


def test_signed_variables_are_those_with_both_signs() -> None:
    signed = {"surface_net_thermal_radiation", "evaporation", "eastward_turbulent_surface_stress"}
    assert {variable.column for variable in USUAL if is_signed(variable)} == signed
    assert {variable.column for variable in USUAL if style_of(variable).scale == "symmetric"} == signed


@pytest.mark.parametrize(
    ("column", "scale"),
    [
        ("dewpoint_2m", "thermal"),
        ("sea_ice_cover", "fraction"),
        ("runoff", "amount"),
        ("snow_depth_water_equivalent", "plain"),
        ("volumetric_soil_water_layer_1", "plain"),
        ("top_net_thermal_radiation", "plain"),
        ("k_index", "plain"),
    ],
)
def test_the_kind_of_scale_follows_from_unit_and_bounds(column: str, scale: str) -> None:
    assert style_of(KINDS[column]).scale == scale


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("runoff", "mm in the hour before"),
        ("wind_gust_10m", "m s⁻¹, highest of the hour before"),
        ("mean_total_precipitation_rate", "10⁻³ kg m⁻² s⁻¹, mean of the hour before"),
        ("surface_solar_radiation_downwards", "10⁶ J m⁻² in the hour before"),
        ("k_index", "K"),
        ("soil_type", ""),
    ],
)
def test_the_unit_says_what_an_hours_value_stands_for(column: str, text: str) -> None:
    variable = KINDS[column]
    assert unit_of_hour(variable, power_of(USUAL[variable][1])) == text


def test_power_of_ten_is_for_numbers_that_would_be_long() -> None:
    assert [power_of(value) for value in (0.0, 1.0, 0.5, 12_000.0, 3.3e6, 0.0095, 7e8, float("inf"))] == [
        *(0, 0, 0, 0, 6, -3, 6, 0)
    ]


# --- Places far apart: the part that one map can show ---


QATAR, MEKONG, FIJI = "26.5/50.5/24.5/52", "10.75/106.25/10.75/106.25", "-16/179/-18/-179"


def part_of(*areas: str) -> MainPart | None:
    ids = np.unique(np.concatenate([LocationSet.of_area(Area.parse(area)).ids() for area in areas])).astype(np.int32)
    window, values = placed(ids, np.ones(ids.size, dtype=np.float32))
    found = main_part(window, np.isfinite(values))
    if found:
        shown = values[found.rows, found.columns]
        assert shown.shape == (
            found.area.latitude_indices().size,
            found.area.longitude_indices().size,
        )
        assert float(window.latitudes[::-1][found.rows][0]) == found.area.south
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
    assert main_part(GridWindow(2, 0, 3, 4), np.zeros((3, 4), dtype=bool)) is None


def test_one_part_among_places_without_values_is_drawn_alone() -> None:
    ids = LocationSet.of_area(Area.parse("30/40/0/90")).ids().astype(np.int32)
    window, values = placed(ids, np.ones(ids.size, dtype=np.float32))
    has_value = np.zeros(values.shape, dtype=bool)
    has_value[98:107, 42:49] = True
    found = main_part(window, has_value)
    assert found is not None
    assert (str(found.area), found.line) == (QATAR, None)
