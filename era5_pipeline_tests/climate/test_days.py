"""`climate.days`: hours put into days of UTC and of other offsets."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.climate.days import daily_values, hours_by_day


def hours_of(start: str, count: int, **columns: object) -> Any:
    """Hours from `start` on; a column is a value for all of them, or a list."""
    index = pd.date_range(start, periods=count, freq="h", tz="UTC", name="time", unit="s")
    return pd.DataFrame(columns, index=index).astype(np.float32)


def numbered(start: str, count: int) -> Any:
    """Temperatures and precipitation that number the hours from 0."""
    return hours_of(
        start, count, temperature_2m=list(range(count)), total_precipitation=[float(n) for n in range(count)]
    )


def test_a_day_of_utc_has_the_temperatures_from_0_to_23() -> None:
    daily = daily_values(hours_by_day(numbered("2020-02-28", 72)))
    assert [str(day.date()) for day in daily.index] == ["2020-02-28", "2020-02-29", "2020-03-01"]
    assert daily["min_temperature"].tolist() == [0, 24, 48]
    assert daily["max_temperature"].tolist() == [23, 47, 71]
    assert daily["mean_temperature"].tolist() == [11.5, 35.5, 59.5]


def test_a_day_that_lacks_an_hour_has_no_values_but_only_of_that_element() -> None:
    hours = numbered("2021-06-01", 73)
    hours.iloc[30, 0] = np.nan
    daily = daily_values(hours_by_day(hours.drop(hours.index[60])))
    assert daily["mean_temperature"].isna().tolist() == [False, True]
    assert daily["precipitation"].isna().tolist() == [False, False]


def test_a_gap_of_days_is_rows_without_values() -> None:
    hours = pd.concat([numbered("2021-06-01", 24), numbered("2021-06-10", 24)])
    daily = daily_values(hours_by_day(hours))
    assert len(daily) == 10
    assert daily["mean_temperature"].notna().sum() == 2


def test_wind_speed_is_of_each_hour() -> None:
    hours = hours_of("2021-06-01", 24, zonal_wind_10m=[3.0] * 12 + [-3.0] * 12, meridional_wind_10m=4.0)
    daily = daily_values(hours_by_day(hours))
    assert daily["max_wind_speed"].tolist() == [5.0]
    of_area = hours_of("2021-06-01", 24, wind_speed_10m=7.5)
    assert daily_values(hours_by_day(of_area))["max_wind_speed"].tolist() == [7.5]


@given(
    offset=st.integers(-12 * 4, 14 * 4).map(lambda quarters: quarters * 15),
    start=st.integers(0, 47),
    missing=st.sets(st.integers(0, 119), max_size=20),
)
def test_days_are_those_that_pandas_groups(offset: int, start: int, missing: set[int]) -> None:
    first = pd.Timestamp("2020-12-30") + pd.Timedelta(hours=start)
    hours = numbered(str(first), 120)
    hours = hours.drop(index=hours.index[sorted(missing)])
    found = daily_values(hours_by_day(hours, offset))
    local = hours.index.tz_convert(None) + pd.Timedelta(minutes=offset)
    instants = hours["temperature_2m"].groupby(local.floor("D"))
    highest = instants.max()[instants.count() == 24]
    # A total begins an hour before its time; days without any instant are not in the table.
    totals = hours["total_precipitation"].groupby((local - pd.Timedelta(hours=1)).floor("D"))
    sums = totals.sum()[totals.count() == 24]
    sums = sums[(sums.index >= local[0].floor("D")) & (sums.index <= local[-1].floor("D"))]
    assert found["max_temperature"].dropna().to_dict() == highest.to_dict()
    assert found["precipitation"].dropna().to_dict() == sums.to_dict()


def test_hours_without_a_whole_day_give_an_empty_table() -> None:
    assert daily_values(hours_by_day(numbered("2021-06-01T12", 20))).empty
    three_hourly = numbered("2021-06-01", 72).iloc[::3]
    assert daily_values(hours_by_day(three_hourly)).empty


def test_elements_without_values_are_left_out() -> None:
    hours = hours_of("2021-06-01", 24, temperature_2m=20.0, total_precipitation=np.nan)
    days = hours_by_day(hours)
    assert days.elements == ("temperature",)
    assert list(daily_values(days)) == ["mean_temperature", "min_temperature", "max_temperature"]


def test_days_within_a_period() -> None:
    days = hours_by_day(numbered("2021-06-01", 24 * 10))
    assert len(days.within(None, None).dates) == 10
    assert days.within(date(2021, 6, 3), None).dates[0] == pd.Timestamp("2021-06-03")
    some = days.within(date(2021, 6, 3), date(2021, 6, 4))
    assert daily_values(some)["min_temperature"].tolist() == [48, 72]
    assert days.within(date(2022, 1, 1), None).elements == ()
