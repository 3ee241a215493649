"""Ranges of colours, from values and as asked."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import BoundaryNorm

from era5_pipeline.draw.colour_scales import colour_scale
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN, Variable
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, USUAL

TEMPERATURE, PRECIPITATION = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]


def values_of(variable: Variable) -> np.ndarray:
    return np.linspace(*USUAL[variable], 1000, dtype=np.float32)


@pytest.mark.parametrize("variable", USUAL, ids=lambda variable: variable.column)
def test_the_range_fits_the_values(variable: Variable) -> None:
    _, norm = colour_scale(variable, values_of(variable))
    low, high = USUAL[variable]
    assert norm.vmin is not None
    assert norm.vmax is not None
    # The fixed steps of amounts go a little beyond.
    used = (high - low) / (norm.vmax - norm.vmin)
    assert 0.29 < used < 1.02
    assert norm.vmin <= low + 0.01 * (high - low)
    assert norm.vmax >= high - 0.01 * (high - low)


@pytest.mark.parametrize("column", ["surface_net_thermal_radiation", "evaporation"])
def test_a_flux_of_both_signs_is_centred_at_zero(column: str) -> None:
    _, norm = colour_scale(KINDS[column], values_of(KINDS[column]))
    assert norm.vmin is not None
    assert norm.vmin == -(norm.vmax or 0.0) < 0.0


def test_temperature_is_symmetric_if_values_cross_zero_wind_always_and_cloud_is_from_0_to_1() -> None:
    def range_of(column: str, *values: float) -> tuple[float | None, float | None]:
        _, norm = colour_scale(BY_COLUMN[column], np.array(values, dtype=np.float32))
        return norm.vmin, norm.vmax

    for column, values in (("temperature_2m", (-20.0, 30.0)), ("zonal_wind_10m", (1.0, 19.0))):
        low, high = range_of(column, *values)
        assert low == -(high or 0.0) < 0.0
    assert (range_of("temperature_2m", 12.0, 70.0)[0] or 0.0) > 0.0
    assert range_of("total_cloud_cover", 0.1, 0.8) == (0.0, 1.0)


def test_dry_is_white_and_amounts_have_the_same_colour_on_every_map() -> None:
    def colours(top: float) -> tuple[np.ndarray, np.ndarray]:
        scale, norm = colour_scale(PRECIPITATION, np.array([0.0, top], dtype=np.float32))
        assert isinstance(norm, BoundaryNorm)
        return scale(norm(np.array([-0.005, 0.0, 0.05, 0.3, 0.7]))), scale(norm(np.array([top])))

    light, _ = colours(0.8)
    heavy, top = colours(300.0)
    np.testing.assert_array_equal(light, heavy)
    np.testing.assert_array_equal(light[:3], 1.0)
    assert not (top == 1.0).all()


@pytest.mark.parametrize("column", ["wind_gust_10m", "volumetric_soil_water_layer_1", "boundary_layer_height"])
def test_values_near_zero_are_shown_from_zero_on(column: str) -> None:
    assert colour_scale(KINDS[column], values_of(KINDS[column]))[1].vmin == 0.0


def test_a_little_evaporation_can_be_seen() -> None:
    assert colour_scale(KINDS["evaporation"], np.array([-0.12, -0.04], dtype="f4"))[1].vmin == pytest.approx(-0.12)


def test_pressure_and_ozone_are_shown_in_their_own_range() -> None:
    assert colour_scale(KINDS["mean_sea_level_pressure"], np.array([1000.0, 1020.0], dtype="f4"))[1].vmin == 1000.0
    ozone = colour_scale(KINDS["total_column_ozone"], values_of(KINDS["total_column_ozone"]))[1]
    assert ozone.vmin == pytest.approx(0.005)
    assert ozone.vmax == pytest.approx(0.01)


@pytest.mark.parametrize("variable", USUAL, ids=lambda variable: variable.column)
@pytest.mark.parametrize("values", [[], [np.nan], [5.0, 5.0], [0.0]])
def test_no_values_or_equal_ones_have_a_range_too(variable: Variable, values: list[float]) -> None:
    _, norm = colour_scale(variable, np.array(values, dtype=np.float32))
    assert norm.vmin is not None
    assert norm.vmax is not None
    assert norm.vmin < norm.vmax


@pytest.mark.parametrize("variable", [TEMPERATURE, PRECIPITATION, *USUAL], ids=lambda variable: variable.column)
def test_limits_are_those_asked_for(variable: Variable) -> None:
    values = np.linspace(*USUAL.get(variable, (-20.0, 30.0)), 100, dtype=np.float32)
    low, high = float(values[20]), float(values[70])
    _, norm = colour_scale(variable, values, (low, high))
    assert (norm.vmin, norm.vmax) == (low, high)
    assert not isinstance(norm, BoundaryNorm)
    _, above = colour_scale(variable, values, (low, None))
    assert above.vmin == low
    assert above.vmax == colour_scale(variable, values)[1].vmax


def test_zero_keeps_its_colour_whatever_the_limits() -> None:
    values = np.array([-20.0, 30.0], dtype=np.float32)
    middle = []
    for limits in ((None, None), (-10.0, 40.0), (-30.0, 5.0)):
        colours, norm = colour_scale(TEMPERATURE, values, limits)
        middle.append(colours(norm(0.0)))
    np.testing.assert_allclose(middle, np.broadcast_to(middle[0], (3, 4)), atol=0.03)


def test_dry_stays_white_with_limits() -> None:
    colours, norm = colour_scale(PRECIPITATION, np.array([0.0, 12.0], dtype=np.float32), (0.0, 4.0))
    assert colours(norm(0.0)) == (1.0, 1.0, 1.0, 1.0)
    assert colours(norm(4.0)) != (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((50.0, None), r"--vmin 50 leaves no range: from the values, --vmax would be 30 degC.*\nGive --vmax, too"),
        ((None, -50.0), r"--vmax -50 leaves no range: from the values, --vmin would be -30 degC.*\nGive --vmin, too"),
    ],
)
def test_a_limit_beyond_the_values_is_an_error(limits: tuple[float | None, float | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        colour_scale(TEMPERATURE, np.array([-20.0, 30.0], dtype=np.float32), limits)
