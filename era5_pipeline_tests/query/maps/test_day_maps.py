"""`query.maps.day_maps`: days of real hours on each layout, against xarray."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.maps.day_maps import read_day_map
from era5_pipeline.query.maps.map_question import DayQuestion, MapStatistic

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
GULF = Area.parse("26.5/50.5/24.5/52")
DAY = date(2023, 7, 15)


@pytest.mark.parametrize("statistic", ["mean", "min", "max"])
def test_a_day_of_instants_is_that_of_00_to_23(connection: Connection, gulf: Any, statistic: MapStatistic) -> None:
    found = read_day_map(connection, DayQuestion(DAY, statistic), TEMPERATURE, GULF)
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
    found = read_day_map(connection, DayQuestion(day, "sum"), RAIN, None)
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
    found = read_day_map(connection, DayQuestion(DAY, "mean"), RAIN, None)
    hours = rain.sel(time=slice("2023-07-15T01", "2023-07-16T00"))
    np.testing.assert_allclose(found.field.values, hours.mean("time").sortby("latitude"), rtol=1e-6, atol=1e-9)
    assert (found.field.unit, found.field.period) == ("mm in an hour", "hour")


def test_an_area_that_is_wider_than_what_is_held_says_so(connection: Connection) -> None:
    found = read_day_map(connection, DayQuestion(DAY, "mean"), TEMPERATURE, Area.parse("27/50/24/52"))
    assert found.field.values.shape == (9, 7)
    assert found.lines == ["no temperature_2m at 54 of 117 grid points of 27/50/24/52"]


def test_the_last_total_of_a_month_comes_with_the_next(connection: Connection) -> None:
    with pytest.raises(NoDataError, match=r"no location has all 24 hours of 2023-07-31.*23 are there") as error:
        read_day_map(connection, DayQuestion(date(2023, 7, 31), "sum"), RAIN, None)
    # August is there, of other places.
    assert (
        error.value.remedy == "The day's last total ends at 00:00 of 2023-08, and comes with that month: load it, too."
    )


@pytest.mark.parametrize(
    ("day", "column", "area", "message"),
    [
        (date(2022, 7, 15), "temperature_2m", None, "2022-07-15: the table has no row of that day; it holds 2023-06"),
        (DAY, "temperature_2m", Area.parse("2/30/0/32"), "no location in 2/30/0/32; the nearest of its 79 is"),
        (DAY, "total_precipitation", GULF, r"total_precipitation is NULL everywhere on 2023-07-15 \(UTC\); what the"),
        (DAY, "snowfall", None, "snowfall is NULL everywhere on 2023-07-15"),
    ],
)
def test_a_day_without_values_says_what_there_is_instead(
    connection: Connection, day: date, column: str, area: Area | None, message: str
) -> None:
    with pytest.raises(NoDataError, match=message):
        read_day_map(connection, DayQuestion(day, "mean"), BY_COLUMN[column], area)


def test_a_location_that_lacks_an_hour_is_grey_and_said(connection: Connection) -> None:
    # On a day that no other test asks for.
    connection.execute("DELETE FROM weather WHERE time = '2023-08-20 09:00+00' AND latitude = 25 AND longitude = 51")
    found = read_day_map(connection, DayQuestion(date(2023, 8, 20), "mean"), TEMPERATURE, GULF)
    assert np.isnan(found.field.values).sum() == 1
    assert np.isnan(found.field.values[2, 2])
    assert found.lines == ["1 of 63 locations have only 23 of 24 hours of 2023-08-20 (UTC)"]
