"""`query.climate.make_answer`: all of an answer, of thirty real years and of made ones."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.query.climate.anomalies import DEFAULT_BASELINE
from era5_pipeline.query.climate.climate_answer import ClimatePlace, DayRule, NoTrend, Trend, YearSpan
from era5_pipeline.query.climate.make_answer import make_answer
from era5_pipeline_tests.query.climate.answers import PLACE, answer_to, provenance_of, warming_hours
from era5_pipeline_tests.query.climate.tamar import MEAN_TEMPERATURE, tamar_hours

if TYPE_CHECKING:
    from pathlib import Path


def test_thirty_real_years(tmp_path: Path) -> None:
    place = ClimatePlace("Tamar", (50.408, -4.185), None, None, 1, None, None)
    answer = answer_to(tamar_hours(tmp_path), place)
    assert answer.yearly.index.tolist() == list(range(1994, 2024))
    assert answer.yearly["temperature_complete"].all()
    assert answer.yearly["mean_temperature"].tolist() == pytest.approx(MEAN_TEMPERATURE.tolist(), abs=1e-6)
    assert answer.sentence == (
        "Tamar is 0.196 degC per decade warmer over 1994-2023, 0.6 degC in all (95 % interval +0.004 to +0.388); "
        "the interval leaves out zero: significant (Kendall's tau 0.26, p 0.041)."
    )
    assert answer.is_significant is True
    assert answer.baseline.complete == 27
    # With the rule that a total at 00:00 is of the day before; computed with pandas by shifted labels.
    assert answer.yearly.loc[2003, ["wet_days", "longest_dry_spell"]].tolist() == [163, 15]
    assert answer.yearly.loc[2022, ["wet_days", "longest_dry_spell"]].tolist() == [163, 18]
    assert [round(answer.yearly.loc[year, "heaviest_day"], 3) for year in (2003, 2022)] == [19.382, 23.009]
    assert [(record.name, record.when) for record in answer.records[:2]] == [
        ("hottest_hour", "2022-07-18 15:00"),
        ("coldest_hour", "2010-12-25 08:00"),
    ]
    assert (answer.seasons.then, answer.seasons.now) == (YearSpan(1991, 2020), YearSpan(2014, 2023))


def test_a_place_that_gets_warmer_is_said_to() -> None:
    answer = answer_to(warming_hours("1970-01-01T00", "2024-12-31T23", per_decade=0.3))
    whole, since = answer.trend_of("mean_temperature"), answer.trend_of("mean_temperature", "since_1979")
    assert isinstance(whole, Trend)
    assert isinstance(since, Trend)
    assert (whole.years, since.years) == (YearSpan(1970, 2024), YearSpan(1979, 2024))
    assert whole.low < 0.3 < whole.high
    assert whole.slope == pytest.approx(0.3, abs=0.08)
    assert answer.sentence.startswith(f"Jakarta, Indonesia is {whole.slope:.2f} degC per decade warmer over 1970-2024")
    assert f"Since 1979: {since.slope:+.2f}" in answer.sentence
    assert answer.yearly["temperature_anomaly"].loc[1991:2020].mean() == pytest.approx(0, abs=1e-9)
    assert answer.yearly["temperature_anomaly"].iloc[-5:].mean() > 0.3
    assert answer.notes == (
        "Days, months and years are in UTC. A value of precipitation is of the hour before its time: a day's total is "
        "the sum from 01:00 to 24:00. (/v1/archive of era5 serve sums 00:00 to 23:00, as Open-Meteo does.)",
    )
    assert answer.first == datetime(1970, 1, 1, tzinfo=UTC)
    assert answer.last == datetime(2024, 12, 31, 23, tzinfo=UTC)


def test_a_place_that_does_not_change_is_not_said_to_be_warmer() -> None:
    answer = answer_to(warming_hours("1985-01-01T00", "2014-12-31T23", per_decade=0.0, seed=3))
    assert answer.is_significant is False
    assert answer.sentence.startswith("Jakarta, Indonesia shows no significant trend over 1985-2014: ")
    assert "includes zero" in answer.sentence
    assert "Since" not in answer.sentence  # the record begins after 1979


def test_five_years_are_no_climate() -> None:
    answer = answer_to(warming_hours("2020-01-01T00", "2025-05-31T23"))
    assert answer.is_significant is None
    assert answer.sentence == (
        "Jakarta, Indonesia: whether it is getting warmer cannot be told from 5 complete years (2020-2024), since a "
        "trend needs at least 20; a few years are weather, not climate."
    )
    assert all(isinstance(trends.whole, NoTrend) for trends in answer.trends)
    assert answer.yearly["temperature_anomaly"].isna().all()
    assert not answer.baseline.is_used
    assert (
        "2025 is incomplete (temperature, precipitation, wind): in no trend, no anomaly and no normal." in answer.notes
    )
    assert any(note.startswith("1 of the 30 years of the baseline 1991-2020 is complete") for note in answer.notes)


def test_the_baseline_may_lie_outside_the_period() -> None:
    hours = warming_hours("1991-01-01T00", "2024-12-31T23")
    whole = answer_to(hours)
    late = answer_to(hours, first_day=date(2022, 1, 1), last_day=date(2023, 12, 31))
    assert late.yearly.index.tolist() == [2022, 2023]
    assert late.baseline.complete == 30
    expected = whole.yearly.loc[2022:2023, "temperature_anomaly"].tolist()
    assert late.yearly["temperature_anomaly"].tolist() == pytest.approx(expected, rel=1e-12)
    assert late.monthly["temperature_anomaly"].tolist() == pytest.approx(
        whole.monthly.loc["2022":"2023", "temperature_anomaly"].tolist(), rel=1e-12
    )
    assert (late.seasons.then, late.seasons.now) == (YearSpan(1991, 2020), YearSpan(2022, 2023))
    assert late.daily.index[0].date() == date(2022, 1, 1)
    assert {record.when[:4] for record in late.records} <= {"2022", "2023", "2024"}
    # The last total of 2023 has the time 2024-01-01 00:00, and is there.
    assert late.yearly["precipitation_hours"].tolist() == [8760, 8760]


def test_days_of_an_offset_are_said_with_their_warnings() -> None:
    hours = warming_hours("2020-01-01T00", "2021-12-31T23")
    rule = DayRule(420, "Asia/Jakarta", ("The standard time of Asia/Jakarta was another in 1940-1963.",))
    answer = answer_to(hours, rule=rule)
    assert answer.notes[0].startswith(
        "Days, months and years are in UTC+07:00 (standard time of Asia/Jakarta, one offset for all years)."
    )
    assert answer.notes[1] == rule.warnings[0]
    in_utc = answer_to(hours)
    assert answer.daily.loc["2020-07-01", "min_temperature"] != in_utc.daily.loc["2020-07-01", "min_temperature"]
    assert DayRule(-210).offset_name == "UTC-03:30"


def test_without_temperature_the_rest_is_answered() -> None:
    hours = warming_hours("1990-01-01T00", "2015-12-31T23")[["total_precipitation"]]
    answer = answer_to(hours)
    assert answer.elements == ("precipitation",)
    assert answer.sentence == (
        "Jakarta, Indonesia: the table has no temperature there, only precipitation; whether it is warmer cannot be "
        "told."
    )
    assert answer.is_significant is None
    assert isinstance(answer.trend_of("precipitation"), Trend)
    with pytest.raises(KeyError):
        answer.trend_of("mean_temperature")
    assert answer.seasons.then == YearSpan(1991, 2020)
    assert answer.seasons.table["precipitation_change"].notna().all()


def test_hours_without_a_whole_day_have_no_answer() -> None:
    hours = warming_hours("2020-01-01T00", "2020-03-01T00")
    provenance = provenance_of(hours)
    rule = DayRule()
    assert make_answer(hours.iloc[::3], PLACE, rule, DEFAULT_BASELINE, provenance) is None
    assert make_answer(hours.iloc[:1], PLACE, rule, DEFAULT_BASELINE, provenance) is None
    assert make_answer(hours, PLACE, rule, DEFAULT_BASELINE, provenance, first_day=date(2021, 1, 1)) is None
    assert make_answer(hours * np.nan, PLACE, rule, DEFAULT_BASELINE, provenance) is None
