"""`climate.words`: how trends are written."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.answer import Trend
from era5_pipeline.climate.trends import trend_of
from era5_pipeline.climate.words import decimals_of, in_all_text, interval_text
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE


def trend_with_noise(noise: float, slope: float = 0.013, level: float = 0.0) -> Trend:
    years = np.arange(1980, 2020)
    values = level + slope * (years - 1980) + noise * np.where(years % 3 == 0, 1.0, -0.5)
    found = trend_of(pd.Series(values, index=years))
    assert isinstance(found, Trend)
    return found


@pytest.mark.parametrize("noise", [3.0, 0.3, 0.03, 0.003, 0.0003])
def test_both_ends_of_an_interval_differ_from_the_slope(noise: float) -> None:
    text = interval_text(trend_with_noise(noise))
    match = re.fullmatch(r"([+-][\d.]+) \(([+-][\d.]+) to ([+-][\d.]+)\)", text)
    assert match is not None, text
    slope, low, high = (float(number) for number in match.groups())
    assert low < slope < high
    assert len({len(number.partition(".")[2]) for number in match.groups()}) == 1


def test_an_end_beside_zero_keeps_its_sign() -> None:
    trend = trend_of(MEAN_TEMPERATURE)
    assert isinstance(trend, Trend)
    assert interval_text(trend) == "+0.20 (-0.03 to +0.42)"


def test_a_wide_interval_has_no_more_decimals_than_asked_for() -> None:
    trend = trend_with_noise(300.0)
    assert decimals_of(trend) == 0
    assert decimals_of(trend, 2) == 2
    assert decimals_of(trend_with_noise(3.0)) == 2


def test_a_slope_beside_zero_has_no_minus() -> None:
    trend = trend_with_noise(0.3, slope=-0.00002)
    assert -0.0005 < trend.slope < 0
    assert interval_text(trend).startswith("+0.000 (-")


def test_digits_end_where_the_interval_is_a_point() -> None:
    """Values on a line but for the last bits of their numbers."""
    assert decimals_of(trend_with_noise(1e-12, level=10.0)) == 2


@pytest.mark.parametrize(
    ("change", "decimals", "text"), [(0.568, 3, "0.6"), (0.568, 2, "0.6"), (0.0251, 4, "0.03"), (1.68, 2, "1.7")]
)
def test_the_change_in_all_has_less_digits_than_that_of_a_decade(change: float, decimals: int, text: str) -> None:
    assert in_all_text(change, decimals) == text
