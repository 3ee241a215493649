"""Maps from a question to their field, and what they say of their values and of what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from era5_pipeline.climate.answer import Trend, YearSpan
from era5_pipeline.climate.cells import CellValues
from era5_pipeline.climate.question import WHOLE_YEAR, CellStatistic, YearPart, calendar_month, season
from era5_pipeline.climate.trends import trend_of
from era5_pipeline.draw.figures import save_figure
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.maps.question import (
    AnomalyQuestion,
    DayQuestion,
    HourQuestion,
    MapQuestion,
    PeriodQuestion,
    TrendQuestion,
)
from era5_pipeline.maps.read import (
    MapAnswer,
    describe_incomplete_locations,
    describe_short_records,
    read_map,
    unit_words,
)
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.variables import BY_COLUMN, Variable
from era5_pipeline.read.boxes import read_field
from era5_pipeline.read.fields import placed
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.maps.conftest import FEW_YEARS, LATE, MADE_IDS, NEVER_CHANGES, by_year, value_at

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from era5_pipeline.climate.question import CellStatistic
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

    Connection = psycopg.Connection[Any]


TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
GULF, MADE = Area.parse("26.5/50.5/24.5/52"), Area.parse("32/-140/31/-139")
YEARS, JULY = YearSpan(1991, 2020), calendar_month(7)
DAY, NOON = date(2023, 7, 15), datetime(2023, 7, 15, 12, tzinfo=UTC)
PARTS = [(WHOLE_YEAR, tuple(range(1, 13))), (season("JJA"), (6, 7, 8)), (JULY, (7,))]


@pytest.mark.parametrize("statistic", ["mean", "min", "max"])
def test_a_day_of_instants_is_that_of_00_to_23(connection: Connection, gulf: Any, statistic: CellStatistic) -> None:
    found = read_map(connection, DayQuestion(DAY, statistic), TEMPERATURE, GULF)
    expected = getattr(gulf.sel(time="2023-07-15"), statistic)("time").sortby("latitude")
    np.testing.assert_array_equal(found.field.latitudes, expected.latitude)
    np.testing.assert_array_equal(found.field.longitudes, expected.longitude)
    np.testing.assert_allclose(found.field.values, expected, rtol=1e-6)
    words = {"mean": "mean", "min": "lowest hour", "max": "highest hour"}[statistic]
    assert (found.field.kind, found.field.unit) == ("day", "°C")
    assert found.field.title == f"2 m temperature, {words} of the day"
    assert found.field.when == "Sat 15 Jul 2023 (UTC)"
    assert found.lines == []
    assert (found.start, found.end) == (datetime(2023, 7, 15, tzinfo=UTC), datetime(2023, 7, 16, tzinfo=UTC))
    assert not found.field.is_difference


@pytest.mark.parametrize("day", [date(2023, 7, 19), date(2023, 6, 30)])
def test_a_days_total_is_of_the_hours_that_end_from_01_to_24(connection: Connection, rain: Any, day: date) -> None:
    found = read_map(connection, DayQuestion(day, "sum"), RAIN, None)
    start = np.datetime64(day)
    hours = rain.sel(time=slice(start + np.timedelta64(1, "h"), start + np.timedelta64(24, "h")))
    assert hours.sizes["time"] == 24
    np.testing.assert_allclose(found.field.values, hours.sum("time").sortby("latitude"), rtol=1e-6, atol=1e-9)
    assert found.field.values.max() > 0.4
    assert (found.field.unit, found.field.period) == ("mm in the day", "day")
    assert found.field.title == "Precipitation, total of the day"
    # The places around Qatar are in the table, too, without precipitation.
    month = f"{day:%Y-%m}"
    assert found.lines == [
        f"no total_precipitation at 63 of 79 places that the table holds in {month}: 26.5/50.5/24.5/52"
    ]
    assert found.notes == [f"Grey: no data; {found.lines[0]}"]


def test_the_mean_of_totals_is_that_of_an_hour(connection: Connection, rain: Any) -> None:
    found = read_map(connection, DayQuestion(DAY, "mean"), RAIN, None)
    hours = rain.sel(time=slice("2023-07-15T01", "2023-07-16T00"))
    np.testing.assert_allclose(found.field.values, hours.mean("time").sortby("latitude"), rtol=1e-6, atol=1e-9)
    assert (found.field.unit, found.field.period) == ("mm in an hour", "hour")


def test_an_area_that_is_wider_than_what_is_held_says_so(connection: Connection) -> None:
    found = read_map(connection, DayQuestion(DAY, "mean"), TEMPERATURE, Area.parse("27/50/24/52"))
    assert found.field.values.shape == (9, 7)
    assert found.lines == ["no temperature_2m at 54 of 117 grid points of 27/50/24/52"]


def test_the_last_total_of_a_month_comes_with_the_next(connection: Connection) -> None:
    with pytest.raises(NoDataError, match=r"no location has all 24 hours of 2023-07-31.*23 are there") as error:
        read_map(connection, DayQuestion(date(2023, 7, 31), "sum"), RAIN, None)
    # August is there, of other places.
    assert_says(error.value.remedy, "last total", "00:00 of 2023-08", "load it")


@pytest.mark.parametrize(
    ("question", "column", "area", "message"),
    [
        (
            DayQuestion(date(2022, 7, 15), "mean"),
            "temperature_2m",
            None,
            "for that day; it holds 2023-06",
        ),
        (DayQuestion(DAY, "mean"), "total_precipitation", GULF, r"is NULL everywhere on 2023-07-15 \(UTC\); what the"),
        (DayQuestion(DAY, "mean"), "snowfall", None, "snowfall is NULL everywhere on 2023-07-15"),
        (PeriodQuestion(JULY, 2022, "mean"), "temperature_2m", None, "July 2022: .* it holds 2023-06 to 2023-08"),
        (PeriodQuestion(JULY, 2023, "mean"), "total_precipitation", GULF, "is NULL everywhere in July 2023; what the"),
        *(
            (question, "temperature_2m", Area.parse("2/30/0/32"), "no location in 2/30/0/32; the nearest of its 79 is")
            for question in (DayQuestion(DAY, "mean"), PeriodQuestion(JULY, 2023, "mean"))
        ),
    ],
)
def test_without_values_it_says_what_there_is_instead(
    connection: Connection, question: MapQuestion, column: str, area: Area | None, message: str
) -> None:
    with pytest.raises(NoDataError, match=message):
        read_map(connection, question, BY_COLUMN[column], area)


def test_a_location_that_lacks_an_hour_is_grey_and_said(connection: Connection) -> None:
    # On a day that no other test asks for.
    connection.execute("DELETE FROM weather WHERE time = '2023-08-20 09:00+00' AND latitude = 25 AND longitude = 51")
    found = read_map(connection, DayQuestion(date(2023, 8, 20), "mean"), TEMPERATURE, GULF)
    assert np.isnan(found.field.values).sum() == 1
    assert np.isnan(found.field.values[2, 2])
    assert found.lines == ["1 of 63 locations have only 23 of 24 hours of 2023-08-20 (UTC)"]


@pytest.mark.parametrize("statistic", ["mean", "min", "max"])
@pytest.mark.parametrize(("part", "first", "last"), [(JULY, 7, 7), (season("JJA"), 6, 8)], ids=["month", "season"])
def test_a_month_and_a_season_are_those_of_all_hours(
    connection: Connection, gulf: Any, statistic: CellStatistic, part: YearPart, first: int, last: int
) -> None:
    found = read_map(connection, PeriodQuestion(part, 2023, statistic), TEMPERATURE, GULF)
    hours = gulf.sel(time=slice(f"2023-{first:02d}-01", f"2023-{last:02d}-31"))
    expected = getattr(hours, statistic)("time").sortby("latitude")
    np.testing.assert_array_equal(found.field.latitudes, expected.latitude)
    np.testing.assert_array_equal(found.field.longitudes, expected.longitude)
    np.testing.assert_allclose(found.field.values, expected, rtol=1e-6)
    assert found.field.unit == "°C"
    assert found.field.when == ("July 2023 (UTC)" if first == last else "June to August 2023 (UTC)")
    count = hours.sizes["time"]
    assert found.summary == f"{statistic} of {found.field.when.removesuffix(' (UTC)')}, {count:,} of {count:,} hours"
    assert found.lines == []
    assert (found.start, found.end.month) == (datetime(2023, first, 1, tzinfo=UTC), last + 1)


def test_a_months_total_ends_with_the_next_months_first_hour(connection: Connection, rain: Any) -> None:
    area = Area.parse("18/77/17/80")
    held = (rain.latitude <= 18) & (rain.latitude >= 17)
    found = read_map(connection, PeriodQuestion(calendar_month(6), 2023, "sum"), RAIN, area)
    hours = rain.where(held, drop=True).sel(time=slice("2023-06-01T01", "2023-07-01T00"))
    assert hours.sizes["time"] == 720
    np.testing.assert_allclose(found.field.values, hours.sum("time").sortby("latitude"), rtol=1e-6)
    assert (found.field.unit, found.field.period) == ("mm in the month", "month")
    assert found.summary == "sum of June 2023, 720 of 720 hours"
    last = read_map(connection, PeriodQuestion(JULY, 2023, "sum"), RAIN, area)
    assert last.summary == "sum of July 2023, 743 of 744 hours"
    assert not [line for line in last.lines if "hours" in line]


def test_an_incomplete_year_is_drawn_and_said(connection: Connection, gulf: Any) -> None:
    found = read_map(connection, PeriodQuestion(WHOLE_YEAR, 2023, "mean"), TEMPERATURE, GULF)
    expected = gulf.sel(time=slice("2023-06-01", "2023-08-31")).mean("time").sortby("latitude")
    np.testing.assert_allclose(found.field.values, expected, rtol=1e-6)
    assert (found.field.kind, found.field.when) == ("year", "2023 (UTC)")
    assert found.lines == ["63 of 63 locations have only 2,208 of 8,760 hours of 2023"]
    assert found.notes == found.lines


@pytest.mark.parametrize(("part", "months"), PARTS, ids=["year", "season", "month"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_an_anomaly_is_from_the_mean_of_the_complete_years(
    connection: Connection, made: Any, statistic: CellStatistic, part: YearPart, months: tuple[int, ...]
) -> None:
    variable = RAIN if statistic == "sum" else TEMPERATURE
    found = read_map(connection, AnomalyQuestion(part, 2020, YEARS, statistic), variable, MADE)
    for location in MADE_IDS.tolist():
        values = by_year(made, location, months, total=statistic == "sum")
        expected = values[2020] - values[(values.index >= 1991) & (values.index <= 2020)].mean()
        np.testing.assert_allclose(value_at(found.field, location), expected, rtol=1e-4, atol=2e-5)
    assert found.field.is_difference
    assert (found.field.kind, found.field.unit.split()[0]) == ("anomaly", "mm" if statistic == "sum" else "°C")
    assert found.field.when.endswith("(30 complete years)")


def test_the_words_of_an_anomaly(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_map(connection, AnomalyQuestion(JULY, 2021, YEARS, "mean"), TEMPERATURE, None)
    assert found.field.title == "2 m temperature, anomaly"
    assert found.field.when == "July 2021 less the mean of July 1991-2020 (30 complete years)"
    assert found.summary == "anomaly of July 2021 from the mean of July 1991-2020 (30 complete years)"
    # One lacks July 1995, one begins in 2000; one has every second year, and so not 2021.
    assert "2 of 5 locations have only 21 to 29 complete years of the baseline 1991-2020" in found.remarks
    assert (found.start.year, found.end.year) == (1991, 2021)


def test_locations_with_few_years_of_the_baseline_are_grey_and_said(connection: Connection, made: Any) -> None:
    assert len(made)
    # 1999-2010: the late one has eleven of twelve years.
    found = read_map(connection, AnomalyQuestion(JULY, 2021, YearSpan(1999, 2010), "mean"), TEMPERATURE, MADE)
    assert np.isfinite(value_at(found.field, LATE))
    shorter = read_map(connection, AnomalyQuestion(JULY, 2021, YearSpan(1991, 2005), "mean"), TEMPERATURE, MADE)
    assert np.isnan(value_at(shorter.field, LATE))
    assert any(line.startswith("1 of 5 locations have fewer than 10 complete years") for line in shorter.absent)


def test_a_baseline_that_is_not_there_is_an_error(connection: Connection) -> None:
    question = AnomalyQuestion(JULY, 2023, YearSpan(1951, 1980), "mean")
    with pytest.raises(NoDataError, match="no anomaly of July: none of the 30 years of the baseline 1951") as error:
        read_map(connection, question, TEMPERATURE, GULF)
    assert "--baseline FIRST-LAST" in error.value.remedy


def test_an_incomplete_part_has_no_anomaly(connection: Connection) -> None:
    with pytest.raises(NoDataError, match=r"2023 is incomplete: at most 2,208 of 8,760 hours are there"):
        read_map(connection, AnomalyQuestion(WHOLE_YEAR, 2023, YEARS, "mean"), TEMPERATURE, GULF)


@pytest.mark.parametrize(("part", "months"), PARTS, ids=["year", "season", "month"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_a_trend_is_that_of_each_place(
    connection: Connection, made: Any, part: YearPart, months: tuple[int, ...], statistic: CellStatistic
) -> None:
    variable = RAIN if statistic == "sum" else TEMPERATURE
    found = read_map(connection, TrendQuestion(part, YEARS, statistic), variable, None)
    field = found.field
    assert field.stippled is not None
    marks = dict(zip(field.values[np.isfinite(field.values)], field.stippled[np.isfinite(field.values)], strict=True))
    drawn = 0
    significant: dict[int, tuple[float, bool]] = {}
    for location in MADE_IDS.tolist():
        values = by_year(made, location, months, total=statistic == "sum")
        values = values[(values.index >= 1991) & (values.index <= 2020)]
        slope = value_at(field, location)
        expected = trend_of(values)
        if location == NEVER_CHANGES:
            assert slope == 0.0
            drawn += 1
        elif isinstance(expected, Trend):
            fitted = stats.linregress(values.index.to_numpy(dtype=float), values.to_numpy())
            np.testing.assert_allclose(slope, 10 * fitted.slope, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(slope, expected.slope, rtol=1e-4, atol=1e-4)
            significant[location] = (expected.p, bool(marks[np.float32(slope)]))
            drawn += 1
        else:
            assert location == FEW_YEARS
            assert np.isnan(slope)
    assert drawn == 5
    p, is_marked = zip(*significant.values(), strict=True)
    assert is_marked == tuple(stats.false_discovery_control(p) <= 0.1)
    unit = {"mean": "°C per decade", "sum": f"mm in the {part.period}, per decade"}[statistic]
    assert (field.kind, field.unit, field.is_difference) == ("trend", unit, True)
    assert "1 of 6 locations have fewer than 20 complete years" in " ".join(found.absent)


def test_the_words_of_a_trend(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_map(connection, TrendQuestion(season("JJA"), YEARS, "mean"), TEMPERATURE, None)
    assert found.field.title == "2 m temperature, trend"
    assert (
        found.field.when
        == "June to August 1991-2020, 30 complete years; dots: significant (false discovery rate 10 %), pale: not"
    )
    assert found.summary.startswith("trend of June to August 1991-2020 (30 complete years), significant at ")
    assert found.counted.endswith(" degC per decade")
    assert (found.start.year, found.end.year) == (1991, 2020)


def test_years_that_lack_are_said(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_map(connection, TrendQuestion(WHOLE_YEAR, YearSpan(1985, 2020), "mean"), TEMPERATURE, None)
    assert "30 of 36 years are complete; left out of the trend: 1985-1990" in found.remarks
    winter = read_map(connection, TrendQuestion(season("DJF"), YEARS, "mean"), TEMPERATURE, None)
    # December 1990 is not there.
    assert "29 of 30 years are complete; left out of the trend: 1991" in winter.remarks


@pytest.mark.parametrize(
    ("years", "area", "message"),
    [
        (YearSpan(2001, 2023), GULF, "a trend needs 20 complete years of 2001-2023; no location has any"),
        (YearSpan(2021, 2041), None, r"20 complete years of 2021-2041; the location with the most has 1 \(2021\)"),
        (YearSpan(1951, 1980), None, "1951-1980: the table has no row for that time; it holds 2023-06 to 2023-08"),
    ],
)
def test_too_few_years_are_an_error(
    connection: Connection, made: Any, years: YearSpan, area: Area | None, message: str
) -> None:
    assert len(made)
    with pytest.raises(NoDataError, match=message):
        read_map(connection, TrendQuestion(WHOLE_YEAR, years, "mean"), TEMPERATURE, area)


QUESTIONS: dict[str, tuple[MapQuestion, Variable, Area]] = {
    "hour": (HourQuestion(NOON), TEMPERATURE, GULF),
    "day": (DayQuestion(date(2023, 7, 15), "max"), TEMPERATURE, GULF),
    "month": (PeriodQuestion(JULY, 2023, "mean"), TEMPERATURE, GULF),
    "rain": (PeriodQuestion(JULY, 2020, "sum"), RAIN, MADE),
    "year": (PeriodQuestion(WHOLE_YEAR, 2020, "mean"), TEMPERATURE, MADE),
    "anomaly": (AnomalyQuestion(JULY, 2020, YEARS, "mean"), TEMPERATURE, MADE),
    "rain anomaly": (AnomalyQuestion(JULY, 2020, YEARS, "sum"), RAIN, MADE),
    "trend": (TrendQuestion(WHOLE_YEAR, YEARS, "mean"), TEMPERATURE, MADE),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_kind_is_a_picture_in_its_colours(connection: Connection, made: Any, name: str, tmp_path: Path) -> None:
    assert len(made)
    question, variable, area = QUESTIONS[name]
    reading = read_map(connection, question, variable, area)
    assert reading.field.kind == name.rsplit(maxsplit=1)[-1].replace("rain", "month")
    figure = draw_map(reading.field, credit="a credit line", notes=reading.notes).figure
    low, high = figure.axes[0].images[0].get_clim()
    assert low < high
    assert (low == -high) == reading.field.is_difference == ("anomaly" in name or name == "trend")
    texts = [text.get_text() for text in figure.texts]
    assert texts[:2] == [reading.field.title, reading.field.when]
    assert sum(text.startswith("Grey") for text in texts) <= len(reading.absent)
    # Vectors of each kind in one of two formats.
    for suffix in ("png", "pdf" if list(QUESTIONS).index(name) % 2 else "svg"):
        path = tmp_path / f"map.{suffix}"
        save_figure(draw_map(reading.field, credit="a credit line", notes=reading.notes).figure, path)
        assert 3_000 < path.stat().st_size < 1_500_000
    with Image.open(tmp_path / "map.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    # The cells are coloured: all else is grey, black or white.
    assert (np.ptp(pixels, axis=2) > 25).mean() > 0.02


def test_an_hour_is_its_snapshot(connection: Connection) -> None:
    reading = read_map(connection, HourQuestion(NOON), TEMPERATURE, GULF)
    snapshot = FieldMap.of_hour(read_field(connection, NOON, TEMPERATURE, GULF))
    np.testing.assert_array_equal(reading.field.values, snapshot.values)
    assert (reading.field.title, reading.field.when) == (snapshot.title, snapshot.when)
    assert (reading.field.title, reading.field.when) == ("2 m temperature", "Sat 15 Jul 2023, 12:00 UTC")
    assert reading.summary == "at 2023-07-15 12:00 UTC"
    low, high = snapshot.values.min(), snapshot.values.max()
    assert reading.counted == f"63 locations, {low:.2f} to {high:.2f} degC"


def test_totals_have_the_steps_of_their_period(connection: Connection, made: Any) -> None:
    assert len(made)
    month = read_map(connection, PeriodQuestion(JULY, 2020, "sum"), RAIN, MADE)
    year = read_map(connection, PeriodQuestion(WHOLE_YEAR, 2020, "sum"), RAIN, MADE)
    norms: list[Any] = [draw_map(one.field).figure.axes[0].images[0].norm for one in (month, year)]
    of_month, of_year = norms
    assert list(of_month.boundaries)[:4] == [0.0, 5.0, 10.0, 25.0]
    assert list(of_year.boundaries)[:4] == [0.0, 50.0, 100.0, 250.0]
    # A year of the made places has 12 months of 80 mm, about.
    assert of_year.boundaries[-1] >= year.field.values[np.isfinite(year.field.values)].max()
    assert [one.field.unit for one in (month, year)] == ["mm in the month", "mm in the year"]


def test_of_places_far_apart_the_part_with_most_is_drawn(connection: Connection) -> None:
    alone = read_map(connection, HourQuestion(NOON), TEMPERATURE)
    assert alone.left_out is None
    with connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO weather (time, location_id, latitude, longitude, temperature_2m) "
            "VALUES (%s, era5.at(10.75, 106.25), 10.75, 106.25, 30)",
            (NOON,),
        )
        reading = read_map(connection, HourQuestion(NOON), TEMPERATURE)
        mekong = read_map(connection, HourQuestion(NOON), TEMPERATURE, Area.parse("10.75/106.25/10.75/106.25"))
    assert reading.left_out is not None
    assert reading.left_out.startswith(f"the map shows 63 of 64 places, those of {GULF}; ")
    assert reading.left_out.endswith("--area 10.75/106.25/10.75/106.25")
    assert f"T{reading.left_out[1:]}" in reading.notes
    np.testing.assert_array_equal(reading.field.values, alone.field.values)
    np.testing.assert_array_equal(reading.field.longitudes, alone.field.longitudes)
    # It is no gap.
    assert reading.lines == alone.lines
    assert float(mekong.field.values[0, 0]) == 30.0
    assert mekong.left_out is None


# --- What a map says of its values, and of what is missing ---


def test_months_of_an_earlier_version_need_their_summaries(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, replace(flat_months("2023-07", names=("t2m",)), summaries=None))
    load_month(warehouse, flat_months("2023-06", names=("t2m",)))
    with warehouse.connect() as connection:
        for question in (PeriodQuestion(JULY, 2023, "mean"), AnomalyQuestion(JULY, 2023, YEARS, "mean")):
            with pytest.raises(NoDataError, match="the table holds the hours of 2023-07, and no monthly summ") as error:
                read_map(connection, question, TEMPERATURE)
            assert "era5 db summaries" in error.value.remedy
        year = read_map(connection, PeriodQuestion(WHOLE_YEAR, 2023, "mean"), TEMPERATURE)
        line = "no monthly summaries of 2023-07, whose hours are there: era5 db summaries makes them"
        assert line in year.remarks
        with pytest.raises(NoDataError, match="no location has any; no monthly summaries of 2023-07"):
            read_map(connection, TrendQuestion(WHOLE_YEAR, YearSpan(2001, 2023), "mean"), TEMPERATURE)


def test_a_database_without_the_view_says_how_to_get_it(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", names=("t2m",)))
    with warehouse.connect() as connection:
        connection.execute("DROP VIEW weather_monthly")
        with pytest.raises(NoDataError, match="the database has no monthly summaries of temperature_2m") as error:
            read_map(connection, PeriodQuestion(JULY, 2023, "mean"), TEMPERATURE)
    assert "era5 db summaries" in error.value.remedy


def test_an_empty_database_is_said(empty_warehouse: Warehouse) -> None:
    with empty_warehouse.connect() as connection, pytest.raises(NoDataError, match="the table weather is empty"):
        read_map(connection, PeriodQuestion(JULY, 2023, "mean"), TEMPERATURE)


def test_lines_count_locations_hours_and_years() -> None:
    hours = np.array([744, 743, 100, 20], dtype=np.int32)
    cells = CellValues(np.arange(1, 5, dtype=np.int32), np.ones(4), hours, ERA5_GRID)
    enough = hours > 720
    assert describe_incomplete_locations(cells, enough, 744, "July 2023") == [
        "2 of 4 locations have only 20 to 100 of 744 hours of July 2023"
    ]
    assert describe_incomplete_locations(cells.where(enough), enough[enough], 744, "July 2023") == []
    absent, remarks = describe_short_records(np.array([30, 30, 25, 3]), 10, 30, "complete years")
    assert absent == ["1 of 4 locations have fewer than 10 complete years"]
    assert remarks == ["1 of 4 locations have only 25 complete years"]
    assert describe_short_records(np.array([30, 30]), 10, 30, "complete years") == ([], [])


TIME = datetime(2023, 7, 1, tzinfo=UTC)


def reading_of(values: list[float], *, is_difference: bool) -> MapAnswer:
    ids = np.arange(700_001, 700_001 + len(values), dtype=np.int32)
    window, found = placed(ids, np.array(values), ERA5_GRID)
    field = FieldMap(
        kind="anomaly" if is_difference else "month",
        variable=TEMPERATURE,
        window=window,
        values=found,
        unit="°C",
        title="2 m temperature",
        when="July 2023",
        is_difference=is_difference,
    )
    return MapAnswer(field, ("1 place lacks hours",), ("only 12 years",), TIME, TIME, "mean of July 2023")


def test_values_are_counted_and_rounded_by_what_they_are() -> None:
    values = reading_of([20.126, float("nan"), -3.004], is_difference=False)
    assert values.counted == "2 locations, -3.00 to 20.13 degC"
    assert reading_of([0.5, -0.001], is_difference=True).counted == "2 locations, +0.00 to +0.50 degC"
    assert reading_of([0.0123, -0.02], is_difference=True).counted == "2 locations, -0.0200 to +0.0123 degC"


def test_only_notes_of_grey_places_say_that_they_are() -> None:
    reading = reading_of([1.0], is_difference=False)
    assert reading.lines == ["1 place lacks hours", "only 12 years"]
    assert reading.notes == ["Grey: no data; 1 place lacks hours", "Only 12 years"]


@pytest.mark.parametrize(
    ("column", "statistic", "period", "unit"),
    [
        ("temperature_2m", "mean", "day", "°C"),
        ("total_precipitation", "sum", "day", "mm in the day"),
        ("total_precipitation", "sum", "season", "mm in the season"),
        ("total_precipitation", "max", "month", "mm in an hour"),
        ("surface_solar_radiation_downwards", "sum", "month", "J m⁻² in the month"),
        ("total_cloud_cover", "mean", "month", "fraction"),
    ],
)
def test_units_say_over_which_time_totals_are(column: str, statistic: CellStatistic, period: str, unit: str) -> None:
    assert unit_words(BY_COLUMN[column], statistic, period) == unit
