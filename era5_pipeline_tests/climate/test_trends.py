"""`climate.trends`: against published numbers of thirty real years, and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.answer import QUANTITIES, NoTrend, Trend, YearSpan, quantities_of
from era5_pipeline.climate.trends import FEWEST_YEARS, describe_years, trend_of, trends_of
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE, PRECIPITATION


def found_trend(values: pd.Series) -> Trend:
    trend = trend_of(values)
    assert isinstance(trend, Trend)
    return trend


def autocorrelated(lag1: float, seed: int, count: int = 60) -> pd.Series:
    """Years from 1950 on: a trend of 0.3 a decade, and noise that keeps a part of the year before."""
    random = np.random.default_rng(seed)
    noise = np.zeros(count)
    for year in range(1, count):
        noise[year] = lag1 * noise[year - 1] + random.normal(scale=0.2)
    return pd.Series(0.03 * np.arange(count) + noise, index=range(1950, 1950 + count))


def test_thirty_real_years_of_temperature() -> None:
    # Computed with scipy and statsmodels from the hours, outside of this project.
    trend = found_trend(MEAN_TEMPERATURE)
    assert (trend.years, trend.count) == (YearSpan(1994, 2023), 30)
    assert [round(value, 3) for value in (trend.slope, trend.low, trend.high)] == [0.196, 0.004, 0.388]
    assert [round(trend.lag1, 3), round(trend.effective_count, 3)] == [0.007, 29.567]
    assert [round(value, 3) for value in (trend.theil_sen, trend.theil_sen_low, trend.theil_sen_high)] == [
        *(0.166, 0.018, 0.345)
    ]
    assert [round(trend.kendall_tau, 3), round(trend.kendall_p, 3)] == [0.264, 0.041]
    assert trend.is_significant


def test_thirty_real_years_of_precipitation() -> None:
    trend = found_trend(PRECIPITATION)
    assert round(trend.slope, 3) == 8.851
    assert [round(value, 3) for value in (trend.theil_sen, trend.theil_sen_low, trend.theil_sen_high)] == [
        *(12.876, -44.613, 75.752)
    ]
    assert [round(trend.kendall_tau, 3), round(trend.kendall_p, 3)] == [0.062, 0.646]
    assert not trend.is_significant


@pytest.mark.parametrize(("lag1", "seed"), [(0.6, 1), (0.3, 2), (0.8, 3)])
def test_interval_is_that_of_statsmodels_widened_for_the_lag_1_autocorrelation(lag1: float, seed: int) -> None:
    import statsmodels.api as sm
    from scipy import stats
    from statsmodels.tsa.stattools import acf

    values = autocorrelated(lag1, seed)
    fitted = sm.OLS(values.to_numpy(), sm.add_constant(values.index.to_numpy(dtype=float))).fit()
    of_residuals = float(acf(fitted.resid, nlags=1, fft=False)[1])
    assert of_residuals > 0.1
    effective = 60 * (1 - of_residuals) / (1 + of_residuals)
    error = fitted.bse[1] * np.sqrt((60 - 2) / (effective - 2))
    half = stats.t.ppf(0.975, effective - 2) * error
    trend = found_trend(values)
    assert trend.slope == pytest.approx(10 * fitted.params[1], rel=1e-9)
    assert trend.lag1 == pytest.approx(of_residuals, rel=1e-9)
    assert trend.low == pytest.approx(10 * (fitted.params[1] - half), rel=1e-9)
    assert trend.high == pytest.approx(10 * (fitted.params[1] + half), rel=1e-9)
    plain = 10 * fitted.conf_int()[1]
    assert trend.low < plain[0] < plain[1] < trend.high


def test_a_negative_autocorrelation_does_not_narrow_the_interval() -> None:
    import statsmodels.api as sm

    years = np.arange(1960, 2000)
    values = pd.Series(0.02 * (years - 1960) + 0.3 * (-1.0) ** years, index=years)
    plain = 10 * sm.OLS(values.to_numpy(), sm.add_constant(years.astype(float))).fit().conf_int()[1]
    trend = found_trend(values)
    assert (trend.lag1, trend.effective_count) == (0.0, 40.0)
    assert (trend.low, trend.high) == pytest.approx(tuple(plain))


def test_the_interval_holds_the_true_trend_about_as_often_as_it_says() -> None:
    from scipy import stats

    held = plain_held = 0
    for seed in range(1000, 1400):
        values = autocorrelated(0.4, seed)
        trend = found_trend(values)
        held += trend.low <= 0.3 <= trend.high
        plain = stats.linregress(values.index.to_numpy(dtype=float), values.to_numpy())
        half = stats.t.ppf(0.975, 58) * plain.stderr
        plain_held += abs(plain.slope - 0.03) <= half
    # As docs/climate.md says.
    assert (round(100 * plain_held / 400), round(100 * held / 400)) == (80, 94)


def test_hac_would_be_narrower_than_least_squares_alone() -> None:
    import statsmodels.api as sm

    model = sm.OLS(MEAN_TEMPERATURE.to_numpy(), sm.add_constant(MEAN_TEMPERATURE.index.to_numpy(dtype=float)))
    hac = model.fit(cov_type="HAC", cov_kwds={"maxlags": 2, "use_correction": True}, use_t=True)
    assert [round(10 * float(bound), 3) for bound in model.fit().conf_int()[1]] == [0.006, 0.386]
    assert [round(10 * float(bound), 3) for bound in hac.conf_int()[1]] == [0.035, 0.357]


def test_years_apart_are_no_neighbours() -> None:
    # Every other year: each pair of neighbours in the list is two years apart, so that there is no lag 1.
    values = autocorrelated(0.9, 5)[::2]
    assert found_trend(values).lag1 == 0.0
    assert found_trend(autocorrelated(0.9, 5)).lag1 > 0.5


def test_the_unit_is_per_decade_and_the_sign_that_of_the_change() -> None:
    years = range(1991, 2021)
    wiggle = np.array([0.1, -0.1, 0.05] * 10)
    rising = found_trend(pd.Series(0.05 * np.arange(30) + wiggle, index=years))
    falling = found_trend(pd.Series(-0.05 * np.arange(30) + wiggle, index=years))
    assert rising.slope == pytest.approx(0.5, abs=0.02)
    assert falling.slope == pytest.approx(-0.5, abs=0.02)
    assert rising.is_significant
    assert falling.is_significant
    assert falling.kendall_tau < -0.8


def test_too_few_years_have_no_trend_and_say_how_many_there_are() -> None:
    assert isinstance(trend_of(MEAN_TEMPERATURE.iloc[:FEWEST_YEARS]), Trend)
    few = trend_of(MEAN_TEMPERATURE.loc[[1994, 1995, 1996, 1998, 2001]])
    assert few == NoTrend("5 complete years (1994-1996, 1998, 2001): a trend needs at least 20")
    assert trend_of(MEAN_TEMPERATURE.iloc[:1]) == NoTrend("1 complete year (1994): a trend needs at least 20")
    assert trend_of(MEAN_TEMPERATURE.iloc[:0]) == NoTrend("no complete years: a trend needs at least 20")


def test_values_that_never_change_have_no_trend() -> None:
    assert trend_of(pd.Series(0.0, index=range(1980, 2020))) == NoTrend("the same in every year: 0")


def test_values_without_independent_years_have_no_trend() -> None:
    # A single step: what is left after the line depends on the year before throughout.
    values = pd.Series(np.repeat([0.0, 5.0, 0.0, 5.0], 15), index=range(1940, 2000))
    trend = trend_of(values)
    assert isinstance(trend, Trend) or "lag-1 autocorrelation" in trend.reason
    drift = pd.Series((np.arange(60) - 30.0) ** 2, index=range(1940, 2000))
    assert isinstance(trend_of(drift), NoTrend)


def test_trends_of_a_table_are_over_complete_years_and_since_1979() -> None:
    years = list(range(1960, 2020))
    yearly = pd.DataFrame(
        {
            "mean_temperature": autocorrelated(0.2, 7).to_numpy(),
            "hot_days": [np.nan if year == 1991 else float(year % 2) for year in years],
            "temperature_complete": [year != 1990 for year in years],
        },
        index=years,
    )
    yearly.loc[1990, "mean_temperature"] = 99.0
    wanted = tuple(quantity for quantity in QUANTITIES if quantity.name in {"mean_temperature", "hot_days"})
    temperature, hot = trends_of(yearly, wanted)
    assert isinstance(temperature.whole, Trend)
    assert isinstance(temperature.since_1979, Trend)
    assert (temperature.whole.years, temperature.whole.count) == (YearSpan(1960, 2019), 59)
    assert (temperature.since_1979.years, temperature.since_1979.count) == (YearSpan(1979, 2019), 40)
    assert temperature.whole.slope < 1
    # The years of an index are those that have one, whatever hours are missing.
    assert isinstance(hot.whole, Trend)
    assert (hot.whole.years, hot.whole.count) == (YearSpan(1960, 2019), 59)
    yearly["hot_days"] = 3.0
    assert trends_of(yearly, wanted)[1].whole == NoTrend("the same in every year: 3")


def test_extremes_of_single_hours_and_anomalies_have_no_trend() -> None:
    without = {quantity.name for quantity in quantities_of(["temperature"]) if not quantity.has_trend}
    assert without == {"temperature_anomaly", "max_temperature", "min_temperature"}


def test_years_are_described_as_spans() -> None:
    assert describe_years([1940, 1941, 1943, 1950, 1951]) == "1940-1941, 1943, 1950-1951"
    assert describe_years((1941, 1942, 1970), " to ") == "1941 to 1942, 1970"
