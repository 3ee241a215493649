"""Warming stripes: one for each complete year, blue to red, gaps where years lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from era5_pipeline.query.climate_plots.climate_axes import NARROW, WIDE
from era5_pipeline.query.climate_plots.drawn_years import complete_years
from era5_pipeline.query.climate_plots.stripes_figure import COLOURS, stripes_figure, stripes_limit
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer

if TYPE_CHECKING:
    from era5_pipeline.query.climate.climate_answer import ClimateAnswer


def stripes_of(answer: ClimateAnswer, width: float = WIDE) -> dict[int, str]:
    """The colour of each year's stripe, where that is."""
    figure = stripes_figure(answer, width)
    assert figure is not None
    (axes,) = figure.axes
    stripes = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    for stripe in stripes:
        assert stripe.get_gid() == f"year-{stripe.get_x() + 0.5:.0f}"
    return {round(stripe.get_x() + 0.5): to_hex(stripe.get_facecolor()) for stripe in stripes}


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_missing_year_is_a_gap(width: float) -> None:
    found = stripes_of(answer_of(made_hours(range(1990, 2024), without=[1995, 1996])), width)
    assert list(found) == [year for year in range(1990, 2024) if year not in {1995, 1996}]


def test_cold_years_are_blue_and_warm_ones_red() -> None:
    answer = answer_of(made_hours(range(1980, 2024), rising=0.06))
    found = stripes_of(answer)
    assert COLOURS.index(found[1980]) < 4
    assert COLOURS.index(found[2023]) > 10
    anomalies = answer.yearly["temperature_anomaly"]
    for year, colour in found.items():
        assert (COLOURS.index(colour) >= 8) == (anomalies[year] >= 0), year


def test_small_differences_are_not_drawn_dark() -> None:
    """The scale goes beyond the warmest of five years, 0.6 degC above the mean, and is at least half a degree."""
    answer = mekong_answer()
    means = complete_years(answer, "mean_temperature")
    assert means is not None
    assert stripes_limit(means) > 0.6
    found = stripes_of(answer)
    assert list(found) == [2020, 2021, 2022, 2023, 2024]
    assert COLOURS[0] not in found.values()
    even = complete_years(answer_of(made_hours(range(2000, 2005), rising=0.0)), "mean_temperature")
    assert even is not None
    assert stripes_limit(even) >= 0.5


def test_there_are_no_stripes_without_a_complete_year() -> None:
    hours = made_hours([2001])
    assert stripes_figure(answer_of(hours[hours.index < "2001-05-01"]), WIDE) is None
