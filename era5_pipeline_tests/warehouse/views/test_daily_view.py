"""The view `weather_daily` and its function: their numbers, their plans, and their columns, on every layout."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from statistics import mean
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.flat_months import COLUMNS, rows_of_file
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.sql_plans import scans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

NAMES = ("t2m", "tp", "u10", "v10")
# Three months, the second of them without July's first days' neighbours: 2023-06 is not there.
MONTHS = ("2023-05", "2023-07", "2023-08")
PLACE = (10.25, 20.25)


@pytest.fixture(scope="module")
def loaded(host_url: str, flat_months: FlatMonths) -> Iterator[str]:
    with fresh_database(host_url) as url:
        for month in MONTHS:
            load_month(Warehouse(url), flat_months(month, points=(12, 12), names=NAMES, missing=0.02))
        yield url


def ask(url: str, query: str, zone: str = "Asia/Kolkata") -> list[dict[str, Any]]:
    """Run the query in a session that is not in UTC."""
    with psycopg.connect(url, options=f"-c TimeZone={zone}", row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def days_of(flat_months: FlatMonths, place: tuple[float, float]) -> dict[date, dict[str, Any]]:
    """The days of the place, computed from the files one value after the other."""
    hours: dict[datetime, dict[str, Any]] = {}
    for month in MONTHS:
        for row in rows_of_file(flat_months(month, points=(12, 12), names=NAMES, missing=0.02)):
            values = dict(zip(COLUMNS, row, strict=True))
            if (values["latitude"], values["longitude"]) == place:
                hours[values["time"].astimezone(UTC)] = values
    days: dict[date, dict[str, Any]] = {}
    by_day = defaultdict(list)
    for time in sorted(hours):
        by_day[time.date()].append(time)
    for day, times in by_day.items():
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        warm = [hours[t]["temperature_2m"] for t in times if hours[t]["temperature_2m"] is not None]
        wet = [
            hours[t]["total_precipitation"]
            for t in (midnight + timedelta(hours=hour) for hour in range(1, 25))
            if t in hours and hours[t]["total_precipitation"] is not None
        ]
        winds = [(hours[t]["zonal_wind_10m"], hours[t]["meridional_wind_10m"]) for t in times]
        speeds = [math.hypot(u, v) for u, v in winds if u is not None and v is not None]
        days[day] = {
            "hours": len(times),
            "temperature_2m_mean": math.fsum(warm) / len(warm),
            "temperature_2m_min": min(warm),
            "temperature_2m_max": max(warm),
            "temperature_2m_hours": len(warm),
            "total_precipitation_sum": math.fsum(wet),
            "total_precipitation_sum_hours": len(wet),
            "wind_speed_10m_mean": math.fsum(speeds) / len(speeds),
            "wind_speed_10m_max": max(speeds),
            "snowfall_sum": None,
            "snowfall_sum_hours": 0,
        }
    return days


def assert_days(rows: list[dict[str, Any]], expected: dict[date, dict[str, Any]]) -> None:
    assert [row["day"] for row in rows] == sorted(expected)
    for row in rows:
        for name, value in expected[row["day"]].items():
            wanted = pytest.approx(value, rel=1e-5, abs=1e-5) if isinstance(value, float) else value
            assert row[name] == wanted, (row["day"], name)
        assert (row["latitude"], row["longitude"]) == PLACE


def test_the_days_of_a_place_are_those_of_the_files(loaded: str, flat_months: FlatMonths) -> None:
    expected = days_of(flat_months, PLACE)
    assert len(expected) == 31 + 31 + 31
    rows = ask(loaded, f"SELECT * FROM weather_daily WHERE location_id = era5.at{PLACE} ORDER BY day")
    assert_days(rows, expected)
    assert {row["hours"] for row in rows} == {24}
    # The last hour of May would come with June, that of July comes with August.
    last = {row["day"]: row["total_precipitation_sum_hours"] for row in rows}
    full = max(last.values())
    assert full == 24
    assert min(last[day] for day in last if day.day != 31) >= 20


def test_the_last_hour_of_a_days_total_is_that_of_the_next_day(server_url: str, flat_months: FlatMonths) -> None:
    with fresh_database(server_url) as url:
        for month in ("2023-05", "2023-07", "2023-08"):
            load_month(Warehouse(url), flat_months(month, points=(1, 1), names=("tp",)))
        hours = {
            row["day"].isoformat(): row["total_precipitation_sum_hours"]
            for row in ask(url, "SELECT day, total_precipitation_sum_hours FROM weather_daily")
        }
        assert {day: count for day, count in hours.items() if count != 24} == {"2023-05-31": 23, "2023-08-31": 23}
        assert hours["2023-07-31"] == 24
        # A period ends with the hour that its last day's total needs.
        (row,) = ask(url, "SELECT * FROM weather_daily('2023-07-31', '2023-07-31')")
        (same,) = ask(url, "SELECT * FROM weather_daily WHERE day = '2023-07-31'")
        assert row == same


@pytest.mark.parametrize(("first", "last"), [("2023-07-30", "2023-08-02"), ("2023-05-31", "2023-07-01")])
def test_a_period_has_the_rows_of_the_view(loaded: str, first: str, last: str) -> None:
    of_place = f"WHERE location_id = era5.at{PLACE}"
    rows = ask(loaded, f"SELECT * FROM weather_daily('{first}', '{last}') {of_place} ORDER BY day")
    same = ask(loaded, f"SELECT * FROM weather_daily {of_place} AND day BETWEEN '{first}' AND '{last}' ORDER BY day")
    assert rows == same
    assert len(rows) == (4 if first == "2023-07-30" else 2)


def test_a_period_has_all_places(loaded: str) -> None:
    ((count),) = ask(
        loaded,
        "SELECT count(*) AS n, count(DISTINCT location_id) AS places FROM weather_daily('2023-07-04', '2023-07-05')",
    )
    assert count == {"n": 288, "places": 144}


def test_a_period_that_ends_before_it_begins_is_empty(loaded: str) -> None:
    assert ask(loaded, "SELECT * FROM weather_daily('2023-07-05', '2023-07-04')") == []


# Plans


def test_a_place_and_period_read_few_hours(loaded: str) -> None:
    """144 places: a scan of all would read 107,136 hours of the month."""
    query = f"SELECT * FROM weather_daily('2023-07-10', '2023-07-12') WHERE location_id = era5.at{PLACE}"
    scans = [scan for scan in scans_of(loaded, query) if scan.rows]
    assert 0 < sum(scan.rows for scan in scans) < Month.parse("2023-07").hours * 144 / 10
    assert len({scan.table.removesuffix("_compressed") for scan in scans}) <= 2


def test_a_place_of_the_view_is_found_without_reading_others(loaded: str) -> None:
    for scan in scans_of(loaded, f"SELECT * FROM weather_daily WHERE location_id = era5.at{PLACE}"):
        assert scan.rows < 744 * 144 / 2, scan


def test_what_is_not_asked_for_is_not_computed(loaded: str) -> None:
    with psycopg.connect(loaded) as connection:
        plan = "\n".join(
            row[0]
            for row in connection.execute(
                "EXPLAIN (VERBOSE) SELECT day, temperature_2m_mean FROM weather_daily "
                f"WHERE location_id = era5.at{PLACE}"
            )
        )
    assert "total_precipitation" not in plan.partition("Group Key")[0]
    assert "WindowAgg" not in plan


# Columns


def load_sample(warehouse: Warehouse, home: Path, month: str, variables: str) -> None:
    settings = Settings(_env_file=None, home=home, source="sample", area="-6/106/-6/106", variables=variables)
    with without_pictures():
        run_raw(settings, Month.parse(month))
        run_flat(settings, Month.parse(month))
        run_load(settings, warehouse, Month.parse(month))


def test_variables_that_a_load_adds_are_there_with_comments(warehouse: Warehouse, tmp_path: Path) -> None:
    load_sample(warehouse, tmp_path, "2023-07", "default")
    load_sample(warehouse, tmp_path, "2023-08", "default,d2m,mx2t,mn2t,avg_sdswrf")
    hours = {row["time"].astimezone(UTC): row for row in ask(warehouse.url, "SELECT * FROM weather")}
    rows = {row["day"]: row for row in ask(warehouse.url, "SELECT * FROM weather_daily('2023-07-31', '2023-08-31')")}
    assert len(rows) == 32
    # July's rows lack the variables; its last hour is in August.
    assert rows[date(2023, 7, 31)]["dewpoint_2m_hours"] == 0
    names = ("maximum_temperature_2m", "minimum_temperature_2m", "mean_surface_downward_short_wave_radiation_flux")
    statistics: dict[str, tuple[str, Callable[[list[float]], float]]] = {
        names[0]: ("max", max),
        names[1]: ("min", min),
        names[2]: ("mean", mean),
    }
    for day, row in rows.items():
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        times = [midnight + timedelta(hours=hour) for hour in range(1, 25)]
        for name, (statistic, of) in statistics.items():
            values = [hours[time][name] for time in times if time in hours and hours[time][name] is not None]
            assert row[f"{name}_hours"] == len(values) == {(7, 31): 1, (8, 31): 23}.get((day.month, day.day), 24)
            assert row[f"{name}_{statistic}"] == pytest.approx(of(values), rel=1e-6)
    with psycopg.connect(warehouse.url) as connection:
        rows_of_comments = connection.execute(
            "SELECT attname, col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = 'weather_daily'::regclass AND attnum > 0"
        ).fetchall()
    comments: dict[str, str] = dict(rows_of_comments)
    assert comments["maximum_temperature_2m_max"].endswith(
        "of the hours that end from 01:00 to 00:00 of the next day; degC"
    )
    assert all(comments.values())


def test_a_column_that_somebody_renamed_does_not_stop_loads(warehouse: Warehouse, tmp_path: Path) -> None:
    load_sample(warehouse, tmp_path, "2023-07", "default,d2m")
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE weather RENAME COLUMN dewpoint_2m TO mine")
    load_sample(warehouse, tmp_path, "2023-08", "default,msl")
    assert len(ask(warehouse.url, "SELECT temperature_2m_mean FROM weather_daily")) == 62
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("DROP VIEW weather_daily CASCADE")
    load_sample(warehouse, tmp_path, "2023-09", "default,msl")
    ((days),) = ask(warehouse.url, "SELECT count(mean_sea_level_pressure_mean) AS days FROM weather_daily")
    assert days == {"days": 61}


def test_a_view_of_that_name_that_is_somebody_elses_is_left_alone(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("DROP VIEW weather_daily CASCADE")
        connection.execute("CREATE VIEW weather_daily AS SELECT 1 AS mine")
    load_month(warehouse, flat_months("2023-08"))
    assert ask(warehouse.url, "SELECT * FROM weather_daily") == [{"mine": 1}]
