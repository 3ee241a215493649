"""`query.climate.records`: extremes, with when they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.query.climate.daily_values import daily_values, hours_by_day
from era5_pipeline.query.climate.records import records_of
from era5_pipeline.query.climate.yearly_values import monthly_values, yearly_values

if TYPE_CHECKING:
    from era5_pipeline.query.climate.climate_answer import Record

YEARS = 2


@pytest.fixture
def hours() -> pd.DataFrame:
    """Two years of 15 degC, 0.1 mm and 2 m/s, with single hours that are more."""
    index = pd.date_range("2020-01-01T00", "2022-01-01T00", freq="h", tz="UTC", name="time", unit="s")
    table = pd.DataFrame(
        {"temperature_2m": 15.0, "total_precipitation": 0.1, "zonal_wind_10m": 0.0, "meridional_wind_10m": 2.0},
        index=index,
    )
    table.loc["2021-07-18T15:00Z", "temperature_2m"] = 41.5
    table.loc["2020-12-25T20:00Z", "temperature_2m"] = -12.25
    table.loc["2020-03-01T00:00Z", "total_precipitation"] = 50.0
    table.loc["2020-06-06T06:00Z", "zonal_wind_10m"] = -30.0
    return table


def found(hours: pd.DataFrame, offset: int = 0) -> dict[str, Record]:
    days = hours_by_day(hours, offset)
    daily = daily_values(days)
    records = records_of(days, daily, monthly_values(days), yearly_values(days, daily))
    return {record.name: record for record in records}


def test_records_have_values_and_times(hours: pd.DataFrame) -> None:
    records = found(hours)
    assert {name: (record.value, record.unit, record.when) for name, record in records.items()} == {
        "hottest_hour": (41.5, "degC", "2021-07-18 15:00"),
        "coldest_hour": (-12.25, "degC", "2020-12-25 20:00"),
        "hottest_day": (pytest.approx(15 + 26.5 / 24), "degC", "2021-07-18"),
        "coldest_day": (pytest.approx(15 - 27.25 / 24), "degC", "2020-12-25"),
        "warmest_night": (15.0, "degC", "2020-01-01"),
        "warmest_month": (pytest.approx(15 + 26.5 / 744), "degC", "2021-07"),
        "coldest_month": (pytest.approx(15 - 27.25 / 744), "degC", "2020-12"),
        "warmest_year": (pytest.approx(15 + 26.5 / 8760), "degC", "2021"),
        "coldest_year": (pytest.approx(15 - 27.25 / 8784), "degC", "2020"),
        # The hour from 23:00 to 24:00 of 29 February.
        "wettest_hour": (50.0, "mm", "2020-03-01 00:00"),
        "wettest_day": (pytest.approx(50 + 2.3), "mm", "2020-02-29"),
        "wettest_month": (pytest.approx(50 + 69.5), "mm", "2020-02"),
        "wettest_year": (pytest.approx(50 + 878.3), "mm", "2020"),
        "driest_year": (pytest.approx(876.0), "mm", "2021"),
        "windiest_hour": (pytest.approx(np.hypot(30, 2)), "m/s", "2020-06-06 06:00"),
    }


def test_times_are_in_the_offset_of_the_days(hours: pd.DataFrame) -> None:
    records = found(hours, 420)
    assert records["hottest_hour"].when == "2021-07-18 22:00"
    assert records["coldest_hour"].when == "2020-12-26 03:00"
    assert records["coldest_day"].when == "2020-12-26"
    assert records["wettest_hour"].when == "2020-03-01 07:00"
    assert records["wettest_day"].when == "2020-03-01"
    halves = found(hours, 330)
    assert halves["hottest_hour"].when == "2021-07-18 20:30"
    assert halves["wettest_hour"].when == "2020-03-01 05:30"


def test_a_value_that_occurs_again_is_dated_by_its_first_time(hours: pd.DataFrame) -> None:
    hours.loc["2021-08-01T10:00Z", "temperature_2m"] = 41.5
    hours.loc["2021-08-02T10:00Z", "temperature_2m"] = 41.5
    record = found(hours)["hottest_hour"]
    assert (record.when, record.others) == ("2021-07-18 15:00", 2)


def test_an_incomplete_year_or_month_sets_no_record(hours: pd.DataFrame) -> None:
    hours.loc["2021-07-01":"2021-07-10", "temperature_2m"] = np.nan
    records = found(hours)
    assert records["warmest_month"].when != "2021-07"
    assert records["warmest_year"].when == "2020"
    assert records["hottest_hour"].when == "2021-07-18 15:00"


def test_elements_without_values_have_no_records(hours: pd.DataFrame) -> None:
    assert set(found(hours[["total_precipitation"]])) == {
        *("wettest_hour", "wettest_day", "wettest_month", "wettest_year", "driest_year")
    }
