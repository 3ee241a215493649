"""`climate.trends`: against published numbers of thirty real years, and statsmodels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from era5_pipeline.climate.answer import QUANTITIES, NoTrend, QuantityTrends, Trend, YearSpan
from era5_pipeline.climate.trends import (
    FEWEST_YEARS,
    describe_years,
    significant_in_field,
    trend_of,
    trends_of,
    trends_of_years,
)
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
    """The slopes are those of statsmodels and scipy, computed from the hours, outside of this project."""
    trend = found_trend(MEAN_TEMPERATURE)
    assert (trend.years, trend.count) == (YearSpan(1994, 2023), 30)
    assert [round(value, 3) for value in (trend.slope, trend.theil_sen)] == [0.196, 0.166]
    assert [round(value, 3) for value in (trend.low, trend.high, trend.p)] == [-0.033, 0.425, 0.084]
    assert not trend.is_significant


def test_thirty_real_years_of_precipitation() -> None:
    trend = found_trend(PRECIPITATION)
    assert [round(value, 3) for value in (trend.slope, trend.theil_sen)] == [8.851, 12.876]
    assert not trend.is_significant


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
    assert (round(100 * plain_held / 400), round(100 * held / 400)) == (80, 96)


def test_hac_would_be_narrower_than_least_squares_alone() -> None:
    import statsmodels.api as sm

    model = sm.OLS(MEAN_TEMPERATURE.to_numpy(), sm.add_constant(MEAN_TEMPERATURE.index.to_numpy(dtype=float)))
    hac = model.fit(cov_type="HAC", cov_kwds={"maxlags": 2, "use_correction": True}, use_t=True)
    assert [round(10 * float(bound), 3) for bound in model.fit().conf_int()[1]] == [0.006, 0.386]
    assert [round(10 * float(bound), 3) for bound in hac.conf_int()[1]] == [0.035, 0.357]


def test_too_few_years_have_no_trend_and_say_how_many_there_are() -> None:
    assert isinstance(trend_of(MEAN_TEMPERATURE.iloc[:FEWEST_YEARS]), Trend)
    few = trend_of(MEAN_TEMPERATURE.loc[[1994, 1995, 1996, 1998, 2001]])
    assert few == NoTrend("5 complete years (1994-1996, 1998, 2001): a trend needs at least 20")
    assert trend_of(MEAN_TEMPERATURE.iloc[:1]) == NoTrend("1 complete year (1994): a trend needs at least 20")
    assert trend_of(MEAN_TEMPERATURE.iloc[:0]) == NoTrend("no complete years: a trend needs at least 20")


def test_values_that_never_change_have_no_trend() -> None:
    assert trend_of(pd.Series(0.0, index=range(1980, 2020))) == NoTrend("the same in every year: 0")


def turning(seed: int, lag1: float = 0.3) -> pd.Series:
    """Years from 1940 on: a fall until 1979, and a rise of 0.2 a decade since, which together have no slope."""
    noise = autocorrelated(lag1, seed, 85).to_numpy() - 0.03 * np.arange(85)
    years = np.arange(1940, 2025)
    values = np.where(years < 1979, -0.024, 0.02) * (years - 1979) + noise / 2
    return pd.Series(values, index=years)


def trends_of_temperature(values: pd.Series) -> QuantityTrends:
    yearly = pd.DataFrame({"mean_temperature": values, "temperature_complete": True})
    (found,) = trends_of(yearly, tuple(one for one in QUANTITIES if one.name == "mean_temperature"))
    return found


def test_a_fall_and_a_rise_are_seen() -> None:
    found = trends_of_temperature(turning(1))
    assert isinstance(found.whole, Trend)
    assert not found.whole.is_significant
    assert found.turn == "since 1979"
    assert found.curvature_p is not None
    assert found.curvature_p < 0.01


def test_a_bend_is_seen_where_the_years_since_1979_have_no_trend() -> None:
    years = np.arange(1940, 2025)
    noise = autocorrelated(0.1, 3, 85).to_numpy() - 0.03 * np.arange(85)
    found = trends_of_temperature(pd.Series(0.0008 * (years - 1982.0) ** 2 * (years < 1985) + noise / 3, index=years))
    later = trends_of_temperature(pd.Series(-0.0006 * (years - 1982.0) ** 2 + noise / 3, index=years))
    assert (found.turn, later.turn) == ("curved", "since 1979")


def test_of_years_that_do_not_change_little_is_said() -> None:
    """Of 400 records without a trend, few are said to be warmer, even though two periods are looked at."""
    warmer = curved = 0
    for seed in range(400):
        found = trends_of_temperature(
            pd.Series(autocorrelated(0.3, seed, 85).to_numpy() - 0.03 * np.arange(85), index=range(1940, 2025))
        )
        since = found.since_1979
        assert isinstance(found.whole, Trend)
        assert isinstance(since, Trend)
        warmer += found.whole.low > 0 or (found.turn == "since 1979" and since.slope > 0)
        curved += found.turn == "curved"
    # Nominal are 2.5 %, and a half more than those is 15 of 400.
    assert warmer <= 15
    assert curved <= 8


def test_a_field_without_trend_shows_about_none() -> None:
    """Of 2,000 places with the weather of their neighbours, one in twenty has p < 0.05."""
    random = np.random.default_rng(11)
    fields = random.normal(size=(60, 40))[:, np.repeat(np.arange(40), 50)] + 0.3 * random.normal(size=(60, 2000))
    found = trends_of_years(np.arange(1960.0, 2020.0), fields)
    assert (found.p < 0.05).sum() > 20
    assert significant_in_field(found.p).sum() == 0
    rising = trends_of_years(np.arange(1960.0, 2020.0), fields + 0.05 * np.arange(60)[:, np.newaxis])
    assert significant_in_field(rising.p).mean() > 0.95
    assert not significant_in_field(np.full(3, np.nan)).any()


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


def test_years_are_described_as_spans() -> None:
    assert describe_years([1940, 1941, 1943, 1950, 1951]) == "1940-1941, 1943, 1950-1951"
    assert describe_years((1941, 1942, 1970), " to ") == "1941 to 1942, 1970"
