"""`query.maps.part_maps`: months, seasons, years and anomalies on each layout, against xarray and pandas."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.map_question import AnomalyQuestion, MapStatistic, PartQuestion
from era5_pipeline.query.maps.part_maps import read_anomaly_map, read_part_map
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, YearPart, calendar_month, season
from era5_pipeline_tests.query.maps.conftest import LATE, MADE_IDS, by_year, value_at

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
GULF = Area.parse("26.5/50.5/24.5/52")
MADE = Area.parse("32/-140/31/-139")
JULY, SUMMER = calendar_month(7), season("JJA")
NORMALS = YearSpan(1991, 2020)


@pytest.mark.parametrize("statistic", ["mean", "min", "max"])
@pytest.mark.parametrize(("part", "first", "last"), [(JULY, 7, 7), (SUMMER, 6, 8)], ids=["month", "season"])
def test_a_month_and_a_season_are_those_of_all_hours(
    connection: Connection, gulf: Any, statistic: MapStatistic, part: YearPart, first: int, last: int
) -> None:
    found = read_part_map(connection, PartQuestion(part, 2023, statistic), TEMPERATURE, GULF)
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
    found = read_part_map(connection, PartQuestion(calendar_month(6), 2023, "sum"), RAIN, area)
    hours = rain.where(held, drop=True).sel(time=slice("2023-06-01T01", "2023-07-01T00"))
    assert hours.sizes["time"] == 720
    np.testing.assert_allclose(found.field.values, hours.sum("time").sortby("latitude"), rtol=1e-6)
    assert (found.field.unit, found.field.period) == ("mm in the month", "month")
    assert found.summary == "sum of June 2023, 720 of 720 hours"
    last = read_part_map(connection, PartQuestion(JULY, 2023, "sum"), RAIN, area)
    assert last.summary == "sum of July 2023, 743 of 744 hours"
    assert not [line for line in last.lines if "hours" in line]


def test_an_incomplete_year_is_drawn_and_said(connection: Connection, gulf: Any) -> None:
    found = read_part_map(connection, PartQuestion(WHOLE_YEAR, 2023, "mean"), TEMPERATURE, GULF)
    expected = gulf.sel(time=slice("2023-06-01", "2023-08-31")).mean("time").sortby("latitude")
    np.testing.assert_allclose(found.field.values, expected, rtol=1e-6)
    assert (found.field.kind, found.field.when) == ("year", "2023 (UTC)")
    assert found.lines == ["63 of 63 locations have only 2,208 of 8,760 hours of 2023"]
    assert found.notes == found.lines


@pytest.mark.parametrize(
    ("part", "months"),
    [(JULY, (7,)), (SUMMER, (6, 7, 8)), (WHOLE_YEAR, tuple(range(1, 13)))],
    ids=["month", "season", "year"],
)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_an_anomaly_is_from_the_mean_of_the_complete_years(
    connection: Connection, made: Any, statistic: MapStatistic, part: YearPart, months: tuple[int, ...]
) -> None:
    variable = RAIN if statistic == "sum" else TEMPERATURE
    found = read_anomaly_map(connection, AnomalyQuestion(part, 2020, NORMALS, statistic), variable, MADE)
    for location in MADE_IDS.tolist():
        values = by_year(made, location, months, total=statistic == "sum")
        expected = values[2020] - values[(values.index >= 1991) & (values.index <= 2020)].mean()
        np.testing.assert_allclose(value_at(found.field, location), expected, rtol=1e-4, atol=2e-5)
    assert found.field.is_difference
    assert (found.field.kind, found.field.unit.split()[0]) == ("anomaly", "mm" if statistic == "sum" else "°C")
    assert found.field.when.endswith("(30 complete years)")


def test_the_words_of_an_anomaly(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_anomaly_map(connection, AnomalyQuestion(JULY, 2021, NORMALS, "mean"), TEMPERATURE, None)
    assert found.field.title == "2 m temperature, anomaly"
    assert found.field.when == "July 2021 less the mean of July 1991-2020 (30 complete years)"
    assert found.summary == "anomaly of July 2021 from the mean of July 1991-2020 (30 complete years)"
    # One lacks July 1995, one begins in 2000; one has every second year, and so not 2021.
    assert "2 of 5 locations have only 21 to 29 complete years of the baseline 1991-2020" in found.remarks
    assert (found.start.year, found.end.year) == (1991, 2021)


def test_locations_with_few_years_of_the_baseline_are_grey_and_said(connection: Connection, made: Any) -> None:
    assert len(made)
    # 1999-2010: the late one has eleven of twelve years.
    found = read_anomaly_map(connection, AnomalyQuestion(JULY, 2021, YearSpan(1999, 2010), "mean"), TEMPERATURE, MADE)
    assert np.isfinite(value_at(found.field, LATE))
    shorter = read_anomaly_map(connection, AnomalyQuestion(JULY, 2021, YearSpan(1991, 2005), "mean"), TEMPERATURE, MADE)
    assert np.isnan(value_at(shorter.field, LATE))
    assert any(line.startswith("1 of 5 locations have fewer than 10 complete years") for line in shorter.absent)


def test_a_baseline_that_is_not_there_is_an_error(connection: Connection) -> None:
    with pytest.raises(
        NoDataError, match=r"no anomaly of July: none of the 30 years of the baseline 1951-1980"
    ) as error:
        read_anomaly_map(connection, AnomalyQuestion(JULY, 2023, YearSpan(1951, 1980), "mean"), TEMPERATURE, GULF)
    assert "--baseline FIRST-LAST" in error.value.remedy


def test_an_incomplete_part_has_no_anomaly(connection: Connection) -> None:
    with pytest.raises(NoDataError, match=r"2023 is incomplete: at most 2,208 of 8,760 hours are there"):
        read_anomaly_map(connection, AnomalyQuestion(WHOLE_YEAR, 2023, NORMALS, "mean"), TEMPERATURE, GULF)


@pytest.mark.parametrize(
    ("column", "year", "area", "message"),
    [
        ("temperature_2m", 2022, None, "July 2022: the table has no row of that time; it holds 2023-06 to 2023-08"),
        ("temperature_2m", 2023, Area.parse("2/30/0/32"), "no location in 2/30/0/32; the nearest of its 79 is"),
        ("total_precipitation", 2023, GULF, "total_precipitation is NULL everywhere in July 2023; what the table"),
    ],
)
def test_a_month_without_values_says_what_there_is_instead(
    connection: Connection, column: str, year: int, area: Area | None, message: str
) -> None:
    with pytest.raises(NoDataError, match=message):
        read_part_map(connection, PartQuestion(JULY, year, "mean"), BY_COLUMN[column], area)
