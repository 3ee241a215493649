"""Titles, units and kinds of scales of any variable."""

from __future__ import annotations

import pytest

from era5_pipeline.maps.styles import is_signed, power_of, style_of, title_of, unit_of_hour, unit_text
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, USUAL


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
        *(("degC", "°C"), ("m/s", "m s⁻¹"), ("kg/m2/s", "kg m⁻² s⁻¹"), ("m3/m3", "m³ m⁻³")),
        *(("N s/m2", "N s m⁻²"), ("hPa", "hPa"), ("1", ""), ("fraction", "fraction")),
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
        *(("dewpoint_2m", "thermal"), ("sea_ice_cover", "fraction"), ("runoff", "amount")),
        *(("snow_depth_water_equivalent", "plain"), ("volumetric_soil_water_layer_1", "plain")),
        *(("top_net_thermal_radiation", "plain"), ("k_index", "plain")),
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
