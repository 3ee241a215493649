"""Tests of `climate/years`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.anomalies import DEFAULT_BASELINE, baseline_of
from era5_pipeline.climate.answer import QUANTITIES, YearSpan
from era5_pipeline.climate.days import daily_values, hours_by_day
from era5_pipeline.climate.years import monthly_values, records_of, seasonal_cycle, yearly_indices, yearly_values
from era5_pipeline_tests.climate.tamar import tamar_hours
from era5_pipeline_tests.climate_answers import mekong_hours

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.climate.answer import Record


def days(first: str, **columns: list[float]) -> Any:
    count = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=pd.date_range(first, periods=count, name="date", unit="s"))


def test_limits_are_exceeded_not_reached_except_that_of_a_wet_day() -> None:
    table = yearly_indices(
        days(
            "2020-06-01",
            max_temperature=[25.0, 25.01, 30.0, 30.01, 35.01, np.nan],
            min_temperature=[20.0, 20.01, 0.0, -0.01, 5.0, np.nan],
            precipitation=[0.999, 1.0, 1.001, 0.0, 0.5, np.nan],
        )
    )
    assert table.loc[2020].to_dict() == {
        "summer_days": 4,
        "hot_days": 2,
        "very_hot_days": 1,
        "tropical_nights": 1,
        "frost_days": 1,
        "wet_days": 2,
        "heaviest_day": 1.001,
        "longest_dry_spell": 2,
        "longest_wet_spell": 2,
    }


def test_a_spell_counts_in_the_year_in_which_it_ends_and_ends_at_a_missing_day() -> None:
    dry = [0.0] * 10
    table = yearly_indices(days("2020-12-24", precipitation=[2.0, *dry[:7], *dry[:4], np.nan, *dry[:3], 2.0]))
    assert table["longest_dry_spell"].tolist() == [0, 11]
    assert table["longest_wet_spell"].tolist() == [1, 1]


def test_a_drought_over_the_turn_of_the_year_has_all_of_its_days() -> None:
    rain = pd.Series(2.0, index=pd.date_range("2019-01-01", "2022-12-31", unit="s"), name="precipitation")
    rain["2020-08-20":"2021-03-23"] = 0.0
    rain["2020-02-01":"2020-02-09"] = 0.0
    table = yearly_indices(rain.to_frame())
    assert table["longest_dry_spell"].to_dict() == {2019: 0, 2020: 9, 2021: 216, 2022: 0}
    # It rained from 2019 to January 2020, and from March 2021 on.
    assert table["longest_wet_spell"].iloc[1:].tolist() == [396, 0, 283 + 365]


def test_a_year_within_a_spell_has_none_and_the_last_spell_ends_with_the_record() -> None:
    rain = pd.Series(0.0, index=pd.date_range("2018-01-01", "2022-12-31", unit="s"), name="precipitation")
    rain["2019-06-01"] = rain["2021-06-01"] = 5.0
    dry = yearly_indices(rain.to_frame())["longest_dry_spell"]
    assert dry.dropna().to_dict() == {2019: 365 + 151, 2021: 213 + 366 + 151, 2022: 213 + 365}
    assert dry.index[dry.isna()].tolist() == [2018, 2020]


def test_a_year_without_values_has_none() -> None:
    table = yearly_indices(
        days("2020-12-30", max_temperature=[31.0, 31.0, np.nan], min_temperature=[21.0, 21.0, np.nan])
    )
    assert table["hot_days"].tolist()[0] == 2
    assert table.loc[2021].isna().all()


def days_of_utc(hours: Any, *, as_labelled: bool = False) -> pd.DataFrame:
    """Days by pandas alone; a total at 00:00 is of the day before, unless it is taken as it is labelled."""
    hours = hours.tz_convert(None)
    totals = hours["total_precipitation"]
    if not as_labelled:
        totals = totals.shift(-1, freq="h")
    temperature = hours["temperature_2m"].astype(np.float64).resample("D").agg(["min", "max"])
    return pd.DataFrame(
        {
            "max_temperature": temperature["max"],
            "min_temperature": temperature["min"],
            "precipitation": totals.resample("D").sum(),
        }
    )


def assert_as_xclim(daily: pd.DataFrame) -> None:
    import xarray as xr
    from xclim import indices
    from xclim.indices.run_length import longest_run

    def of(column: str, unit: str) -> xr.DataArray:
        return xr.DataArray(
            daily[column].to_numpy(), dims="time", coords={"time": daily.index.to_numpy()}, attrs={"units": unit}
        )

    highest, lowest = of("max_temperature", "degC"), of("min_temperature", "degC")
    rain = of("precipitation", "mm/day")
    expected = {
        "summer_days": indices.tx_days_above(highest, thresh="25 degC", freq="YS"),
        "hot_days": indices.tx_days_above(highest, thresh="30 degC", freq="YS"),
        "very_hot_days": indices.tx_days_above(highest, thresh="35 degC", freq="YS"),
        "tropical_nights": indices.tn_days_above(lowest, thresh="20 degC", freq="YS"),
        "frost_days": indices.frost_days(lowest, freq="YS"),
        "wet_days": indices.wetdays(rain, thresh="1 mm/day", freq="YS"),
        "heaviest_day": indices.max_1day_precipitation_amount(rain, freq="YS"),
        "longest_dry_spell": longest_run(rain < 1, freq="YS", index="last"),
        "longest_wet_spell": longest_run(rain >= 1, freq="YS", index="last"),
    }
    table = yearly_indices(daily)
    assert set(table) == set(expected)
    for name, values in expected.items():
        assert table[name].tolist() == values.to_numpy().tolist(), name


# xclim 0.62 uses what pandas 4 will remove; and it warns of attributes that CF asks for.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_indices_are_those_of_xclim_in_the_mekong_delta() -> None:
    daily = days_of_utc(mekong_hours()).loc["2020":"2024"]
    assert len(daily) == 1827
    assert_as_xclim(daily)
    assert yearly_indices(daily)["hot_days"].loc[2024] > 300


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_indices_of_thirty_years_are_those_of_xclim_and_those_written_down(tmp_path: Path) -> None:
    daily = days_of_utc(tamar_hours(tmp_path), as_labelled=True)
    assert_as_xclim(daily)
    table: Any = yearly_indices(daily)
    names = ["summer_days", "tropical_nights", "wet_days", "longest_dry_spell", "longest_wet_spell", "frost_days"]
    assert table.loc[2003, names].tolist() == [1, 0, 164, 15, 15, 10]
    assert table.loc[2022, names].tolist() == [6, 0, 163, 18, 14, 6]
    assert round(table.loc[2003, "heaviest_day"], 3) == 19.839
    assert round(table.loc[2022, "heaviest_day"], 3) == 21.474
    assert round(table["heaviest_day"].max(), 3) == 37.781
    assert (table["wet_days"].max(), table["frost_days"].max(), table["longest_dry_spell"].max()) == (193, 41, 29)


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


def test_a_year_is_complete_if_at_most_24_hours_lack() -> None:
    hours = weather("2020-01-01T00", "2022-12-31T23")
    lacking = hours.drop(hours.index[100:124])
    assert years_of(lacking)["temperature_complete"].tolist() == [True, True, True]
    lacking = hours.drop(hours.index[100:125])
    yearly = years_of(lacking)
    assert yearly["temperature_complete"].tolist() == [False, True, True]
    assert yearly.loc[2020, "temperature_hours"] == 8784 - 25


def test_hours_missing_on_24_days_leave_the_mean_but_no_counts_of_days() -> None:
    hours = weather("2020-01-01T00", "2022-12-31T23")
    hours.loc[hours.index.day == 1, "total_precipitation"] = 0.0
    whole = years_of(hours)
    noons = hours.index[hours.index.hour == 12]
    few, many = (years_of(hours.drop(noons[3 : 3 + count])) for count in (15, 24))
    assert many["temperature_complete"].tolist() == few["temperature_complete"].tolist() == [True] * 3
    assert many["temperature_whole_days"].tolist() == [342, 365, 365]
    # Each gap is a day less of the total, too; the last day lacks its last total.
    assert many["precipitation_whole_days"].tolist() == [342, 365, 364]
    assert few["precipitation_whole_days"].tolist() == [351, 365, 364]
    indices = [quantity.name for quantity in QUANTITIES if quantity.is_index]
    assert len(indices) == 9
    assert many.loc[2020, indices].isna().all()
    assert many.loc[2021:, indices].notna().all(axis=None)
    assert few[indices].notna().all(axis=None)
    lowest = hours["temperature_2m"].tz_convert(None).resample("D").min().loc["2020"]
    assert few.loc[2020, "frost_days"] == (lowest.drop(lowest.index[3:18]) < 0).sum()
    assert many.loc[2020, "mean_temperature"] == pytest.approx(whole.loc[2020, "mean_temperature"], abs=0.1)


def test_an_index_needs_all_but_15_days_even_if_the_year_is_not_complete() -> None:
    hours = weather("2020-01-01T00", "2022-12-31T23")
    of_2021 = hours.index.get_loc(pd.Timestamp("2021-03-01T00Z"))
    yearly = years_of(hours.drop(hours.index[of_2021 : of_2021 + 15 * 24]))
    assert yearly["temperature_complete"].tolist() == [True, False, True]
    assert yearly["temperature_whole_days"].tolist() == [366, 350, 365]
    assert yearly["frost_days"].notna().all()
    yearly = years_of(hours.drop(hours.index[of_2021 : of_2021 + 15 * 24 + 1]))
    assert yearly["frost_days"].isna().tolist() == [False, True, False]
    assert yearly["mean_temperature"].notna().all()


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
    values = yearly.loc[2019].drop([name for name in yearly if name.endswith(("_hours", "_complete", "_whole_days"))])
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


def months(first: str, last: str) -> pd.DataFrame:
    """Temperature is ten times the month, and 1 degC more from 2015 on; precipitation is 100 mm."""
    index = pd.date_range(first, last, freq="MS", name="month", unit="s")
    return pd.DataFrame(
        {
            "mean_temperature": index.month * 10.0 + (index.year >= 2015),
            "precipitation": 100.0,
            "temperature_complete": True,
            "precipitation_complete": True,
        },
        index=index,
    )


def test_then_is_the_baseline_and_now_the_last_ten_complete_years() -> None:
    table = months("1980-01-01", "2025-05-01")
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(1980, 2025)), list(range(1980, 2025)))
    # The periods do not overlap.
    assert (found.then, found.now) == (YearSpan(1991, 2014), YearSpan(2015, 2024))
    assert found.table.index.tolist() == list(range(1, 13))
    assert found.table.loc[7, "temperature_then"] == pytest.approx(70)
    assert found.table.loc[7, "temperature_now"] == pytest.approx(71)
    assert found.table.loc[7, "temperature_change"] == pytest.approx(1)
    assert found.table["precipitation_change"].tolist() == [0.0] * 12
    assert not [name for name in found.table if str(name).startswith("wind")]


def test_a_change_has_the_interval_of_a_difference_of_means() -> None:
    """Wider than that of independent years, since how they depend on each other is not known."""
    from scipy import stats

    table = months("1991-01-01", "2024-12-01")
    table["mean_temperature"] += np.random.default_rng(2).normal(size=len(table))
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(1991, 2025)), list(range(1991, 2025))).table
    index = pd.DatetimeIndex(table.index)
    own = table["mean_temperature"][index.month == 7]
    plain = stats.ttest_ind(own[own.index >= "2015"], own[own.index < "2015"]).confidence_interval(0.95)
    row = found.loc[7]
    assert row["temperature_change"] == pytest.approx((plain.low + plain.high) / 2)
    half = row["temperature_change_high"] - row["temperature_change"]
    assert half == pytest.approx(row["temperature_change"] - row["temperature_change_low"])
    assert 0.8 < half / ((plain.high - plain.low) / 2) < 2


@pytest.mark.parametrize(
    ("first", "last", "now", "january"),
    [
        # It ends in the baseline, of which few years are left; it is short; no year is complete.
        ("1991-01-01", "2009-12-01", YearSpan(2000, 2009), 10.0),
        ("2020-01-01", "2024-12-01", YearSpan(2020, 2024), 11.0),
        ("2024-01-01", "2024-05-01", None, np.nan),
    ],
)
def test_a_short_record_has_no_then_and_a_shorter_now(
    first: str, last: str, now: YearSpan | None, january: float
) -> None:
    years = list(range(int(first[:4]), int(last[:4]) + 1)) if last.endswith("12-01") else []
    found = seasonal_cycle(months(first, last), baseline_of(DEFAULT_BASELINE, years), years)
    assert (found.then, found.now) == (None, now)
    assert found.table["temperature_then"].isna().all()
    assert found.table["temperature_change"].isna().all()
    np.testing.assert_equal(found.table.loc[1, "temperature_now"], january)


def test_an_incomplete_month_is_left_out() -> None:
    table = months("1991-01-01", "2024-12-01")
    table.loc["2020-07-01", ["mean_temperature", "temperature_complete"]] = [500.0, False]
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(1991, 2025)), list(range(1991, 2025)))
    assert found.table.loc[7, "temperature_now"] == pytest.approx(71)


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
    # 2020 alone is complete, and one year is no record.
    assert not {"warmest_year", "coldest_year"} & set(records)
    assert records["hottest_hour"].when == "2021-07-18 15:00"


def test_what_is_always_the_same_has_no_record(hours: pd.DataFrame) -> None:
    never = found(hours.assign(total_precipitation=0.0, zonal_wind_10m=0.0))
    assert not [name for name in never if name.startswith(("wet", "dri", "windiest"))]
    assert never["hottest_hour"].value == 41.5
    assert not found(hours[["temperature_2m"]] * 0.0 + 15.3)
    # A year of rain, and one without: the driest year is one with 0 mm.
    once = found(hours.assign(total_precipitation=(hours.index < "2020-06-01") * 0.1))
    assert (once["driest_year"].value, once["driest_year"].when) == (0.0, "2021")
    # A single year is neither the warmest nor the coldest.
    assert not {"warmest_year", "coldest_year"} & set(found(hours[hours.index < "2021-01-01"]))


def test_elements_without_values_have_no_records(hours: pd.DataFrame) -> None:
    assert set(found(hours[["total_precipitation"]])) == {
        *("wettest_hour", "wettest_day", "wettest_month", "wettest_year", "driest_year")
    }
