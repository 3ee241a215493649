"""`query.climate.reading.read_climate`: answers from real files, on each layout, against xarray and pandas."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.grid import Area, nearest_location
from era5_pipeline.query.climate.anomalies import DEFAULT_BASELINE
from era5_pipeline.query.climate.climate_answer import ClimatePlace, NoTrend, YearSpan
from era5_pipeline.query.climate.reading.read_climate import DayChoice, Period, read_climate
from era5_pipeline_tests.query.climate.real_weather import GULF, MEKONG, NORWAY, PARIS, flatten, gridded, load, mekong

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

# What a value may differ by from one that was computed in double precision from kelvin and metres.
DEGREES, MILLIMETRES = 2e-5, 2e-4
ALL = Period()
UTC_DAYS = DayChoice()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Path]:
    """The homes of the flat months of each delivery."""
    made = {delivery: tmp_path_factory.mktemp("home") for delivery in (GULF, NORWAY, PARIS, MEKONG)}
    for delivery, home in made.items():
        flatten(home, delivery)
    return made


@pytest.fixture(scope="module")
def real(shared_warehouse: Warehouse, homes: dict[tuple[str, str, str], Path]) -> Warehouse:
    """The table with the four deliveries, on each layout."""
    for delivery, home in homes.items():
        load(shared_warehouse, home, delivery)
    return shared_warehouse


def point(latitude: float, longitude: float, name: str | None = None) -> ClimatePlace:
    location = nearest_location(latitude, longitude)
    return ClimatePlace(name, (latitude, longitude), location, None, 1, None, None)


def ask(
    warehouse: Warehouse,
    place: ClimatePlace,
    period: Period = ALL,
    choice: DayChoice = UTC_DAYS,
    baseline: YearSpan = DEFAULT_BASELINE,
) -> Any:
    with warehouse.connect() as connection:
        return read_climate(connection, place, period, baseline, choice)


def box(text: str) -> ClimatePlace:
    return ClimatePlace(None, None, None, Area.parse(text), 0, None, None)


def totals_of_days(of_hours: Any, hours_ahead: int = 0) -> Any:
    """Sums in mm of days at an offset, of hours in m that end at their times; only days with 24 hours."""
    begins = of_hours.index + pd.Timedelta(hours=hours_ahead - 1)
    grouped = (of_hours * 1000).groupby(begins.floor("D"))
    return grouped.sum()[grouped.count() == 24]


def assert_equal(found: Any, expected: Any, tolerance: float) -> None:
    """The same days, months or years with the same values."""
    there = found.dropna()
    assert there.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(there.to_numpy(), expected.to_numpy(), rtol=0, atol=tolerance)


def test_a_year_in_the_gulf_is_that_of_xarray(real: Warehouse, tmp_path: Path) -> None:
    answer = ask(real, point(25.25, 51.5))
    degrees = gridded(GULF, tmp_path)["t2m"].astype(np.float64).sel(latitude=25.25, longitude=51.5) - 273.15
    days = degrees.resample(time="1D")
    for name, of_days in (("mean", days.mean()), ("min", days.min()), ("max", days.max())):
        assert_equal(answer.daily[f"{name}_temperature"], of_days.to_series(), DEGREES)
    assert_equal(answer.monthly["mean_temperature"], degrees.resample(time="MS").mean().to_series(), DEGREES)
    row = answer.yearly.loc[2023]
    assert row["mean_temperature"] == pytest.approx(float(degrees.mean()), abs=DEGREES)
    highest, lowest = days.max(), days.min()
    assert row["hot_days"] == int((highest > 30).sum()) > 200
    assert row["very_hot_days"] == int((highest > 35).sum())
    assert row["tropical_nights"] == int((lowest > 20).sum())
    assert (row["frost_days"], row["temperature_hours"], row["temperature_complete"]) == (0, 8760, True)
    hottest = answer.records[0]
    at = degrees.to_series().idxmax()
    assert (hottest.when, hottest.value) == (f"{at:%Y-%m-%d %H:%M}", pytest.approx(float(degrees.max()), abs=DEGREES))
    assert answer.elements == ("temperature",)
    assert "1 complete year (2023), since a trend needs at least 20" in answer.sentence
    assert answer.provenance.versions == {"final": 12}
    assert answer.provenance.preliminary_share == 0
    assert answer.provenance.credit.startswith("Contains modified Copernicus Climate Change Service information 2023")


def test_the_mean_of_an_area_is_weighted_as_by_xarray(real: Warehouse, tmp_path: Path) -> None:
    answer = ask(real, box("26/51/25/51.5"))
    kelvin = gridded(GULF, tmp_path)["t2m"].astype(np.float64).sel(latitude=slice(26, 25), longitude=slice(51, 51.5))
    assert kelvin.shape[1:] == (5, 3)
    mean = kelvin.weighted(np.cos(np.deg2rad(kelvin["latitude"]))).mean(["latitude", "longitude"]) - 273.15
    assert_equal(answer.daily["max_temperature"], mean.resample(time="1D").max().to_series(), DEGREES)
    assert answer.yearly.loc[2023, "mean_temperature"] == pytest.approx(float(mean.mean()), abs=DEGREES)
    assert answer.place.points == 15
    assert answer.place.description.startswith("the mean of 15 grid points of 26/51/25/51.5")


def test_an_area_of_which_only_a_part_is_loaded_says_so(real: Warehouse) -> None:
    answer = ask(real, box("30/51/26/52"))
    assert "the mean of 15 of 85 grid points" in answer.place.description
    alone = ask(real, box("10.75/106.25/10.75/106.25"), Period(date(2021, 1, 1), date(2021, 12, 31)))
    cell = ask(real, point(10.75, 106.25), Period(date(2021, 1, 1), date(2021, 12, 31)))
    for name in ("mean_temperature", "precipitation", "max_wind_speed"):
        assert_equal(alone.daily[name], cell.daily[name], 1e-6)


def test_a_month_in_norway_is_that_of_xarray(real: Warehouse, tmp_path: Path) -> None:
    place = point(60.25, 7.0)
    answer = ask(real, place)
    hours = gridded(NORWAY, tmp_path).sel(latitude=60.25, longitude=7.0)
    degrees = hours["t2m"].astype(np.float64) - 273.15
    assert_equal(answer.daily["mean_temperature"], degrees.resample(time="1D").mean().to_series(), DEGREES)
    totals = totals_of_days(hours["tp"].astype(np.float64).to_series())
    # 30 days: the last one lacks the hour that ends with October.
    assert len(totals) == 30
    assert_equal(answer.daily["precipitation"], totals, MILLIMETRES)
    assert answer.monthly["temperature_complete"].tolist() == [True]
    assert answer.yearly["temperature_complete"].tolist() == [False]
    assert answer.yearly["frost_days"].tolist() == [int((degrees.resample(time="1D").min() < 0).sum())]
    wettest = {record.name: record for record in answer.records}["wettest_day"]
    assert (wettest.when, wettest.value) == (
        f"{totals.idxmax():%Y-%m-%d}",
        pytest.approx(totals.max(), abs=MILLIMETRES),
    )
    assert "no complete years: a trend needs" not in answer.sentence
    assert "cannot be told from no complete years" in answer.sentence


def test_a_year_in_paris_has_wind_and_no_precipitation(real: Warehouse, tmp_path: Path) -> None:
    answer = ask(real, point(48.75, 2.25, "Paris, France"))
    hours = gridded(PARIS, tmp_path)
    speed = np.hypot(hours["u10"].astype(np.float64), hours["v10"].astype(np.float64)).to_series()
    assert answer.elements == ("temperature", "wind")
    assert answer.yearly.loc[2024, "mean_wind_speed"] == pytest.approx(speed.mean(), abs=1e-6)
    assert_equal(answer.daily["max_wind_speed"], speed.resample("D").max(), 1e-5)
    degrees = hours["t2m"].astype(np.float64).to_series() - 273.15
    assert answer.yearly.loc[2024, "frost_days"] == (degrees.resample("D").min() < 0).sum()
    assert "no total_precipitation at this place: NULL in every row" in answer.provenance.lines
    assert answer.provenance.gaps == ()
    assert any("12 months do not say whether they are final" in line for line in answer.provenance.lines)


def test_years_in_the_mekong_delta_are_those_of_pandas(real: Warehouse) -> None:
    answer = ask(real, point(10.75, 106.25))
    served = mekong()
    degrees = served["t2m"] - 273.15
    assert_equal(answer.daily["max_temperature"], degrees.resample("D").max(), DEGREES)
    totals = totals_of_days(served["tp"])
    assert_equal(answer.daily["precipitation"], totals.loc["2020":], MILLIMETRES)
    by_year = degrees.groupby(degrees.index.year).mean()
    assert_equal(answer.yearly["mean_temperature"], by_year, DEGREES)
    years = totals.loc["2020":"2024"].groupby(totals.loc["2020":"2024"].index.year)
    assert_equal(answer.yearly.loc[:2024, "precipitation"], years.sum(), 0.02)
    assert_equal(answer.yearly.loc[:2024, "wet_days"], years.apply(lambda days: (days >= 1).sum()), 0)
    assert_equal(answer.yearly.loc[:2024, "heaviest_day"], years.max(), MILLIMETRES)
    assert answer.yearly["temperature_complete"].tolist() == [True] * 5 + [False]
    assert isinstance(answer.trend_of("mean_temperature"), NoTrend)
    assert (answer.provenance.hours, answer.provenance.months) == (47_472, 65)
    assert answer.provenance.gaps == ()


def test_local_days_are_those_of_pandas_and_say_their_offset(real: Warehouse) -> None:
    period = Period(date(2021, 1, 1), date(2023, 12, 31))
    answer = ask(real, point(10.75, 106.25), period, DayChoice(zone="Asia/Ho_Chi_Minh"))
    served = mekong()
    local = (served["t2m"] - 273.15).shift(freq=pd.Timedelta(hours=7)).loc["2021":"2023"]
    assert_equal(answer.daily["min_temperature"], local.resample("D").min(), DEGREES)
    assert_equal(answer.daily["precipitation"], totals_of_days(served["tp"], 7).loc["2021":"2023"], MILLIMETRES)
    assert_equal(answer.yearly["mean_temperature"], local.groupby(local.index.year).mean(), DEGREES)
    assert answer.yearly["temperature_hours"].tolist() == [8760] * 3
    assert (answer.days.offset_minutes, answer.days.zone, answer.days.warnings) == (420, "Asia/Ho_Chi_Minh", ())
    assert "UTC+07:00 (standard time of Asia/Ho_Chi_Minh" in answer.notes[0]
    by_offset = ask(real, point(10.75, 106.25), period, DayChoice(offset_minutes=420))
    pd.testing.assert_frame_equal(by_offset.daily, answer.daily)


def test_a_part_hour_is_warned_of(real: Warehouse) -> None:
    period = Period(date(2021, 1, 1), date(2021, 12, 31))
    answer = ask(real, point(10.75, 106.25), period, DayChoice(offset_minutes=330))
    (warning,) = answer.days.warnings
    assert warning.startswith("UTC+05:30 has a part of an hour")
    assert warning in answer.notes


def test_a_zone_whose_standard_time_changed_is_warned_of(real: Warehouse) -> None:
    # Almaty went from UTC+06:00 to UTC+05:00 in March 2024, the last full year of the table there.
    answer = ask(real, point(10.75, 106.25), choice=DayChoice(zone="Asia/Almaty"))
    assert answer.days.offset_name == "UTC+05:00"
    (warning,) = answer.days.warnings
    assert warning == (
        "The standard time of Asia/Almaty was another in 2020-2023: the days of these years are cut at UTC+05:00 like "
        "all others."
    )
    assert warning in answer.notes
    before = ask(real, point(10.75, 106.25), Period(None, date(2023, 12, 31)), DayChoice(zone="Asia/Almaty"))
    assert (before.days.offset_name, before.days.warnings) == ("UTC+06:00", ())


def test_an_unknown_zone_is_refused(real: Warehouse) -> None:
    with pytest.raises(UsageError, match="'Asia/Atlantis' is not a time zone"):
        ask(real, point(10.75, 106.25), choice=DayChoice(zone="Asia/Atlantis"))


def test_missing_months_of_the_period_are_said(real: Warehouse) -> None:
    answer = ask(real, point(10.75, 106.25), Period(date(2019, 3, 1), date(2020, 12, 31)))
    missing = {
        element: [str(month) for month in months] for element, months in answer.provenance.missing_months.items()
    }
    ten = [f"2019-{number:02d}" for number in range(3, 13)]
    assert missing == {"temperature": ten, "wind": ten, "precipitation": ten}
    assert answer.provenance.gaps == ("no data for 2019-03 to 2019-12",)
    assert answer.yearly.index.tolist() == [2020]


def test_a_place_that_is_not_loaded_says_what_is_and_how_to_load_it(real: Warehouse) -> None:
    with pytest.raises(NoDataError) as raised:
        ask(real, point(-6.2, 106.8, "Jakarta, Indonesia"))
    assert "the table has nothing there; the nearest of its" in raised.value.message
    assert "latitude 10.75, longitude 106.25" in raised.value.message
    assert 'era5 load --source point --place "Jakarta, Indonesia"' in raised.value.remedy
    with pytest.raises(NoDataError, match=r"era5 load --source point --lat -6.25 --lon 106.75"):
        ask(real, point(-6.2, 106.8))
    with pytest.raises(NoDataError, match=r"area 1/1/0/2: the table has nothing there; the nearest of its"):
        ask(real, box("1/1/0/2"))


def test_a_period_that_is_not_loaded_says_what_is(real: Warehouse) -> None:
    with pytest.raises(NoDataError, match=r"no hour of the period; it holds 2020-01 to 2025-05"):
        ask(real, point(10.75, 106.25), Period(date(1990, 1, 1), date(1995, 12, 31)))
    with pytest.raises(NoDataError, match=r"no hour of the period; it holds 2020-01 to 2025-05"):
        ask(real, point(10.75, 106.25), Period(date(2026, 1, 1), None))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((None, None), Period()),
        (("1979", None), Period(date(1979, 1, 1), None)),
        (("1979", "2024"), Period(date(1979, 1, 1), date(2024, 12, 31))),
        (("2020-02", "2020-02"), Period(date(2020, 2, 1), date(2020, 2, 29))),
        ((None, "2020-02-05"), Period(None, date(2020, 2, 5))),
    ],
    ids=["open", "from", "years", "month", "to a day"],
)
def test_a_period_is_whole_days(texts: tuple[str | None, str | None], expected: Period) -> None:
    assert Period.parse(*texts) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("2024", "1979"), "the range 2024 to 1979 is empty\nGive the earlier time first"),
        (("2020-01-01T12", None), "'2020-01-01T12' is an hour\nAn answer is made of days"),
        ((None, "2020-01-01T12"), "'2020-01-01T12' is an hour"),
        (("yesterday", None), "'yesterday' is not a time"),
    ],
    ids=["wrong way round", "from an hour", "to an hour", "no time"],
)
def test_what_is_no_period_is_refused(texts: tuple[str | None, str | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Period.parse(*texts)
