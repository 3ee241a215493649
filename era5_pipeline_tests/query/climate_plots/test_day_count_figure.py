"""Which kinds of days are drawn, and how many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from era5_pipeline.query.climate_plots.climate_axes import NARROW
from era5_pipeline.query.climate_plots.day_count_figure import counted_days, day_count_figure
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer

if TYPE_CHECKING:
    import pandas as pd


def warmer(degrees: float) -> pd.DataFrame:
    """Three years whose hottest hour is 27 degC and whose coldest is 3 degC, made warmer."""
    hours = made_hours([2001, 2002, 2003], rising=0.0)
    return hours.assign(temperature_2m=hours["temperature_2m"] + np.float32(degrees))


@pytest.mark.parametrize(
    ("degrees", "names"),
    [
        (0.0, ("summer_days",)),
        (-10.0, ("summer_days", "frost_days")),
        (5.0, ("hot_days", "tropical_nights")),
        (12.0, ("very_hot_days", "tropical_nights")),
    ],
)
def test_the_limit_is_one_that_the_place_reaches(degrees: float, names: tuple[str, ...]) -> None:
    assert counted_days(answer_of(warmer(degrees))) == names


def test_bars_are_the_numbers_of_days() -> None:
    answer = mekong_answer()
    figure = day_count_figure(answer, NARROW)
    assert figure is not None
    assert len(figure.axes) == len(counted_days(answer)) == 2
    found = {
        patch.get_gid(): patch.get_height()
        for axes in figure.axes
        for patch in axes.patches
        if isinstance(patch, Rectangle) and patch.get_gid()
    }
    for year in range(2020, 2025):
        for name in counted_days(answer):
            assert found[f"{name}-{year}"] == answer.yearly[name][year]
    # 2025 is incomplete.
    assert len(found) == 10


def test_without_a_complete_year_nothing_is_counted() -> None:
    hours = made_hours([2001])
    answer = answer_of(hours[hours.index < "2001-05-01"])
    assert counted_days(answer) == ()
    assert day_count_figure(answer, NARROW) is None
