"""Values of complete years, what they are compared with, and the line of a trend with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.climate.answer import Trend
from era5_pipeline.climate.trends import trend_of
from era5_pipeline.draw.climate_axes import DrawnYears, TrendLine, complete_years, reference_of, signed, trend_line
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer

if TYPE_CHECKING:
    import pandas as pd


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


def band_of(values: pd.Series) -> tuple[DrawnYears, Trend, TrendLine]:
    """The trend of yearly values and its band; years that lack are NaN in what is drawn."""
    years = np.arange(int(values.index[0]), int(values.index[-1]) + 1)
    drawn = DrawnYears(years, values.reindex(years).to_numpy(dtype=np.float64))
    trend = trend_of(values)
    assert isinstance(trend, Trend)
    return drawn, trend, trend_line(drawn, trend)


@pytest.mark.parametrize("lacking", [(), (2001, 2002, 2010)])
def test_the_band_is_as_much_wider_than_that_of_statsmodels_as_the_interval_of_the_slope(
    lacking: tuple[int, ...],
) -> None:
    import statsmodels.api as sm
    from scipy import stats

    values = MEAN_TEMPERATURE.drop(list(lacking))
    _, trend, band = band_of(values)
    years = values.index.to_numpy(dtype=float)
    fitted = sm.OLS(values.to_numpy(), sm.add_constant(years)).fit()
    every = np.arange(1994.0, 2024.0)
    predicted = fitted.get_prediction(sm.add_constant(every))  # also for the missing years
    np.testing.assert_allclose(band.line, predicted.predicted_mean, rtol=1e-9)
    # The standard error of a fitted mean, with the effective number of years in place of their number.
    of_slope = (trend.high - trend.slope) / 10.0
    squares = ((years - years.mean()) ** 2).sum()
    half = of_slope * np.sqrt(squares / trend.effective_count + (every - years.mean()) ** 2)
    np.testing.assert_allclose(band.high - band.line, half, rtol=1e-9)
    np.testing.assert_allclose(band.line - band.low, half, rtol=1e-9)
    wider = of_slope / (stats.t.ppf(0.975, len(years) - 2) * fitted.bse[1])
    low, high = predicted.conf_int(alpha=0.05).T
    assert wider > 1
    assert (band.high - band.low >= wider * (high - low) * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.196, 2, "+0.20"), (-0.04, 2, "\u22120.04"), (-0.004, 2, "0.00"), (0.0, 1, "0.0"), (1234.5, 0, "+1234")],
)
def test_differences_have_a_sign(value: float, decimals: int, text: str) -> None:
    assert signed(value, decimals) == text
