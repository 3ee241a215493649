"""Tests of `report/words`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.climate.answer import Trend, YearSpan
from era5_pipeline.climate.words import decimals_of
from era5_pipeline.report.words import cautions, interval_words, question, trend_cell, value_with_unit, verdict
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer
from era5_pipeline_tests.commands import assert_says

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimateAnswer

LONG = range(1990, 2024)


@cache
def long_answer() -> ClimateAnswer:
    """An answer of 34 years."""
    return answer_of(made_hours(LONG), name="Jakarta, Indonesia")


def with_trend(low: float, slope: float, high: float) -> ClimateAnswer:
    """An answer of 34 years whose trend of the mean temperature is this one."""
    answer = long_answer()
    trend = Trend(YearSpan(1990, 2023), 34, slope, low, high, 0.04, 0.1, 28.0, slope)
    trends = tuple(
        replace(found, whole=trend) if found.quantity.name == "mean_temperature" else found for found in answer.trends
    )
    return replace(answer, trends=trends)


def test_warmer_is_said_with_its_interval_and_in_all() -> None:
    short, sentence = verdict(with_trend(0.004, 0.196, 0.388))
    assert short == "Yes."
    assert_says(
        sentence,
        *("Jakarta, Indonesia", "warmer by 0.196 °C per decade", "1990 to 2023", "95 % interval +0.004 to +0.388"),
        *("0.6 °C in all", "excludes zero, but only just: another year or method may decide otherwise."),
    )


def test_an_interval_around_zero_is_no_yes() -> None:
    short, sentence = verdict(with_trend(-0.11, 0.05, 0.21))
    assert short == "Not clearly."
    assert (
        "+0.05 °C per decade from 1990 to 2023 (95 % interval \u22120.11 to +0.21). The interval includes" in sentence
    )


def test_colder_is_said_too() -> None:
    short, sentence = verdict(with_trend(-0.31, -0.2, -0.09))
    assert short == "No, colder."
    assert "became colder by 0.20 °C per decade" in sentence


def test_five_years_answer_nothing() -> None:
    short, sentence = verdict(mekong_answer())
    assert short == "No answer yet."
    assert "5 complete years (2020-2024)" in sentence
    (caution,) = cautions(mekong_answer())
    assert caution.startswith("Five complete years are not a climate, which is the mean of at least 30 years.")


def test_fewer_than_thirty_years_are_said_to_weigh_less() -> None:
    answer = answer_of(made_hours(range(2000, 2024)))
    assert verdict(answer)[0] in {"Yes.", "Not clearly."}
    (caution,) = cautions(answer)
    assert caution.startswith("24 complete years are fewer than the 30 of a climate")


def test_thirty_years_need_no_caution_and_generated_data_answer_nothing() -> None:
    assert cautions(long_answer()) == []
    for sources, begins in (({"sample": 408}, "Generated"), ({"sample": 8, "files": 400}, "Partly generated")):
        short, sentence = verdict(answer_of(made_hours([2001]), sources=sources))
        assert short == f"{begins} sample data, not ERA5."
        assert sentence == "These numbers say nothing about the real weather. No conclusion is drawn from them."


def test_without_temperature_nothing_is_told() -> None:
    short, sentence = verdict(answer_of(made_hours(LONG)[["total_precipitation"]]))
    assert short == "No answer yet."
    assert "no temperature" in sentence


def test_the_question_names_the_place() -> None:
    assert question(answer_of(made_hours([2001]), name="Jakarta, Indonesia")) == (
        "Is Jakarta, Indonesia getting warmer?"
    )
    assert question(mekong_answer()) == "Is it getting warmer at 10.75° N 106.25° E?"
    assert question(answer_of(made_hours([2001]), at=(-6.25, -70.0))) == "Is it getting warmer at 6.25° S 70° W?"


@pytest.mark.parametrize(
    ("low", "high", "decimals", "words"),
    [
        (0.004, 0.388, 3, "+0.004 to +0.388"),
        (0.12, 0.31, 2, "+0.12 to +0.31"),
        (-0.2, 0.0001, 4, "\u22120.2000 to +0.0001"),
        (0.0, 0.0, 2, "0.00 to 0.00"),
    ],
)
def test_an_end_of_an_interval_that_is_not_zero_does_not_look_like_zero(
    low: float, high: float, decimals: int, words: str
) -> None:
    trend = Trend(YearSpan(1990, 2023), 34, 0.1, low, high, 0.04, 0.1, 28.0, 0.1)
    assert decimals_of(trend, 2) == decimals
    assert interval_words(trend, decimals) == words


def test_numbers_have_units_and_signs() -> None:
    assert value_with_unit("-3.0", "degC") == "\u22123.0\u00a0°C"
    assert value_with_unit("2,171", "mm") == "2,171\u00a0mm"
    answer = with_trend(0.004, 0.196, 0.388)
    (found,) = [one for one in answer.trends if one.quantity.name == "mean_temperature"]
    assert trend_cell(found.quantity, found.whole) == "+0.196 °C (+0.004 to +0.388)"
    few = next(one for one in mekong_answer().trends if one.quantity.name == "mean_temperature")
    assert trend_cell(few.quantity, few.whole).startswith("no trend: 5 complete years")
