"""`query.climate.indices`: against xclim on real years, and days made for their limits."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.query.climate.indices import yearly_indices
from era5_pipeline_tests.query.climate.tamar import tamar_hours

if TYPE_CHECKING:
    from pathlib import Path


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


def test_spells_end_with_the_year_and_at_a_missing_day() -> None:
    dry = [0.0] * 10
    table = yearly_indices(days("2020-12-25", precipitation=[*dry[:7], *dry[:4], np.nan, *dry[:3], 2.0]))
    assert table["longest_dry_spell"].tolist() == [7, 4]
    assert table["longest_wet_spell"].tolist() == [0, 1]


def test_a_year_without_values_has_none() -> None:
    table = yearly_indices(
        days("2020-12-30", max_temperature=[31.0, 31.0, np.nan], min_temperature=[21.0, 21.0, np.nan])
    )
    assert table["hot_days"].tolist()[0] == 2
    assert table.loc[2021].isna().all()


def mekong_days(point_series: Path) -> Any:
    """Days of UTC of the years 2020 to 2024, made by pandas alone from the CSV as served."""
    (archive,) = (point_series / "mekong-2020-2025-csv-zip").glob("*.zip")
    with zipfile.ZipFile(archive) as opened, opened.open(opened.namelist()[0]) as file:
        served: Any = pd.read_csv(file, parse_dates=["valid_time"], index_col="valid_time")
    temperature = (served["t2m"] - 273.15).resample("D").agg(["min", "max"])
    totals = served["tp"] * 1000
    totals.index = totals.index - pd.Timedelta(hours=1)
    table = pd.DataFrame(
        {
            "max_temperature": temperature["max"],
            "min_temperature": temperature["min"],
            "precipitation": totals.resample("D").sum(),
        }
    )
    return table.loc["2020":"2024"]


def assert_as_xclim(daily: pd.DataFrame) -> None:
    import xarray as xr
    from xclim import indices

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
        "longest_dry_spell": indices.maximum_consecutive_dry_days(
            rain, thresh="1 mm/day", freq="YS", resample_before_rl=True
        ),
        "longest_wet_spell": indices.maximum_consecutive_wet_days(
            rain, thresh="1 mm/day", freq="YS", resample_before_rl=True
        ),
    }
    table = yearly_indices(daily)
    assert set(table) == set(expected)
    for name, values in expected.items():
        assert table[name].tolist() == values.to_numpy().tolist(), name


# xclim 0.62 uses what pandas 4 will remove; and it warns of attributes that CF asks for.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_indices_are_those_of_xclim_in_the_mekong_delta(point_series: Path) -> None:
    daily = mekong_days(point_series)
    assert len(daily) == 1827
    assert_as_xclim(daily)
    assert yearly_indices(daily)["hot_days"].loc[2024] > 300


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_indices_of_thirty_years_are_those_of_xclim_and_those_written_down(tmp_path: Path) -> None:
    hours = tamar_hours(tmp_path).tz_convert(None)
    temperature = hours["temperature_2m"].astype(np.float64).resample("D").agg(["min", "max"])
    # As labelled, without the rule that a total at 00:00 belongs to the day before.
    daily = pd.DataFrame(
        {
            "max_temperature": temperature["max"],
            "min_temperature": temperature["min"],
            "precipitation": hours["total_precipitation"].resample("D").sum(),
        }
    )
    assert_as_xclim(daily)
    table: Any = yearly_indices(daily)
    names = ["summer_days", "tropical_nights", "wet_days", "longest_dry_spell", "longest_wet_spell", "frost_days"]
    assert table.loc[2003, names].tolist() == [1, 0, 164, 15, 15, 10]
    assert table.loc[2022, names].tolist() == [6, 0, 163, 18, 14, 6]
    assert round(table.loc[2003, "heaviest_day"], 3) == 19.839
    assert round(table.loc[2022, "heaviest_day"], 3) == 21.474
    assert round(table["heaviest_day"].max(), 3) == 37.781
    assert (table["wet_days"].max(), table["frost_days"].max(), table["longest_dry_spell"].max()) == (193, 41, 28)
