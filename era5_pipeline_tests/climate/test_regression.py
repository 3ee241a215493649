"""`climate.regression`: against statsmodels and scipy where the autocorrelation is known, by simulation where not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.climate import regression
from era5_pipeline.climate.regression import Coefficients, last_coefficient

if TYPE_CHECKING:
    from collections.abc import Iterator

YEARS = np.arange(1950.0, 2010.0)


@pytest.fixture
def known_lag1(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[float]:
    """The autocorrelation is that of the test's parameter, and no other."""
    monkeypatch.setattr(regression, "_LAG1", np.array([request.param]))
    regression._design.cache_clear()
    yield request.param
    regression._design.cache_clear()


def noise(lag1: float, count: int, series: int, seed: int) -> np.ndarray:
    """Stationary AR(1) series (count, series) of variance 1."""
    random = np.random.default_rng(seed)
    found = np.empty((count, series))
    found[0] = random.normal(size=series)
    for year in range(1, count):
        found[year] = lag1 * found[year - 1] + np.sqrt(1.0 - lag1**2) * random.normal(size=series)
    return found


def fitted(values: np.ndarray, years: np.ndarray = YEARS) -> Coefficients:
    return last_coefficient(years, years[:, np.newaxis], values, fewest=10)


@pytest.mark.parametrize("known_lag1", [0.0], indirect=True)
def test_with_independent_years_it_is_least_squares(known_lag1: float) -> None:
    import statsmodels.api as sm

    values = noise(known_lag1, 60, 3, 1) + 0.02 * YEARS[:, np.newaxis]
    values[[3, 17, 40], 1] = np.nan
    found = fitted(values)
    for number in range(3):
        held = np.isfinite(values[:, number])
        of_others = sm.OLS(values[held, number], sm.add_constant(YEARS[held])).fit()
        low, high = of_others.conf_int()[1]
        assert found.values[number] == pytest.approx(of_others.params[1], rel=1e-9)
        assert found.values[number] - found.half_widths[number] == pytest.approx(low, rel=1e-6)
        assert found.values[number] + found.half_widths[number] == pytest.approx(high, rel=1e-6)
        assert found.p[number] == pytest.approx(of_others.pvalues[1], rel=1e-6)
        assert found.effective[number] == pytest.approx(held.sum())


def test_a_parabola_is_that_of_statsmodels() -> None:
    import statsmodels.api as sm

    columns = np.column_stack([YEARS - 1980, (YEARS - 1980) ** 2])
    values = noise(0.2, 60, 1, 4)
    found = last_coefficient(YEARS, columns, values, fewest=10)
    assert found.values[0] == pytest.approx(sm.OLS(values[:, 0], sm.add_constant(columns)).fit().params[2], rel=1e-6)


@pytest.mark.parametrize("known_lag1", [0.6], indirect=True)
def test_the_error_of_a_slope_with_known_autocorrelation(known_lag1: float) -> None:
    """Its square is on average the variance of the slopes themselves, with every other year missing, too."""
    values = noise(known_lag1, 60, 20_000, 2)
    values[1::2, 10_000:] = np.nan
    found = fitted(values)
    for part in (slice(0, 10_000), slice(10_000, None)):
        assert np.mean(np.abs(found.values[part]) <= found.half_widths[part]) == pytest.approx(0.95, abs=0.01)
        assert np.mean(found.p[part] < 0.05) == pytest.approx(0.05, abs=0.01)


def test_each_autocorrelation_counts_by_its_restricted_likelihood() -> None:
    """The restricted likelihood is that of contrasts without the trend, here by scipy's normal distribution."""
    from scipy import stats
    from scipy.linalg import null_space

    held = np.r_[0:7, 9:20, 24:30]
    years, values = YEARS[held], noise(0.5, 60, 1, 3)[held, 0]
    matrix = np.column_stack([np.ones(years.size), years])
    contrasts = null_space(matrix.T)
    observed = contrasts.T @ values
    logs = []
    for lag1 in regression._LAG1:
        lags = np.abs(years[:, np.newaxis] - years)
        covariance = contrasts.T @ (np.sign(lag1) ** lags * abs(lag1) ** lags) @ contrasts
        variance = observed @ np.linalg.solve(covariance, observed) / observed.size
        logs.append(stats.multivariate_normal(cov=variance * covariance).logpdf(observed))
    shares = np.exp(np.array(logs) - max(logs))
    expected = float(regression._LAG1 @ shares / shares.sum())
    assert fitted(values[:, np.newaxis], years).lag1[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("lag1", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("which", ["all", "three of ten missing", "every second"])
def test_an_interval_contains_the_truth_as_often_as_it_says(lag1: float, which: str) -> None:
    """Series of 30 years; benchmarks/results has more of them, and other lengths."""
    held = {
        "all": np.arange(30),
        "three of ten missing": np.sort(np.random.default_rng(0).choice(43, 30, replace=False)),
        "every second": np.arange(0, 60, 2),
    }[which]
    years = held.astype(np.float64)
    found = fitted(noise(lag1, 60, 3_000, 5)[held], years)
    covered = np.mean(np.abs(found.values) <= found.half_widths)
    assert 0.93 <= covered <= 0.98
    # The p-value and the interval say the same.
    assert ((found.p < 0.05) == (np.abs(found.values) > found.half_widths)).mean() > 0.999


def test_series_that_lack_different_years_are_as_by_themselves() -> None:
    random = np.random.default_rng(9)
    values = noise(0.4, 60, 12, 6)
    values[random.random(values.shape) < 0.3] = np.nan
    values[:, 5] = np.nan
    values[10:, 6] = np.nan
    together = fitted(values)
    for number in range(12):
        held = np.isfinite(values[:, number])
        assert together.counts[number] == held.sum()
        if held.sum() <= 10:
            assert np.isnan([together.values[number], together.half_widths[number], together.p[number]]).all() == (
                held.sum() < 10
            )
            continue
        alone = fitted(values[held, number : number + 1], YEARS[held])
        for name in ("values", "half_widths", "p", "lag1", "effective"):
            assert getattr(together, name)[number] == pytest.approx(getattr(alone, name)[0], rel=1e-9)


def test_noise_of_float32_is_no_change() -> None:
    """In kelvin it is 3e-5, and stays so in degrees Celsius."""
    random = np.random.default_rng(1)
    kelvin = np.float32(273.2) + random.integers(-1, 2, (60, 1)) * np.spacing(np.float32(273.2))
    found = last_coefficient(YEARS, YEARS[:, np.newaxis], kelvin - 273.15, fewest=10, offset=273.15)
    assert found.values[0] == 0.0
    assert np.isnan([found.half_widths[0], found.p[0]]).all()


def test_values_on_a_line_have_its_slope_for_certain() -> None:
    found = fitted((0.1 * YEARS)[:, np.newaxis])
    assert found.values[0] == pytest.approx(0.1)
    assert (found.half_widths[0], found.p[0]) == (0.0, 0.0)
