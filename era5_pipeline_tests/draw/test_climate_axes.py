"""Values of complete years, what they are compared with, and the line of a trend with its band."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.answer import Trend, YearSpan
from era5_pipeline.climate.trends import trend_of
from era5_pipeline.draw.climate_axes import DrawnYears, TrendLine, complete_years, reference_of, signed, trend_line
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer


def test_an_incomplete_year_between_others_is_nan_and_at_an_end_is_left_out() -> None:
    hours = made_hours(range(1999, 2006), without=[2002])
    # Only half of 2005 remains.
    answer = answer_of(hours[hours.index < "2005-07-01"])
    drawn = complete_years(answer, "mean_temperature")
    assert drawn is not None
    assert drawn.years.tolist() == [1999, 2000, 2001, 2002, 2003, 2004]
    assert np.isnan(drawn.values).tolist() == [False, False, False, True, False, False]
    assert drawn.count == 5
    of_2003 = hours["temperature_2m"][hours.index.year == 2003].astype(np.float64)  # type: ignore[attr-defined]
    assert dict(drawn.pairs())[2003] == pytest.approx(of_2003.mean(), abs=1e-9)


def test_nothing_is_drawn_without_a_complete_year_or_without_the_variable() -> None:
    hours = made_hours([2001])
    assert complete_years(answer_of(hours[hours.index < "2001-03-01"]), "mean_temperature") is None
    assert complete_years(answer_of(hours[["temperature_2m"]]), "precipitation") is None


def test_the_reference_is_the_baseline_or_else_all_complete_years() -> None:
    answer = answer_of(made_hours(range(1985, 2024)))
    drawn = complete_years(answer, "mean_temperature")
    assert drawn is not None
    within = drawn.values[(drawn.years >= 1991) & (drawn.years <= 2020)]
    reference = reference_of(answer, drawn)
    assert reference.value == pytest.approx(within.mean(), abs=1e-9)
    assert reference.words == "1991\u20132020"

    few = complete_years(mekong_answer(), "mean_temperature")
    assert few is not None
    reference = reference_of(mekong_answer(), few)
    assert reference.value == pytest.approx(few.values.mean(), abs=1e-9)
    assert reference.words == "the complete years 2020\u20132024"


def test_the_line_of_a_trend_passes_through_the_middle_with_its_slope() -> None:
    answer = answer_of(made_hours(range(1990, 2024), without=[1995]))
    drawn = complete_years(answer, "mean_temperature")
    trend = answer.trend_of("mean_temperature")
    assert drawn is not None
    assert isinstance(trend, Trend)
    assert trend.years == YearSpan(1990, 2023)
    fitted = trend_line(drawn, trend)
    assert fitted.years.tolist() == [float(year) for year in range(1990, 2024)]
    years = np.array([year for year, _ in drawn.pairs()], dtype=np.float64)
    values = np.array([value for _, value in drawn.pairs()])
    expected = np.polyval(np.polyfit(years - 2000, values, 1), fitted.years - 2000)
    np.testing.assert_allclose(fitted.line, expected, atol=1e-6)
    assert ((fitted.low < fitted.line) & (fitted.line < fitted.high)).all()


def band_of(values: pd.Series) -> tuple[DrawnYears, Trend, TrendLine]:
    """The trend of yearly values and its band; years that lack are NaN in what is drawn."""
    years = np.arange(int(values.index[0]), int(values.index[-1]) + 1)
    drawn = DrawnYears(years, values.reindex(years).to_numpy(dtype=np.float64))
    trend = trend_of(values)
    assert isinstance(trend, Trend)
    return drawn, trend, trend_line(drawn, trend)


@pytest.mark.parametrize("lacking", [(), (1975, 1976, 1991)])
def test_the_band_of_independent_years_is_that_of_statsmodels(lacking: tuple[int, ...]) -> None:
    import statsmodels.api as sm

    years = np.arange(1960, 2000)
    values = pd.Series(12.0 + 0.02 * (years - 1960) + 0.3 * (-1.0) ** years + 0.001 * (years % 7), index=years)
    values = values.drop(list(lacking))
    _, trend, band = band_of(values)
    assert trend.lag1 == 0.0
    fitted = sm.OLS(values.to_numpy(), sm.add_constant(values.index.to_numpy(dtype=float))).fit()
    # Also for the missing years.
    predicted = fitted.get_prediction(sm.add_constant(years.astype(float)))
    low, high = predicted.conf_int(alpha=0.05).T
    np.testing.assert_allclose(band.line, predicted.predicted_mean, rtol=1e-9)
    np.testing.assert_allclose(band.low, low, rtol=1e-9)
    np.testing.assert_allclose(band.high, high, rtol=1e-9)


def test_the_band_of_dependent_years_is_as_much_wider_as_the_interval_of_the_slope() -> None:
    import statsmodels.api as sm
    from scipy import stats

    _, trend, band = band_of(MEAN_TEMPERATURE)
    assert trend.lag1 > 0
    years = MEAN_TEMPERATURE.index.to_numpy(dtype=float)
    fitted = sm.OLS(MEAN_TEMPERATURE.to_numpy(), sm.add_constant(years)).fit()
    effective = trend.effective_count
    centred = years - years.mean()
    # The standard error of a fitted mean, with the effective number of years in place of their number.
    error = np.sqrt(fitted.ssr / (effective - 2) * (1 / effective + centred**2 / (centred**2).sum()))
    half = stats.t.ppf(0.975, effective - 2) * error
    np.testing.assert_allclose(band.high - band.line, half, rtol=1e-9)
    np.testing.assert_allclose(band.line - band.low, half, rtol=1e-9)
    low, high = fitted.get_prediction().conf_int(alpha=0.05).T
    assert ((band.low < low) & (high < band.high)).all()
    # The lag-1 autocorrelation is 0.007: all but that of statsmodels.
    np.testing.assert_allclose(band.high - band.low, high - low, rtol=0.02)


def test_the_band_is_a_curve_narrowest_in_the_middle_and_its_ends_give_the_interval_of_the_slope() -> None:
    _, trend, band = band_of(MEAN_TEMPERATURE)
    half = band.high - band.line
    assert half.argmin() in (14, 15)
    assert (np.diff(half[15:]) > 0).all()
    assert half[-1] > 1.8 * half[15]
    # Steepest lines within the band through its middle are no steeper than the interval of the slope.
    decades = (band.years - band.years.mean()) / 10.0
    of_slope = np.sqrt(half**2 - half.min() ** 2) / np.abs(decades)
    np.testing.assert_allclose(of_slope[[0, -1]], trend.high - trend.slope, rtol=1e-3)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.196, 2, "+0.20"), (-0.04, 2, "\u22120.04"), (-0.004, 2, "0.00"), (0.0, 1, "0.0"), (1234.5, 0, "+1234")],
)
def test_differences_have_a_sign(value: float, decimals: int, text: str) -> None:
    assert signed(value, decimals) == text
