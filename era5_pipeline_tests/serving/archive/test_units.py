"""Units of an answer: conversion by written-down factors, and rounding half away from zero in float32."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.serving.archive import units
from era5_pipeline.serving.archive.units import Unit, UnitChoice, rounded


def singles(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("choice", "unit", "value", "expected"),
    [
        (UnitChoice(), units.CELSIUS, 12.5, (12.5, "°C", 1)),
        (UnitChoice(temperature="fahrenheit"), units.CELSIUS, 10.0, (50.0, "°F", 1)),
        (UnitChoice(temperature="fahrenheit"), units.CELSIUS, -40.0, (-40.0, "°F", 1)),
        (UnitChoice(), units.METRES_PER_SECOND, 10.0, (36.0, "km/h", 1)),
        (UnitChoice(wind_speed="ms"), units.METRES_PER_SECOND, 10.0, (10.0, "m/s", 2)),
        (UnitChoice(wind_speed="mph"), units.METRES_PER_SECOND, 10.0, (22.37, "mp/h", 1)),
        (UnitChoice(wind_speed="kn"), units.METRES_PER_SECOND, 10.0, (19.4384, "kn", 1)),
        (UnitChoice(), units.MILLIMETRES, 25.4, (25.4, "mm", 2)),
        (UnitChoice(precipitation="inch"), units.MILLIMETRES, 25.4, (1.0, "inch", 3)),
        (UnitChoice(precipitation="inch"), units.CENTIMETRES, 2.54, (1.0, "inch", 3)),
        (UnitChoice(precipitation="inch"), units.METRES, 100.0, (328.083989, "ft", 3)),
        (UnitChoice(wind_speed="kn", precipitation="inch"), units.CELSIUS, 1.0, (1.0, "°C", 1)),
        (UnitChoice("fahrenheit", "kn", "inch"), units.PERCENT, 55.0, (55.0, "%", 0)),
    ],
)
def test_a_value_is_converted_to_the_unit_that_was_asked_for(
    choice: UnitChoice, unit: Unit, value: float, expected: tuple[float, str, int]
) -> None:
    values, found = choice.convert(singles(value), unit)
    assert values.dtype == np.float32
    assert (found.name, found.decimals) == expected[1:]
    assert float(values[0]) == pytest.approx(expected[0], rel=1e-6)


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (0.25, 1, 0.3),
        (-0.25, 1, -0.3),
        (0.75, 1, 0.8),
        (0.5, 0, 1.0),
        (-0.5, 0, -1.0),
        (2.5, 0, 3.0),
        (0.49999997, 0, 0.0),  # the greatest float32 below a half
        (12.34, 1, 12.3),
        (0.125, 2, 0.13),
        (1013.25, 1, 1013.3),
        (359.5, 0, 360.0),
    ],
)
def test_a_half_is_rounded_away_from_zero(value: float, decimals: int, expected: float) -> None:
    assert rounded(singles(value), decimals)[0] == expected


def test_a_small_negative_value_is_plain_zero_and_nan_stays() -> None:
    found = rounded(singles(-0.04, -0.0, np.nan), 1)
    assert [repr(value) for value in found[:2].tolist()] == ["0.0", "0.0"]
    assert np.isnan(found[2])


@given(st.floats(-99_999, 99_999, width=32), st.integers(0, 3))
def test_rounding_is_that_of_the_product_in_float32_and_leaves_no_further_decimals(value: float, decimals: int) -> None:
    product = Decimal(float(np.float32(value) * np.float32(10**decimals)))
    expected = float(product.quantize(Decimal(1), ROUND_HALF_UP) / 10**decimals)
    found = float(rounded(singles(value), decimals)[0])
    assert found == expected
    assert len(repr(found).partition(".")[2]) <= max(decimals, 1) or "e" in repr(found)
