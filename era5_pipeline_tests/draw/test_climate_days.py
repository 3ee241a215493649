"""Tests of `draw/climate_days`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.draw.climate_axes import NARROW, WIDE
from era5_pipeline.draw.climate_days import band_figure, by_day_of_year, cycles_of, normal_band, seasonal_figure
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer, mekong_hours
from era5_pipeline_tests.draw.pixels import axes_of, legend_of

# Days of a year of 365 days, counted from 0.
_DAY_OF = {"02-28": 58, "03-01": 59, "07-15": 195, "12-31": 364}


@pytest.mark.parametrize("day", _DAY_OF)
@pytest.mark.parametrize("times", [1, 2])
def test_the_band_is_of_the_days_within_a_week(day: str, times: int) -> None:
    """From the lowest to the highest of five years; of ten, which here are the same five again, percentiles."""
    answer = mekong_answer()
    if times == 2:
        table = answer.daily[["mean_temperature"]]
        earlier = table[table.index.year < 2025].copy()  # type: ignore[attr-defined]
        earlier.index = earlier.index.map(lambda date: date.replace(year=date.year - 20))
        answer = replace(answer, daily=pd.concat([earlier, table]))
    band = normal_band(answer)
    assert band is not None
    years = (2020, 2021, 2022, 2023, 2024)
    assert band.years == (tuple(year - 20 for year in years) if times == 2 else ()) + years
    assert (band.year, band.is_baseline, band.is_of_extremes) == (2025, False, times == 1)
    local = mekong_hours()["temperature_2m"].tz_convert("Asia/Ho_Chi_Minh")
    daily = local.groupby(local.index.date).mean()[local.groupby(local.index.date).count() == 24]  # type: ignore[attr-defined]
    by_name = {f"{date:%Y-%m-%d}": value for date, value in daily.items() if f"{date:%m-%d}" != "02-29"}
    days = sorted({name[5:] for name in by_name})
    around = [days[(days.index(day) + step) % 365] for step in range(-7, 8)]
    near = [by_name[f"{year}-{one}"] for year in range(2020, 2025) for one in around if f"{year}-{one}" in by_name]
    found = (band.low, band.middle, band.high, band.lowest, band.highest)
    usual = (0, 50, 100) if times == 1 else (10, 50, 90)
    expected = (*np.percentile(near * times, usual), min(near), max(near))
    assert [values[_DAY_OF[day]] for values in found] == pytest.approx(expected, abs=1e-6)


@given(st.integers(3, 6), st.integers(0, 2**32 - 1), st.floats(0.0, 0.6), st.sampled_from([0.0, 0.1, 8.0]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_middle_is_within_the_extremes_on_every_day(years: int, seed: int, lacking: float, spread: float) -> None:
    """Also for few years, with missing days, and far apart."""
    dates = pd.date_range("2000-01-01", f"{2000 + years}-12-31", freq="D")
    random = np.random.default_rng(seed)
    level = spread * random.normal(size=years + 1)[dates.year - 2000]
    values = 10.0 * np.sin(dates.day_of_year / 58.0) + level + random.normal(size=len(dates))
    values = np.where(random.random(len(dates)) < lacking, np.nan, values)
    band = normal_band(replace(mekong_answer(), daily=pd.DataFrame({"mean_temperature": values}, index=dates)))
    assert band is not None
    assert len(band.years) == years
    edges = np.stack([band.lowest, band.low, band.middle, band.high, band.highest])
    there = np.isfinite(edges).all(axis=0)
    assert (np.isnan(edges).all(axis=0) | there).all()
    assert (np.diff(edges[:, there], axis=0) >= 0).all()
    # A day's own values are among those within a week of it.
    table = by_day_of_year(pd.Series(values, index=dates))
    own = np.stack([table[year] for year in band.years])
    held = np.isfinite(own)
    assert ((own >= band.lowest) & (own <= band.highest))[held].all()


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_band_of_a_few_years_is_called_what_it_is(width: float) -> None:
    names = {}
    for count in (5, 9, 10):
        band = normal_band(answer_of(made_hours(range(2013 - count, 2014))))
        assert band is not None
        (axes,) = band_figure(band, width).axes
        names[count] = legend_of(axes)
        assert axes.get_ylabel() == "Temperature (°C)"
    assert names[5] == ["lowest to highest of 5 years", "median", "2013"]
    assert names[9] == ["lowest to highest of 9 years", "median", "2013"]
    assert names[10] == ["lowest to highest", "middle 80 %", "median", "2013"]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_the_seasons_have_a_panel_for_each_element_and_one_year_is_named_once(width: float) -> None:
    hours = made_hours([2023])
    (only,) = cycles_of(answer_of(hours))
    assert only.label == "2023"
    for shown, labels in ((hours, ["Temperature (°C)", "Precipitation (mm)"]), (hours[["temperature_2m"]], [None])):
        figure = seasonal_figure(answer_of(shown), width)
        assert figure is not None
        assert [label and axes.get_ylabel() for axes, label in zip(figure.axes, labels, strict=True)] == labels


def test_a_year_that_has_begun_ends_with_its_last_day() -> None:
    band = normal_band(mekong_answer())
    assert band is not None
    # Local days to 31 May: the last one lacks its last hours.
    assert band.count == 31 + 28 + 31 + 30 + 31
    assert np.isnan(band.values[151:]).all()
    assert 0 < band.above + band.below < band.count


def test_a_whole_record_is_compared_with_the_baseline() -> None:
    band = normal_band(answer_of(made_hours(range(1988, 2023), without=[1999])))
    assert band is not None
    assert (band.year, band.is_baseline) == (2022, True)
    assert band.years == tuple(year for year in range(1991, 2021) if year != 1999)
    # The level rises by 0.02 degC a year: hardly a day is as cold as the baseline's coldest.
    assert band.above > band.below


def test_two_other_years_are_no_band() -> None:
    assert normal_band(answer_of(made_hours([2001, 2002, 2003]))) is None
    assert normal_band(answer_of(made_hours([2001, 2002, 2003, 2004]))) is not None
    assert normal_band(answer_of(made_hours(range(2001, 2005))[["total_precipitation"]])) is None


def test_then_is_the_baseline_and_now_the_last_ten_years() -> None:
    hours = made_hours(range(1991, 2024))
    then, now = cycles_of(answer_of(hours))
    assert (then.label, now.label) == ("1991\u20132013", "2014\u20132023")
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
    assert len(axes_of(seasonal_figure(answer, NARROW))) == 2


def test_a_few_days_are_no_month() -> None:
    hours = made_hours([2001])
    answer = answer_of(hours[hours.index < "2001-01-10"])
    assert cycles_of(answer) == []
    assert seasonal_figure(answer, NARROW) is None
