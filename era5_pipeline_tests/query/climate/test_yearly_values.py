"""`query.climate.yearly_values`: means, totals and completeness of years and months."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.query.climate.daily_values import daily_values, hours_by_day
from era5_pipeline.query.climate.yearly_values import monthly_values, yearly_values


def weather(first: str, last: str, seed: int = 1) -> Any:
    """Random hours from `first` to `last`."""
    index = pd.date_range(first, last, freq="h", tz="UTC", name="time", unit="s")
    random = np.random.default_rng(seed)
    columns = {
        "temperature_2m": random.normal(20, 8, len(index)),
        "total_precipitation": random.exponential(0.2, len(index)),
        "zonal_wind_10m": random.normal(2, 3, len(index)),
        "meridional_wind_10m": random.normal(-1, 3, len(index)),
    }
    return pd.DataFrame(columns, index=index).astype(np.float32)


def years_of(hours: pd.DataFrame, offset: int = 0) -> Any:
    days = hours_by_day(hours, offset)
    return yearly_values(days, daily_values(days))


def test_a_year_is_the_mean_and_the_total_of_all_its_hours() -> None:
    hours = weather("2019-12-31T00", "2022-01-01T00")
    yearly = years_of(hours).loc[2020:2021]
    of_instants = hours.groupby(hours.index.year)["temperature_2m"].mean().astype(np.float64)
    in_double = hours["temperature_2m"].astype(np.float64).groupby(hours.index.year).mean()
    assert yearly["mean_temperature"].tolist() == pytest.approx(in_double.loc[2020:2021].tolist(), rel=1e-13)
    assert yearly["mean_temperature"].tolist() == pytest.approx(of_instants.loc[2020:2021].tolist(), rel=1e-5)
    before = hours.index - pd.Timedelta(hours=1)
    totals = hours["total_precipitation"].astype(np.float64).groupby(before.year).sum()
    assert yearly["precipitation"].tolist() == pytest.approx(totals.loc[2020:2021].tolist(), rel=1e-13)
    speed: Any = np.hypot(hours["zonal_wind_10m"].astype(float), hours["meridional_wind_10m"].astype(float))
    assert yearly["mean_wind_speed"].tolist() == pytest.approx(
        speed.groupby(hours.index.year).mean().loc[2020:2021].tolist()
    )
    assert yearly["temperature_hours"].tolist() == [8784, 8760]
    extremes = hours["temperature_2m"].groupby(hours.index.year).agg(["min", "max"]).loc[2020:2021]
    assert yearly[["min_temperature", "max_temperature"]].to_numpy().tolist() == extremes.to_numpy().tolist()


def test_years_of_an_offset_are_local_years() -> None:
    hours = weather("2019-12-25T00", "2022-01-10T00")
    yearly = years_of(hours, 420)
    local = hours["temperature_2m"].astype(np.float64).groupby((hours.index + pd.Timedelta(hours=7)).year).mean()
    assert yearly.loc[2021, "mean_temperature"] == pytest.approx(local.loc[2021], rel=1e-13)


def test_a_year_is_complete_if_at_most_24_hours_lack() -> None:
    hours = weather("2020-01-01T00", "2022-12-31T23")
    lacking = hours.drop(hours.index[100:124])
    assert years_of(lacking)["temperature_complete"].tolist() == [True, True, True]
    lacking = hours.drop(hours.index[100:125])
    yearly = years_of(lacking)
    assert yearly["temperature_complete"].tolist() == [False, True, True]
    assert yearly.loc[2020, "temperature_hours"] == 8784 - 25


def test_the_last_total_of_a_record_does_not_make_its_last_year_incomplete() -> None:
    yearly = years_of(weather("2020-01-01T00", "2021-12-31T23"))
    assert yearly["precipitation_hours"].tolist() == [8784, 8759]
    assert yearly["precipitation_complete"].all()
    assert not yearly["precipitation"].isna().any()


def test_a_year_with_a_few_hours_at_the_end_of_a_record_is_left_out() -> None:
    # At UTC+07:00 the last seven hours of 2021 are in 2022.
    assert years_of(weather("2020-01-01T00", "2021-12-31T23"), 420).index.tolist() == [2020, 2021]
    assert years_of(weather("2020-12-30T00", "2021-12-31T23")).index.tolist() == [2020, 2021]


def test_a_year_without_hours_within_the_record_is_a_row_without_values() -> None:
    hours = pd.concat([weather("2018-01-01T00", "2018-12-31T23"), weather("2020-01-01T00", "2020-12-31T23")])
    yearly = years_of(hours)
    assert yearly.index.tolist() == [2018, 2019, 2020]
    assert yearly["temperature_complete"].tolist() == [True, False, True]
    assert yearly.loc[2019, "temperature_hours"] == 0
    values = yearly.loc[2019].drop([name for name in yearly if name.endswith(("_hours", "_complete"))])
    assert values.isna().all()


def test_months_are_means_and_totals_of_their_hours() -> None:
    hours = weather("2020-01-01T00", "2020-03-31T23")
    days = hours_by_day(hours)
    monthly = monthly_values(days)
    assert [str(day.date()) for day in monthly.index] == ["2020-01-01", "2020-02-01", "2020-03-01"]
    in_double = hours["temperature_2m"].astype(np.float64).groupby(hours.index.month).mean()
    assert monthly["mean_temperature"].tolist() == pytest.approx(in_double.tolist(), rel=1e-13)
    before = hours.index[1:] - pd.Timedelta(hours=1)
    totals = hours["total_precipitation"].iloc[1:].astype(np.float64).groupby(before.month).sum()
    assert monthly["precipitation"].tolist() == pytest.approx(totals.tolist(), rel=1e-13)
    assert monthly["temperature_hours"].tolist() == [744, 696, 744]
    assert monthly["precipitation_hours"].tolist() == [744, 696, 743]
    assert monthly["temperature_complete"].all()
    assert not monthly_values(hours_by_day(hours.drop(hours.index[50:80])))["wind_complete"].iloc[0]
