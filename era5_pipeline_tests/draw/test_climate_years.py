"""Tests of `draw/climate_years`."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from era5_pipeline.climate.answer import DayRule, Trend
from era5_pipeline.climate.reading import make_answer
from era5_pipeline.draw.climate_axes import COLD, NARROW, WARM, WIDE, complete_years
from era5_pipeline.draw.climate_years import (
    COLOURS,
    anomaly_figure,
    climate_picture,
    counted_days,
    day_count_figure,
    precipitation_figure,
    stripes_figure,
    stripes_limit,
    trends_drawn,
)
from era5_pipeline.draw.figures import save_figure
from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline_tests.climate_answers import BASELINE, CREDIT, answer_of, made_hours, mekong_answer
from era5_pipeline_tests.draw.pixels import axes_of, legend_of, texts_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from era5_pipeline.climate.answer import ClimateAnswer


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_bars_are_the_anomalies_and_the_legend_has_the_slope(width: float) -> None:
    answer = answer_of(made_hours(range(1990, 2024), without=[1995]))
    (axes,) = axes_of(anomaly_figure(answer, width))
    bars = {patch.get_gid(): patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_gid()}
    anomalies = answer.yearly["temperature_anomaly"].dropna()
    assert len(bars) == len(anomalies) == 33
    for year, anomaly in anomalies.items():
        bar = bars[f"year-{year}"]
        assert bar.get_height() == pytest.approx(anomaly, abs=1e-9)
        assert to_hex(bar.get_facecolor()) == (WARM if anomaly >= 0 else COLD)
    trend = answer.trend_of("mean_temperature")
    assert isinstance(trend, Trend)
    assert legend_of(axes) == [f"1990\u20132023: +{trend.slope:.2f} °C per decade"]


def test_a_longer_record_has_the_trend_since_1979_too() -> None:
    trends = trends_drawn(answer_of(made_hours(range(1950, 2024))))
    assert [(trend.years.first, trend.years.last) for trend in trends] == [(1950, 2023), (1979, 2023)]


def test_five_years_have_bars_around_their_mean_and_no_trend() -> None:
    answer = mekong_answer()
    assert trends_drawn(answer) == ()
    (axes,) = axes_of(anomaly_figure(answer, NARROW))
    heights = [patch.get_height() for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_gid()]
    assert len(heights) == 5
    assert sum(heights) == pytest.approx(0.0, abs=1e-9)
    assert legend_of(axes) == []


def stripes_of(answer: ClimateAnswer, width: float = WIDE) -> dict[int, str]:
    """The colour of each year's stripe, where that is."""
    (axes,) = axes_of(stripes_figure(answer, width))
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


def test_without_a_complete_year_there_are_no_stripes_and_nothing_is_counted() -> None:
    hours = made_hours([2001])
    answer = answer_of(hours[hours.index < "2001-05-01"])
    assert stripes_figure(answer, WIDE) is None
    assert counted_days(answer) == ()
    assert day_count_figure(answer, NARROW) is None


def test_a_picture_has_the_reds_of_a_stripe_and_of_a_bar(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    save_figure(climate_picture(mekong_answer()), path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with Image.open(path) as picture:
        colours = picture.convert("RGB").getcolors(1 << 20)
    assert {(203, 24, 29), (192, 57, 43)} <= {colour for _, colour in colours or []}


def words_of(answer_title: str | None = None) -> list[str]:
    return texts_of(climate_picture(mekong_answer(), answer_title))


def test_it_says_the_place_the_years_the_lack_of_a_trend_and_the_credit() -> None:
    words = words_of()
    assert words[0] == "Yearly mean temperature, 10.75 N 106.25 E"
    assert words[1].startswith("2020\u20132024; the cell of ERA5 at 10.75 N 106.25 E")
    assert any(text.startswith("No trend: 5 complete years") for text in words)
    assert words[-1] == CREDIT
    assert words_of("Ho $Chi$ Minh")[0] == "Ho $Chi$ Minh"


def test_it_says_the_interval_of_a_trend() -> None:
    answer = answer_of(made_hours(range(1990, 2024)))
    words = texts_of(climate_picture(answer))
    trend = answer.trend_of("mean_temperature")
    assert isinstance(trend, Trend)
    interval = f"95 % interval +{trend.low:.3f} to +{trend.high:.3f}; grey: 95 % confidence band of the fitted mean"
    assert f"Trend 1990\u20132023: +{trend.slope:.3f} °C per decade, {interval}" in words


def test_a_picture_of_generated_data_says_so_in_its_title() -> None:
    answer = answer_of(made_hours(range(1990, 2024)), sources={"sample": 408})
    for title in (None, "Nowhere"):
        words = texts_of(climate_picture(answer, title))
        assert words[0] == "generated, not ERA5"
        assert words[1].startswith(f"Generated sample data, not ERA5: {title or 'Yearly mean temperature'}")
        assert "Generated sample data, not ERA5: these numbers say nothing about the real weather." in words


@pytest.mark.parametrize("years", [[2023], [2022, 2023], [2021, 2022, 2023]])
def test_up_to_three_years_are_drawn_month_by_month(years: list[int]) -> None:
    """Neither stripes nor anomalies, which for a single year would be zero."""
    answer = answer_of(made_hours(years))
    for width in (NARROW, WIDE):
        assert stripes_figure(answer, width) is None
        assert anomaly_figure(answer, width) is None
    figure = climate_picture(answer)
    (axes,) = figure.axes
    assert axes.get_ylabel() == "Temperature (°C)"
    assert legend_of(axes) == [f"{year}" for year in years]
    for year, line in zip(years, axes.lines, strict=True):
        means = answer.monthly["mean_temperature"][f"{year}"]
        assert np.asarray(line.get_ydata(), dtype=float) == pytest.approx(means.to_numpy())
    assert figure.texts[0].get_text() == "Monthly mean temperature, 10.75 N 106.25 E"
    expected = "2023" if len(years) == 1 else f"{years[0]}\u20132023"
    assert figure.texts[1].get_text().startswith(f"{expected}; ")


def test_a_single_year_has_no_mean_of_its_own() -> None:
    answer = answer_of(made_hours([2023]))
    (rain,), (days, *_) = axes_of(precipitation_figure(answer, WIDE)), axes_of(day_count_figure(answer, WIDE))
    assert (rain.get_ylabel(), legend_of(rain)) == ("Precipitation (mm)", [])
    assert not [*rain.lines, *days.lines]
    (two,) = axes_of(precipitation_figure(answer_of(made_hours([2022, 2023])), WIDE))
    assert len(two.lines) == 1


def test_a_few_years_are_compared_with_the_baseline_if_that_is_held() -> None:
    """Three years of a longer record, whose baseline is complete."""
    hours = made_hours(range(1991, 2024))
    whole = answer_of(hours)
    answer = make_answer(hours, whole.place, DayRule(), BASELINE, whole.provenance, first_day=date(2021, 1, 1))
    assert answer is not None
    (axes,) = climate_picture(answer).axes
    assert axes.get_ylabel() == "Anomaly from 1991\u20132020 (°C)"
    assert stripes_figure(answer, WIDE) is None
    assert anomaly_figure(answer, WIDE) is not None


def test_an_hour_of_another_year_is_no_year_of_its_own() -> None:
    """With days at UTC-01:00, the first hour of 2020 is that of 2019-12-31 23:00."""
    answer = answer_of(made_hours(range(2020, 2024)), rule=DayRule(-60))
    stripes, bars = climate_picture(answer).axes
    assert [patch.get_gid() for patch in stripes.patches] == [f"year-{year}" for year in range(2020, 2024)]
    assert bars.get_xlim() == (2019.5, 2023.5)
    assert [f"{day:%Y-%m-%d}" for day in answer.whole_days] == ["2020-01-01", "2023-12-30"]


def test_stripes_stand_above_their_bars_on_the_page_and_in_the_picture() -> None:
    answer = mekong_answer()
    for width in (NARROW, WIDE):
        pair = stripes_figure(answer, width), anomaly_figure(answer, width)
        (stripes,), (bars,) = (figure.axes for figure in pair if figure is not None)
        assert stripes.get_xlim() == bars.get_xlim()
        edges = [(box.x0, box.x1) for box in (stripes.get_position(), bars.get_position())]
        assert edges[0] == pytest.approx(edges[1])
        assert bars.get_ylabel() == "Anomaly (°C)"
        bars.figure.canvas.draw()
        assert bars.yaxis.label.get_window_extent().x0 >= 0.0
    stripes, bars = climate_picture(answer).axes
    assert stripes.get_xlim() == bars.get_xlim()
    assert stripes.get_position().x0 == pytest.approx(bars.get_position().x0)


def test_without_a_complete_year_it_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    hours = made_hours([2001])
    with pytest.raises(NoDataError, match="no year has all of its hours") as refused:
        save_figure(climate_picture(answer_of(hours[hours.index < "2001-05-01"])), tmp_path / "picture.png")
    assert "era5 load" in refused.value.remedy
    with pytest.raises(UsageError, match="PNG, PDF or SVG"):
        save_figure(climate_picture(mekong_answer()), tmp_path / "picture.bmp")
    assert not list(tmp_path.iterdir())
