"""Tests of `maps/question`."""

from __future__ import annotations

import pytest

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month
from era5_pipeline.maps.question import AnomalyQuestion, TrendQuestion, require_summaries, statistic_for
from era5_pipeline.model.derived_variables import find_column
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN

TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]


def test_totals_are_summed_up_and_others_averaged() -> None:
    assert (statistic_for(TEMPERATURE), statistic_for(RAIN)) == ("mean", "sum")
    assert (statistic_for(TEMPERATURE, "MAX"), statistic_for(RAIN, "mean")) == ("max", "mean")


def test_a_statistic_that_there_is_not_is_an_error() -> None:
    with pytest.raises(UsageError, match="temperature_2m has no sum"):
        statistic_for(TEMPERATURE, "sum")
    with pytest.raises(UsageError, match="'median' is not a statistic"):
        statistic_for(TEMPERATURE, "median")


def test_extremes_have_no_anomaly_and_no_trend() -> None:
    years = YearSpan(1991, 2020)
    with pytest.raises(UsageError, match="the statistic max has no map of an anomaly"):
        AnomalyQuestion(calendar_month(7), 2023, years, "max")
    with pytest.raises(UsageError, match="the statistic min has no map of a trend"):
        TrendQuestion(WHOLE_YEAR, years, "min")


def test_a_trend_over_few_years_is_an_error() -> None:
    assert TrendQuestion(WHOLE_YEAR, YearSpan(2001, 2020), "mean").statistic == "mean"
    with pytest.raises(UsageError, match="2002-2020 are 19 years: a trend needs at least 20"):
        TrendQuestion(WHOLE_YEAR, YearSpan(2002, 2020), "mean")


def test_wind_has_maps_of_hours_and_its_speed_of_days() -> None:
    speed, direction = (find_column(f"wind_{name}_10m") for name in ("speed", "direction"))
    assert statistic_for(speed) == "mean"
    assert statistic_for(speed, "max") == "max"
    with pytest.raises(UsageError, match="wind_direction_10m has a map of an hour only"):
        statistic_for(direction)
    with pytest.raises(UsageError, match="wind_speed_10m is computed from hours, and has no maps of months"):
        require_summaries(speed)
