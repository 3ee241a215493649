"""Tests of `serving/archive/formulas`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.serving.archive import formulas
from era5_pipeline.serving.archive.formulas import et0_of_hours, penman_monteith
from era5_pipeline.serving.archive.sun import SunOfPlace


def one(formula: Any, *values: float) -> float:
    found = formula(*(np.array([value], dtype=np.float32) for value in values))
    assert found.dtype == np.float32
    return float(found[0])


@pytest.mark.parametrize(
    ("eastward", "northward", "direction"),
    [
        (0.0, -5.0, 360.0),  # wind from the north blows southward
        (-0.0, -5.0, 360.0),
        (-5.0, 0.0, 90.0),
        (0.0, 5.0, 180.0),
        (5.0, 0.0, 270.0),
        (-3.0, -3.0, 45.0),
        (3.0, -3.0, 315.0),
        (0.0, 0.0, 270.0),  # calm
        (-0.0, -0.0, 270.0),
    ],
)
def test_wind_direction_is_where_it_comes_from(eastward: float, northward: float, direction: float) -> None:
    assert one(formulas.wind_direction, eastward, northward) == pytest.approx(direction, abs=1e-3)


@given(st.floats(-40, 40, width=32), st.floats(-40, 40, width=32))
def test_speed_and_direction_give_the_components_back(eastward: float, northward: float) -> None:
    speed = one(formulas.wind_speed, eastward, northward)
    towards = math.radians(one(formulas.wind_direction, eastward, northward) - 180)
    assert speed * math.sin(towards) == pytest.approx(eastward, abs=1e-3)
    assert speed * math.cos(towards) == pytest.approx(northward, abs=1e-3)


@pytest.mark.parametrize(
    ("formula", "values", "expected", "tolerance"),
    [
        (formulas.wind_speed, (3.0, -4.0), 5.0, 1e-6),
        (formulas.percent, (0.375,), 37.5, 1e-6),
        (formulas.snow_height, (10.0,), 7.0, 1e-5),
        (formulas.rain, (2.5, 1.0), 1.5, 1e-6),
        (formulas.rain, (0.5, 0.75), 0.0, 0),
        (formulas.snow_depth, (60.0, 300.0), 0.2, 1e-6),
        # Magnus' formula
        (formulas.relative_humidity, (20.0, 20.0), 100.0, 1e-3),
        (formulas.relative_humidity, (20.0, 10.0), 52.54, 0.02),
        (formulas.relative_humidity, (10.0, 10.5), 100.0, 0),
        # FAO 56, table 2.3: 3.168 kPa at 25 degC, 1.705 at 15
        (formulas.vapour_pressure_deficit, (25.0, 15.0), 1.463, 0.001),
        (formulas.vapour_pressure_deficit, (15.0, 15.5), 0.0, 0),
        # Stull 2011: 20 degC and 50 % give 13.7 degC; the dew point is then 9.26
        (formulas.wet_bulb, (20.0, 9.26), 13.7, 0.05),
        # by hand: humidity 55.09 %, 23.296 hPa; 30 + 8.107 - 2.625 - 4.25, and 0.7 * 45 / 13.75 by 1,000 W/m2
        (formulas.apparent_temperature, (30.0, 20.0, 3.0, 4.0, 0.0), 31.232, 0.01),
        (formulas.apparent_temperature, (30.0, 20.0, 3.0, 4.0, 3.6e6), 33.523, 0.01),
        (formulas.mean_watts, (3.6e6,), 1000.0, 1e-3),
        (formulas.diffuse_watts, (3.6e6, 1.8e6), 500.0, 1e-3),
        (formulas.degree_days, (24.0,), 1.0, 1e-6),
        (formulas.degree_days, (-3.0,), 0.0, 0),
        (formulas.degree_days, (60.0,), 50 / 24, 1e-5),
    ],
)
def test_a_formula_gives_the_known_value(
    formula: Any, values: tuple[float, ...], expected: float, tolerance: float
) -> None:
    assert one(formula, *values) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("cloud", "precipitation", "snow", "code"),
    [
        *((cloud, 0.0, 0.0, code) for cloud, code in ((0.0, 0), (-0.0001, 0), (0.199, 0), (0.25, 1), (0.5, 2))),
        (0.9, 0.009, 0.0, 3),
        *((0.0, rain, 0.0, code) for rain, code in ((0.02, 51), (0.6, 53), (1.1, 55), (2.0, 61), (5.0, 63), (8.0, 65))),
        # 0.07 cm of snow comes before the rain.
        *((1.0, 5.0, snow, code) for snow, code in ((0.1, 71), (0.5, 73), (2.0, 75))),
    ],
)
def test_a_weather_code_is_of_snow_else_rain_else_cloud(
    cloud: float, precipitation: float, snow: float, code: int
) -> None:
    assert one(formulas.weather_code, cloud, precipitation, snow) == code


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_weather_code_needs_all_three(missing: int) -> None:
    values = [0.5, 1.0, 0.1]
    values[missing] = math.nan
    assert math.isnan(one(formulas.weather_code, *values))


MIDNIGHT = int(datetime(1998, 10, 1, 1, tzinfo=UTC).timestamp())  # at UTC-1
SUN = SunOfPlace(16 + 13 / 60, -16.25, MIDNIGHT, MIDNIGHT, 1)


def test_the_two_hours_of_example_19() -> None:
    """N'Diaye, Senegal, 1 October: 02:00 to 03:00 (28 degC, 90 %, 1.9 m/s), 14:00 to 15:00 (38 degC, 52 %, 3.3 m/s)."""
    found = penman_monteith(
        np.array([28.0, 38.0]),
        np.array([3.402, 3.445]),
        np.array([1.9, 3.3]),
        np.array([0.0, 2.450]),
        np.array([0.8, 0.922]),
        np.array([101.3, 101.3]),
        is_day=np.array([False, True]),
    )
    assert found[0] == pytest.approx(0.0, abs=0.005)
    assert found[1] == pytest.approx(0.63, abs=0.005)


def columns(**changed: Any) -> tuple[np.ndarray[Any, np.dtype[np.float32]], ...]:
    """A day of that place, in the table's columns and units: every hour as the two of the example."""
    is_night = np.arange(24) < 7
    found = {
        "temperature": np.where(is_night, 28.0, 38.0),
        "dew_point": np.where(is_night, 26.2, 26.4),
        "eastward": np.where(is_night, 1.9, 3.3) / 0.748,
        "northward": np.zeros(24),
        "sunlight": np.maximum(np.sin(np.pi * (np.arange(24) - 7) / 12), 0) * 2.6e6,
        "pressure": np.full(24, 1013.0),
        **changed,
    }
    return tuple(np.asarray(one, dtype=np.float32) for one in found.values())


def test_the_columns_of_the_table_give_the_same_hours() -> None:
    day = columns()
    day[4][15] = 2.450e6
    found = et0_of_hours(SUN, *day)
    assert found.dtype == np.float32
    assert found[3] == pytest.approx(0.0, abs=0.01)
    assert found[15] == pytest.approx(0.63, abs=0.01)
    assert (found >= 0).all()


def test_an_hour_that_lacks_a_value_has_none_and_the_others_do() -> None:
    sunlight = columns()[4].copy()
    sunlight[12] = np.nan
    found = et0_of_hours(SUN, *columns(sunlight=sunlight))
    assert np.isnan(found).tolist() == [hour == 12 for hour in range(24)]


def test_a_polar_night_has_values() -> None:
    midnight = int(datetime(2024, 12, 21, tzinfo=UTC).timestamp())
    dark = SunOfPlace(78.25, 15.5, midnight, midnight, 1)
    found = et0_of_hours(dark, *columns(temperature=[-10.0] * 24, dew_point=[-12.0] * 24, sunlight=[0.0] * 24))
    assert np.isfinite(found).all()
    assert 0 <= found.max() < 0.1
