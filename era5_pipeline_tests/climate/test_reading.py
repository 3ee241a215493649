"""Tests of `climate/reading`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.climate.anomalies import DEFAULT_BASELINE
from era5_pipeline.climate.answer import ClimatePlace, DayRule, NoTrend, Trend, YearSpan
from era5_pipeline.climate.question import ClimateQuestion, DayChoice, Period
from era5_pipeline.climate.reading import (
    cell_weights,
    columns_for_climate,
    hours_of_area,
    hours_of_cell,
    locations_of_area,
    make_answer,
    read_climate,
    read_provenance,
)
from era5_pipeline.export.contents import read_contents
from era5_pipeline.export.files import file_attributes
from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.derived_variables import find_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.read.credit import era5_credit
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.climate.answers import PLACE, answer_to, provenance_of, warming_hours
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE, tamar_hours
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.export.test_run import place_at
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.real_months import GULF, MEKONG, NORWAY, PARIS, gridded, mekong
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths
from era5_pipeline_tests.weather_table import (
    FIJI,
    HOUR,
    HOURS,
    JAKARTA,
    MISSING,
    START,
    Connection,
    make_table,
    temperature_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def test_thirty_real_years(tmp_path: Path) -> None:
    place = ClimatePlace("Tamar", (50.408, -4.185), None, None, None, None)
    answer = answer_to(tamar_hours(tmp_path), place)
    assert answer.yearly.index.tolist() == list(range(1994, 2024))
    assert answer.yearly["temperature_complete"].all()
    assert answer.yearly["mean_temperature"].tolist() == pytest.approx(MEAN_TEMPERATURE.tolist(), abs=1e-6)
    assert_says(
        answer.sentence,
        *("Tamar shows no significant trend over 1994-2023: +0.20", "95 % interval -0.03 to +0.42"),
        "the interval includes zero (p 0.084)",
    )
    assert answer.is_significant is False
    assert answer.baseline.complete == 27
    # With the rule that a total at 00:00 is of the day before; computed with pandas by shifted labels.
    assert answer.yearly.loc[2003, ["wet_days", "longest_dry_spell"]].tolist() == [163, 15]
    assert answer.yearly.loc[2022, ["wet_days", "longest_dry_spell"]].tolist() == [163, 18]
    assert [round(answer.yearly.loc[year, "heaviest_day"], 3) for year in (2003, 2022)] == [19.382, 23.009]
    assert [(record.name, record.when) for record in answer.records[:2]] == [
        ("hottest_hour", "2022-07-18 15:00"),
        ("coldest_hour", "2010-12-25 08:00"),
    ]
    assert (answer.seasons.then, answer.seasons.now) == (YearSpan(1991, 2013), YearSpan(2014, 2023))


def test_a_place_that_gets_warmer_is_said_to() -> None:
    answer = answer_to(warming_hours("1970-01-01T00", "2024-12-31T23", per_decade=0.3))
    whole, since = answer.trend_of("mean_temperature"), answer.trend_of("mean_temperature", "since_1979")
    assert isinstance(whole, Trend)
    assert isinstance(since, Trend)
    assert (whole.years, since.years) == (YearSpan(1970, 2024), YearSpan(1979, 2024))
    assert whole.low < 0.3 < whole.high
    assert whole.slope == pytest.approx(0.3, abs=0.08)
    assert answer.sentence.startswith(f"Jakarta, Indonesia is {whole.slope:.3f} degC per decade warmer over 1970-2024")
    assert f"Since 1979: {since.slope:+.3f}" in answer.sentence
    assert answer.yearly["temperature_anomaly"].loc[1991:2020].mean() == pytest.approx(0, abs=1e-9)
    assert answer.yearly["temperature_anomaly"].iloc[-5:].mean() > 0.3
    (note,) = answer.notes
    assert_says(note, "UTC", "from 01:00 to 24:00", "/v1/archive", "00:00 to 23:00")
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
    assert_says(answer.sentence, "Jakarta, Indonesia", "cannot be told from 5 complete years (2020-2024)", "20")
    assert all(isinstance(trends.whole, NoTrend) for trends in answer.trends)
    assert answer.yearly["temperature_anomaly"].isna().all()
    assert not answer.baseline.is_used
    assert {
        "2025 is incomplete (temperature, precipitation, wind): left out of anomalies, normals, and trends of means "
        "and totals.",
        "2025 has no indices, such as counts of days (temperature, precipitation): more than 15 days of the year lack "
        "an hour.",
    } <= set(answer.notes)
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
    rule = DayRule(420, "Asia/Jakarta", ("The standard time of Asia/Jakarta was different in 1940-1963.",))
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
    assert_says(answer.sentence, "Jakarta, Indonesia", "no temperature", "precipitation", "cannot be told")
    assert answer.is_significant is None
    assert isinstance(answer.trend_of("precipitation"), Trend)
    with pytest.raises(KeyError):
        answer.trend_of("mean_temperature")
    assert answer.seasons.then == YearSpan(1991, 2005)
    assert answer.seasons.table["precipitation_change"].notna().all()


def test_hours_without_a_whole_day_have_no_answer() -> None:
    hours = warming_hours("2020-01-01T00", "2020-03-01T00")
    provenance = provenance_of(hours)
    rule = DayRule()
    assert make_answer(hours.iloc[::3], PLACE, rule, DEFAULT_BASELINE, provenance) is None
    assert make_answer(hours.iloc[:1], PLACE, rule, DEFAULT_BASELINE, provenance) is None
    assert make_answer(hours, PLACE, rule, DEFAULT_BASELINE, provenance, first_day=date(2021, 1, 1)) is None
    assert make_answer(hours * np.nan, PLACE, rule, DEFAULT_BASELINE, provenance) is None


def test_an_area_across_the_antimeridian_is_the_weighted_mean_of_its_points(weather_table: Connection) -> None:
    area = Area.parse("-17/179.75/-17.25/-179.75")
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # without a ledger, the locations are found by a row
    locations = locations_of_area(weather_table, area)
    assert locations == LocationSet.of_ids([location.location_id for location in FIJI])
    hours = hours_of_area(weather_table, locations, None, None)
    weights = [np.cos(np.deg2rad(location.latitude)) for location in FIJI]
    for hour in (0, 40, HOURS - 1):
        expected = np.average([temperature_of(location, hour) for location in FIJI], weights=weights)
        assert hours["temperature_2m"].iloc[hour] == pytest.approx(expected, rel=1e-9)
    assert hours["wind_speed_10m"].tolist() == pytest.approx([np.hypot(1.5, 2.5)] * HOURS)
    assert len(hours_of_area(weather_table, locations, START + HOUR, START + 3 * HOUR)) == 2


def test_an_hour_that_lacks_a_location_has_no_mean(weather_table: Connection) -> None:
    both = LocationSet.of_ids([JAKARTA.location_id, FIJI[0].location_id])
    hours = hours_of_area(weather_table, both, None, None)
    assert np.flatnonzero(hours["temperature_2m"].isna()).tolist() == [MISSING]


def test_an_hour_that_lacks_a_value_of_one_location_has_no_mean_of_it(weather_table: Connection) -> None:
    weather_table.execute(
        "UPDATE weather SET zonal_wind_10m = NULL WHERE location_id = %s AND time = %s",
        (FIJI[0].location_id, START + 5 * HOUR),
    )
    hours = hours_of_area(weather_table, LocationSet.of_ids([place.location_id for place in FIJI]), None, None)
    assert np.flatnonzero(hours["wind_speed_10m"].isna()).tolist() == [5]
    assert hours["temperature_2m"].notna().all()


def test_all_hours_of_an_area_are_means_of_the_same_locations(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    # Six points in two months, and three of them in a third: the six are the ones that most months have.
    for month, points in (("2023-01", (2, 3)), ("2023-02", (2, 3)), ("2023-03", (1, 3))):
        load_month(warehouse, flat_months(month, points=points))
    area = Area.parse("10.5/20/10.25/20.5")
    with warehouse.connect() as connection:
        locations = locations_of_area(connection, area)
        hours = hours_of_area(connection, locations, None, None)
    assert len(locations) == 6
    by_month = hours["temperature_2m"].notna().groupby(pd.DatetimeIndex(hours.index).month).mean()
    assert by_month.tolist() == [1.0, 1.0, 0.0]
    names = (*KEYS, "temperature_2m")
    rows = [dict(zip(names, row, strict=False)) for row in rows_of_table(warehouse)]
    first = [row for row in rows if row["time"] == hours.index[0]]
    assert len(first) == 6
    weights = [np.cos(np.deg2rad(row["latitude"])) for row in first]
    expected = np.average([row["temperature_2m"] for row in first], weights=weights)
    assert hours["temperature_2m"].iloc[0] == pytest.approx(expected, rel=1e-6)


def test_cells_weigh_as_the_cosine_of_latitude_and_half_as_high_at_the_poles() -> None:
    rows = np.array([0, 40, 360, 600, 720])
    latitudes = np.array([-80.0, 0.0, 60.0])
    assert cell_weights(rows, ERA5_GRID)[1:4].tolist() == pytest.approx(np.cos(np.deg2rad(latitudes)).tolist())
    # The cap within 0.125 degrees of the pole.
    cap = (1 - np.cos(np.deg2rad(0.125))) / (2 * np.sin(np.deg2rad(0.125)))
    assert cell_weights(rows, ERA5_GRID)[[0, 4]].tolist() == pytest.approx([cap, cap], rel=1e-6)
    # All cells of a meridian and its weights make the sphere.
    assert cell_weights(np.arange(721), ERA5_GRID).sum() * 2 * np.sin(np.deg2rad(0.125)) == pytest.approx(2)


def test_an_empty_warehouse_says_so(empty_database: Connection) -> None:
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        columns_for_climate(empty_database)
    make_table(empty_database)
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        locations_of_area(empty_database, Area.parse("1/1/0/2"))


def test_a_table_without_temperature_and_precipitation_says_what_to_load(weather_table: Connection) -> None:
    weather_table.execute("ALTER TABLE weather DROP COLUMN temperature_2m")
    assert "total_precipitation" in {variable.column for variable in columns_for_climate(weather_table)}
    weather_table.execute("ALTER TABLE weather DROP COLUMN total_precipitation")
    with pytest.raises(NoDataError, match=r"neither temperature_2m nor total_precipitation(.|\n)*--variables t2m,tp"):
        columns_for_climate(weather_table)


HERE = ERA5_GRID.nearest_location(10.5, 20.0)
LOCATIONS = LocationSet(((HERE.location_id, HERE.location_id + 1),))


def test_preliminary_hours_are_counted_and_their_months_named(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-09"))
    # From the 21st on preliminary: 240 of 744 hours of temperature, none of precipitation.
    mixed = {"t2m": [FINAL] * 504 + [PRELIMINARY] * 240, "tp": [FINAL] * 744}
    load_month(warehouse, make(mixed, month="2024-10"))
    load_month(warehouse, make(PRELIMINARY, month="2024-12", source="arco"))
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        found = read_provenance(connection, LOCATIONS, hours, None, None)
        september = read_provenance(connection, LOCATIONS, hours.iloc[:720], None, None)
    assert found.hours == 720 + 744 + 744
    assert found.preliminary_share == pytest.approx((240 + 744) / found.hours)
    assert found.versions == {"final": 1, "mixed": 1, "preliminary": 1}
    assert found.sources == {"cds": 2, "arco": 1}
    assert [str(month) for month in found.missing_months["temperature"]] == ["2024-11"]
    assert_says(found.lines[0], "44.57 % of the hours", "preliminary (ERA5T)", "2024-10, 2024-12")
    assert_says(found.lines[1], "no zonal_wind_10m, meridional_wind_10m", "NULL in every row")
    assert found.gaps == found.lines[2:] == ("no data for 2024-11",)
    assert (september.preliminary_share, september.versions) == (0, {"final": 1})
    assert september.gaps == ()
    assert found.version_words == "44.6 % of the hours preliminary (ERA5T)"
    assert september.version_words == "0.0 % of the hours preliminary (ERA5T)"


def test_an_unknown_version_is_not_none_and_generated_data_are_noticed(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make("", month="2024-09"))
    load_month(warehouse, make(FINAL, month="2024-10"))
    load_month(warehouse, make("", month="2024-08", source="sample"))
    with warehouse.connect() as connection:
        every = hours_of_cell(connection, HERE, None, None)
        hours = every.iloc[744:]
        found = read_provenance(connection, LOCATIONS, hours, None, None)
        september = read_provenance(connection, LOCATIONS, hours.iloc[:720], None, None)
        with_baseline = read_provenance(connection, LOCATIONS, hours, None, None, beside=every)
        generated = read_provenance(connection, LOCATIONS, every.iloc[:744], None, None)
    assert found.versions == {"unknown": 1, "final": 1}
    assert found.preliminary_share == 0
    assert found.unknown_share == pytest.approx(720 / 1464)
    assert found.version_words == "0.0 % of the hours preliminary (ERA5T), version unknown for 49.2 % of the hours"
    assert found.lines[0].startswith("version unknown for 49.18 % of the hours: the files of 1 months do not say")
    assert (september.preliminary_share, september.unknown_share) == (None, 1.0)
    assert september.version_words == "version unknown for 100.0 % of the hours"
    assert (found.notice, september.notice) == (None, None)
    # The baseline has generated hours.
    assert (with_baseline.notice or "").startswith("Partly generated sample data, not ERA5")
    assert (generated.notice or "").startswith("Generated sample data, not ERA5")
    assert (generated.versions, generated.preliminary_share, generated.version_words) == ({"generated": 1}, None, "")


def test_sources_of_added_variables_are_named_where_they_were_read(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-10", names=("t2m",)))
    load_month(warehouse, make(FINAL, month="2024-10", names=("tp",), source="arco"))
    load_month(warehouse, make("", month="2024-10", north=50.0))
    with warehouse.connect() as connection:
        connection.execute("UPDATE era5.ledger SET source = 'sample' WHERE version = 'unknown'")
        hours = hours_of_cell(connection, HERE, None, None)
        temperature = hours[["temperature_2m"]]
        found = [read_provenance(connection, LOCATIONS, some, None, None) for some in (hours, temperature)]
        here = place_at(10.5, 20.0)
        export = [read_contents(connection, here, find_columns(names), None, None) for names in ("t2m,tp", "tp")]
    assert [one.sources for one in found] == [{"cds": 1, "arco": 1}, {"cds": 1}]
    # The generated data of another place are not of this one.
    credits_ = {one.credit for one in found} | {one.origin.credit for one in export}
    assert credits_ == {f"{era5_credit(2024, 2024)} (final)"}
    loaded_from = [file_attributes(contents)["source"].partition("loaded from ")[2] for contents in export]
    assert loaded_from == ["arco, cds", "arco"]


def test_the_first_hours_of_local_days_are_no_gap_where_their_month_was_never_loaded(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-10"))
    october = datetime(2024, 10, 1, tzinfo=UTC)
    # Days of UTC+07:00, and of UTC-05:00.
    spans = [
        (october - timedelta(hours=7), october + timedelta(days=31, hours=-7)),
        (october + timedelta(hours=5), october + timedelta(days=31, hours=5)),
    ]
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        within = [hours[(hours.index >= start) & (hours.index < end)] for start, end in spans]
        found = [read_provenance(connection, LOCATIONS, part, *span) for part, span in zip(within, spans, strict=True)]
        day_before = read_provenance(connection, LOCATIONS, hours, october - timedelta(days=1), None)
        load_month(warehouse, make(FINAL, month="2024-09", hours=700))
        held = read_provenance(connection, LOCATIONS, within[0], *spans[0])
    assert [one.gaps for one in found] == [(), ()]
    # A whole day that was asked for is missing, and so are hours of a month that was loaded.
    assert day_before.gaps != ()
    assert held.missing_hours == {"temperature": 7, "precipitation": 7}


def test_single_missing_hours_are_counted(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-09", hours=700))
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        found = read_provenance(connection, LOCATIONS, hours, None, None)
    assert found.missing_hours == {"temperature": 20, "precipitation": 20}
    assert found.missing_months == {}


def test_without_a_ledger_the_rows_alone_are_told(weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")
    hours = hours_of_cell(weather_table, JAKARTA, None, None)
    location = LocationSet(((JAKARTA.location_id, JAKARTA.location_id + 1),))
    found = read_provenance(weather_table, location, hours, None, None)
    assert (found.months, found.hours, found.preliminary_share) == (2, 71, None)
    assert (found.versions, found.sources) == ({}, {})
    assert (found.unknown_share, found.version_words) == (1.0, "version unknown for 100.0 % of the hours")
    assert found.missing_hours["temperature"] == 1


# Largest difference from a value computed in double precision from kelvin and metres.
DEGREES, MILLIMETRES = 2e-5, 2e-4
ALL = Period()
UTC_DAYS = DayChoice()


@pytest.fixture(scope="module")
def real(real_table: Callable[..., Warehouse]) -> Warehouse:
    """The table with months of four deliveries, on each layout."""
    late = MEKONG.of(*(month for month in MEKONG.months if month >= "2023"))
    return real_table(GULF, NORWAY, PARIS.of(*PARIS.months[:3]), late)


def point(latitude: float, longitude: float, name: str | None = None) -> ClimatePlace:
    location = ERA5_GRID.nearest_location(latitude, longitude)
    return ClimatePlace(name, (latitude, longitude), location, None, None, None)


def ask(warehouse: Warehouse, place: ClimatePlace, period: Period = ALL, choice: DayChoice = UTC_DAYS) -> Any:
    with warehouse.connect() as connection:
        return read_climate(connection, ClimateQuestion(place, period, DEFAULT_BASELINE, choice))


def box(text: str) -> ClimatePlace:
    return ClimatePlace(None, None, None, Area.parse(text), None, None)


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
    alone = ask(real, box("10.75/106.25/10.75/106.25"), Period(date(2024, 1, 1), date(2024, 3, 31)))
    cell = ask(real, point(10.75, 106.25), Period(date(2024, 1, 1), date(2024, 3, 31)))
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
    # Too few days for an index of the year.
    assert answer.yearly["frost_days"].isna().tolist() == [True]
    assert answer.yearly["temperature_whole_days"].tolist() == [31]
    assert (answer.daily["min_temperature"] < 0).sum() == int((degrees.resample(time="1D").min() < 0).sum())
    wettest = {record.name: record for record in answer.records}["wettest_day"]
    assert (wettest.when, wettest.value) == (
        f"{totals.idxmax():%Y-%m-%d}",
        pytest.approx(totals.max(), abs=MILLIMETRES),
    )
    assert "no complete years: a trend needs" not in answer.sentence
    assert "cannot be told from no complete years" in answer.sentence


def test_months_in_paris_have_wind_and_no_precipitation(real: Warehouse, tmp_path: Path) -> None:
    answer = ask(real, point(48.75, 2.25, "Paris, France"))
    hours = gridded(PARIS, tmp_path).sel(time=slice("2024-01", "2024-03"))
    speed = np.hypot(hours["u10"].astype(np.float64), hours["v10"].astype(np.float64)).to_series()
    assert answer.elements == ("temperature", "wind")
    assert answer.yearly.loc[2024, "mean_wind_speed"] == pytest.approx(speed.mean(), abs=1e-6)
    assert_equal(answer.daily["max_wind_speed"], speed.resample("D").max(), 1e-5)
    degrees = hours["t2m"].astype(np.float64).to_series() - 273.15
    assert_equal(answer.daily["min_temperature"], degrees.resample("D").min(), DEGREES)
    assert np.isnan(answer.yearly.loc[2024, "frost_days"])
    assert "no total_precipitation at this place: NULL in every row" in answer.provenance.lines
    assert answer.provenance.gaps == ()
    assert any("3 months do not say whether they are final" in line for line in answer.provenance.lines)


def test_years_in_the_mekong_delta_are_those_of_pandas(real: Warehouse) -> None:
    answer = ask(real, point(10.75, 106.25))
    served = mekong().loc["2023":]
    degrees = served["t2m"] - 273.15
    assert_equal(answer.daily["max_temperature"], degrees.resample("D").max(), DEGREES)
    totals = totals_of_days(served["tp"])
    assert_equal(answer.daily["precipitation"], totals.loc["2023":], MILLIMETRES)
    by_year = degrees.groupby(degrees.index.year).mean()
    assert_equal(answer.yearly["mean_temperature"], by_year, DEGREES)
    years = totals.loc["2023":"2024"].groupby(totals.loc["2023":"2024"].index.year)
    assert_equal(answer.yearly.loc[:2024, "precipitation"], years.sum(), 0.02)
    assert_equal(answer.yearly.loc[:2024, "wet_days"], years.apply(lambda days: (days >= 1).sum()), 0)
    assert_equal(answer.yearly.loc[:2024, "heaviest_day"], years.max(), MILLIMETRES)
    assert answer.yearly["temperature_complete"].tolist() == [True] * 2 + [False]
    assert isinstance(answer.trend_of("mean_temperature"), NoTrend)
    assert (answer.provenance.hours, answer.provenance.months) == (21_168, 29)
    assert answer.provenance.gaps == ()


def test_local_days_are_those_of_pandas_and_say_their_offset(real: Warehouse) -> None:
    period = Period(date(2024, 1, 1), date(2024, 12, 31))
    answer = ask(real, point(10.75, 106.25), period, DayChoice(zone="Asia/Ho_Chi_Minh"))
    served = mekong()
    local = (served["t2m"] - 273.15).shift(freq=pd.Timedelta(hours=7)).loc["2024"]
    assert_equal(answer.daily["min_temperature"], local.resample("D").min(), DEGREES)
    assert_equal(answer.daily["precipitation"], totals_of_days(served["tp"], 7).loc["2024"], MILLIMETRES)
    assert_equal(answer.yearly["mean_temperature"], local.groupby(local.index.year).mean(), DEGREES)
    assert answer.yearly["temperature_hours"].tolist() == [8784]
    assert (answer.days.offset_minutes, answer.days.zone, answer.days.warnings) == (420, "Asia/Ho_Chi_Minh", ())
    assert "UTC+07:00 (standard time of Asia/Ho_Chi_Minh" in answer.notes[0]
    by_offset = ask(real, point(10.75, 106.25), period, DayChoice(offset_minutes=420))
    pd.testing.assert_frame_equal(by_offset.daily, answer.daily)


def test_a_part_hour_is_warned_of(real: Warehouse) -> None:
    period = Period(date(2024, 1, 1), date(2024, 12, 31))
    answer = ask(real, point(10.75, 106.25), period, DayChoice(offset_minutes=330))
    (warning,) = answer.days.warnings
    assert warning.startswith("UTC+05:30 is not a whole number of hours")
    assert warning in answer.notes


def test_a_zone_whose_standard_time_changed_is_warned_of(real: Warehouse) -> None:
    # Almaty went from UTC+06:00 to UTC+05:00 in March 2024, the last full year of the table there.
    answer = ask(real, point(10.75, 106.25), choice=DayChoice(zone="Asia/Almaty"))
    assert answer.days.offset_name == "UTC+05:00"
    (warning,) = answer.days.warnings
    assert_says(warning, "Asia/Almaty", "2023", "UTC+05:00")
    assert warning in answer.notes
    before = ask(real, point(10.75, 106.25), Period(None, date(2023, 12, 31)), DayChoice(zone="Asia/Almaty"))
    assert (before.days.offset_name, before.days.warnings) == ("UTC+06:00", ())


def test_missing_months_of_the_period_are_said(real: Warehouse) -> None:
    answer = ask(real, point(10.75, 106.25), Period(date(2022, 3, 1), date(2023, 12, 31)))
    missing = {
        element: [str(month) for month in months] for element, months in answer.provenance.missing_months.items()
    }
    ten = [f"2022-{number:02d}" for number in range(3, 13)]
    assert missing == {"temperature": ten, "wind": ten, "precipitation": ten}
    assert answer.provenance.gaps == ("no data for 2022-03 to 2022-12",)
    assert answer.yearly.index.tolist() == [2023]


def test_a_place_that_is_not_loaded_says_what_is_and_how_to_load_it(real: Warehouse) -> None:
    with pytest.raises(NoDataError) as raised:
        ask(real, point(-6.2, 106.8, "Jakarta, Indonesia"))
    assert "the table has no data there; the nearest of its" in raised.value.message
    assert "latitude 10.75, longitude 106.25" in raised.value.message
    assert 'era5 load --place "Jakarta, Indonesia"' in raised.value.remedy
    with pytest.raises(NoDataError, match=r"era5 load --lat -6.25 --lon 106.75"):
        ask(real, point(-6.2, 106.8))
    with pytest.raises(NoDataError, match=r"area 1/1/0/2: the table has no data there; the nearest of its"):
        ask(real, box("1/1/0/2"))


def test_a_period_that_is_not_loaded_says_what_is(real: Warehouse) -> None:
    with pytest.raises(NoDataError, match=r"no hour in the period; it holds 2023-01 to 2025-05"):
        ask(real, point(10.75, 106.25), Period(date(1990, 1, 1), date(1995, 12, 31)))
    with pytest.raises(NoDataError, match=r"no hour in the period; it holds 2023-01 to 2025-05"):
        ask(real, point(10.75, 106.25), Period(date(2026, 1, 1), None))
