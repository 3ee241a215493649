"""`query.maps.cell_trends` against the trend of a place, one location at a time, and scipy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate.trends import FEWEST_YEARS, trend_of
from era5_pipeline.query.maps import cell_trends
from era5_pipeline.query.maps.cell_trends import trends_of_cells
from era5_pipeline.query.maps.yearly_cells import YearlyCells

if TYPE_CHECKING:
    import pytest


def cells_of(values: np.ndarray, first: int = 1980) -> YearlyCells:
    """Cells of values (years, locations)."""
    years = tuple(range(first, first + len(values)))
    return YearlyCells(
        years, np.arange(1, values.shape[1] + 1, dtype=np.int32), tuple(values.astype("f4")), has_values=True
    )


def autocorrelated(random: np.random.Generator, years: int, lag1: float, slope: float) -> np.ndarray:
    noise = np.zeros(years)
    for year in range(1, years):
        noise[year] = lag1 * noise[year - 1] + random.normal(scale=0.3)
    return slope * np.arange(years) + noise + 15.0


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    years=st.integers(FEWEST_YEARS - 2, 60),
    lag1=st.floats(-0.5, 0.9),
    slope=st.floats(-0.1, 0.1),
    missing=st.floats(0.0, 0.4),
)
def test_each_location_has_the_trend_of_a_place(
    seed: int, years: int, lag1: float, slope: float, missing: float
) -> None:
    random = np.random.default_rng(seed)
    values = np.stack([autocorrelated(random, years, lag1, slope) for _ in range(4)], axis=1).astype("f4")
    values[random.random(values.shape) < missing] = np.nan
    found = trends_of_cells(cells_of(values))
    for number in range(4):
        series = pd.Series(values[:, number].astype("f8"), index=range(1980, 1980 + years)).dropna()
        assert found.years[number] == len(series)
        expected = trend_of(series)
        if isinstance(expected, Trend):
            np.testing.assert_allclose(found.slopes[number], expected.slope, rtol=1e-6, atol=1e-9)
            margin = min(abs(expected.low), abs(expected.high))
            assert found.significant[number] == expected.is_significant or margin < 1e-9
        else:
            assert np.isnan(found.slopes[number])
            assert not found.significant[number]


def test_the_slope_is_that_of_scipy() -> None:
    random = np.random.default_rng(3)
    values = autocorrelated(random, 30, 0.2, 0.03)
    found = trends_of_cells(cells_of(values[:, np.newaxis]))
    fitted = stats.linregress(np.arange(30), values.astype("f4"))
    np.testing.assert_allclose(found.slopes, [10 * fitted.slope], rtol=1e-6)
    assert fitted.pvalue < 1e-3
    assert found.significant[0]


def test_what_never_changes_has_the_trend_zero_and_what_lacks_years_has_none() -> None:
    values = np.zeros((30, 3))
    values[:, 1] = np.arange(30)
    values[FEWEST_YEARS - 1 :, 1] = np.nan
    values[:, 2] = np.nan
    found = trends_of_cells(cells_of(values))
    assert found.slopes[0] == 0.0
    assert np.isnan(found.slopes[1:]).all()
    assert not found.significant.any()
    assert found.years.tolist() == [30, FEWEST_YEARS - 1, 0]


def test_locations_in_several_blocks_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    values = np.stack([autocorrelated(random, 25, 0.3, 0.01 * number) for number in range(10)], axis=1)
    whole = trends_of_cells(cells_of(values))
    monkeypatch.setattr(cell_trends, "_BLOCK", 3)
    in_blocks = trends_of_cells(cells_of(values))
    np.testing.assert_allclose(in_blocks.slopes, whole.slopes, rtol=1e-12)
    np.testing.assert_array_equal(in_blocks.significant, whole.significant)


def test_no_location_has_no_trends() -> None:
    assert trends_of_cells(cells_of(np.empty((30, 0)))).slopes.size == 0
