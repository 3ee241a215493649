"""The months of the year: then and now, or all complete months."""

from __future__ import annotations

import numpy as np

from era5_pipeline.query.climate_plots.climate_axes import NARROW
from era5_pipeline.query.climate_plots.seasonal_figure import cycles_of, seasonal_figure
from era5_pipeline_tests.climate_answers import answer_of, made_hours


def test_then_is_the_baseline_and_now_the_last_ten_years() -> None:
    hours = made_hours(range(1991, 2024))
    then, now = cycles_of(answer_of(hours))
    assert (then.label, now.label) == ("1991\u20132020", "2014\u20132023")
    july = hours[(hours.index.month == 7) & (hours.index.year >= 2014)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(now.temperature[6], july["temperature_2m"].astype(np.float64).mean(), atol=1e-6)
    assert now.precipitation is not None
    np.testing.assert_allclose(now.precipitation[6], 31 * 24 * 0.1, rtol=1e-5)


def test_without_a_complete_year_it_is_of_all_complete_months() -> None:
    hours = made_hours([2001])
    answer = answer_of(hours[hours.index < "2001-05-10"])
    (only,) = cycles_of(answer)
    assert only.label == "2001, all complete months"
    assert np.isfinite(only.temperature).tolist() == [True] * 4 + [False] * 8
    figure = seasonal_figure(answer, NARROW)
    assert figure is not None
    assert len(figure.axes) == 2


def test_a_few_days_are_no_month() -> None:
    hours = made_hours([2001])
    answer = answer_of(hours[hours.index < "2001-01-10"])
    assert cycles_of(answer) == []
    assert seasonal_figure(answer, NARROW) is None


def test_without_precipitation_there_is_one_panel() -> None:
    figure = seasonal_figure(answer_of(made_hours(range(1991, 2022))[["temperature_2m"]]), NARROW)
    assert figure is not None
    assert len(figure.axes) == 1
