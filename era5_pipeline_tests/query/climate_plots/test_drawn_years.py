"""Values of complete years, what they are compared with, and the ends of a trend's line."""

from __future__ import annotations

import numpy as np
import pytest

from era5_pipeline.query.climate.climate_answer import Trend, YearSpan
from era5_pipeline.query.climate_plots.drawn_years import complete_years, reference_of, signed, trend_line
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer


def test_an_incomplete_year_between_others_is_nan_and_at_an_end_is_left_out() -> None:
    hours = made_hours(range(1999, 2006), without=[2002])
    # Of 2005 only a half remains.
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
    ends, line, low, high = trend_line(drawn, trend)
    assert ends.tolist() == [1990.0, 2023.0]
    years = np.array([year for year, _ in drawn.pairs()], dtype=np.float64)
    values = np.array([value for _, value in drawn.pairs()])
    np.testing.assert_allclose(line, np.polyval(np.polyfit(years - 2000, values, 1), ends - 2000), atol=1e-6)
    assert ((low < line) & (line < high)).all()


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.196, 2, "+0.20"), (-0.04, 2, "\u22120.04"), (-0.004, 2, "0.00"), (0.0, 1, "0.0"), (1234.5, 0, "+1234")],
)
def test_differences_have_a_sign(value: float, decimals: int, text: str) -> None:
    assert signed(value, decimals) == text
