"""Bars of anomalies with trends: heights, colours, lines, words."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate_plots.anomaly_figure import anomaly_figure, trends_drawn
from era5_pipeline.query.climate_plots.climate_axes import COLD, NARROW, WARM, WIDE
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_bars_are_the_anomalies_and_the_legend_has_the_slope(width: float) -> None:
    answer = answer_of(made_hours(range(1990, 2024), without=[1995]))
    figure = anomaly_figure(answer, width)
    assert figure is not None
    (axes,) = figure.axes
    bars = {patch.get_gid(): patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_gid()}
    anomalies = answer.yearly["temperature_anomaly"].dropna()
    assert len(bars) == len(anomalies) == 33
    for year, anomaly in anomalies.items():
        bar = bars[f"year-{year}"]
        assert bar.get_height() == pytest.approx(anomaly, abs=1e-9)
        assert to_hex(bar.get_facecolor()) == (WARM if anomaly >= 0 else COLD)
    trend = answer.trend_of("mean_temperature")
    assert isinstance(trend, Trend)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [f"1990\u20132023: +{trend.slope:.2f} °C per decade"]


def test_a_longer_record_has_the_trend_since_1979_too() -> None:
    trends = trends_drawn(answer_of(made_hours(range(1950, 2024))))
    assert [(trend.years.first, trend.years.last) for trend in trends] == [(1950, 2023), (1979, 2023)]


def test_five_years_have_bars_around_their_mean_and_no_trend() -> None:
    answer = mekong_answer()
    assert trends_drawn(answer) == ()
    figure = anomaly_figure(answer, NARROW)
    assert figure is not None
    (axes,) = figure.axes
    heights = [patch.get_height() for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_gid()]
    assert len(heights) == 5
    assert sum(heights) == pytest.approx(0.0, abs=1e-9)
    assert axes.get_legend() is None
