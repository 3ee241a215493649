"""`climate.anomalies`: the baseline, what it rests on, and differences from it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.anomalies import (
    DEFAULT_BASELINE,
    baseline_of,
    monthly_anomalies,
    parse_baseline,
    yearly_anomalies,
)
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE
from era5_pipeline_tests.commands import assert_says


def yearly(values: dict[int, float], incomplete: tuple[int, ...] = ()) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "mean_temperature": list(values.values()),
            "temperature_complete": [year not in incomplete for year in values],
        },
        index=pd.Index(list(values), name="year"),
    )


@pytest.mark.parametrize("text", ["1961-1990", " 1961 - 1990 ", "1961/1990"])
def test_a_baseline_is_two_years(text: str) -> None:
    assert parse_baseline(text) == YearSpan(1961, 1990)
    assert parse_baseline(str(DEFAULT_BASELINE)) == DEFAULT_BASELINE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normal", "'normal' is not a baseline"),
        ("1991", "'1991' is not a baseline"),
        ("1991-01-2020", "is not a baseline"),
        ("2020-1991", "the baseline 2020-1991 is empty\nGive the earlier year first"),
        ("2011-2019", "the baseline 2011-2019 has 9 years, fewer than 10"),
        ("2011-2011", "has 1 year, fewer than 10"),
    ],
)
def test_what_is_no_baseline_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_baseline(text)


def test_a_baseline_says_by_how_many_years_it_is_based() -> None:
    years = YearSpan(1991, 2020)
    full = baseline_of(years, range(1940, 2025))
    assert (full.complete, full.is_used, full.note) == (30, True, None)
    enough = baseline_of(years, range(1997, 2025))
    assert (enough.complete, enough.is_used, enough.note) == (24, True, None)
    few = baseline_of(years, range(1998, 2025))
    assert (few.complete, few.is_used) == (23, True)
    assert_says(few.note, "23 of the 30 years", "1991-2020", "at least 80 %")
    too_few = baseline_of(years, range(2012, 2025))
    assert (too_few.complete, too_few.is_used) == (9, False)
    assert_says(too_few.note, "9 of the 30 years", "1991-2020", "at least 10")
    none = baseline_of(years, [])
    assert none.note is not None
    assert none.note.startswith("none of the 30 years")


def test_yearly_anomalies_are_against_the_mean_of_the_complete_baseline_years() -> None:
    table = yearly(dict(MEAN_TEMPERATURE.items()), incomplete=(2000, 2022))
    baseline = baseline_of(DEFAULT_BASELINE, [year for year in table.index if year not in (2000, 2022)])
    found = yearly_anomalies(table, table, baseline)
    # 26 complete years of 1994 to 2020.
    normal = np.mean([value for year, value in MEAN_TEMPERATURE.items() if year <= 2020 and year != 2000])
    assert baseline.complete == 26
    assert found.loc[2023] == pytest.approx(11.887158 - normal, abs=1e-6)
    assert found.index[found.isna()].tolist() == [2000, 2022]
    assert found.loc[1994:2020].mean() == pytest.approx(0, abs=1e-9)


def test_without_a_baseline_there_are_no_anomalies() -> None:
    table = yearly({2020: 10.0, 2021: 11.0})
    assert yearly_anomalies(table, table, baseline_of(DEFAULT_BASELINE, [2020])).isna().all()


def test_monthly_anomalies_are_against_the_same_month() -> None:
    index = pd.date_range("1991-01-01", "2021-12-01", freq="MS", name="month", unit="s")
    # January is 0 degC, December 11 degC; a year is 0.1 degC warmer than the one before.
    values = (index.month - 1) + 0.1 * (index.year - 1991)
    table = pd.DataFrame({"mean_temperature": values, "temperature_complete": True}, index=index)
    table.loc["1995-03-01", ["mean_temperature", "temperature_complete"]] = [99.0, False]
    found = monthly_anomalies(table, table, baseline_of(DEFAULT_BASELINE, range(1991, 2021)))
    assert found.loc["2021-07-01"] == pytest.approx(0.1 * 30 - 0.1 * 14.5)
    assert found.loc["2021-12-01"] == pytest.approx(0.1 * 30 - 0.1 * 14.5)
    without_1995 = [0.1 * (year - 1991) for year in range(1991, 2021) if year != 1995]
    assert found.loc["2021-03-01"] == pytest.approx(3.0 - np.mean(without_1995))
    assert np.isnan(found.loc["1995-03-01"])
    assert monthly_anomalies(table, table, baseline_of(DEFAULT_BASELINE, [1991])).isna().all()
