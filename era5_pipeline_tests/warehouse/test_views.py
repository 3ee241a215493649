"""Tests of `warehouse/views`."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from era5_pipeline.model.cells import land_percent
from era5_pipeline.model.grid import ERA5_GRID, distances_km
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_COLUMNS, VARIABLES
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly_tables import make_ready
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.views import RELATIONS
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.flat_months import COLUMNS, rows_of_file
from era5_pipeline_tests.servers import fresh_database, fresh_role, fresh_warehouse
from era5_pipeline_tests.sql_plans import scans_of
from era5_pipeline_tests.warehouse.loads import ask

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
    with fresh_warehouse(host_url) as warehouse:
        for month in MONTHS:
            load_month(warehouse, flat_months(month, points=(12, 12), names=NAMES, missing=0.02))
        yield warehouse.url


def rows_of(url: str, query: str, zone: str = "Asia/Kolkata") -> list[dict[str, Any]]:
    """Run the query in a session that is not in UTC."""
    with psycopg.connect(url, options=f"-c TimeZone={zone}", row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def days_of(flat_months: FlatMonths, place: tuple[float, float]) -> dict[date, dict[str, Any]]:
    """The days of the place, computed from the files one value after the other."""
    hours: dict[datetime, dict[str, Any]] = {}
    for month in MONTHS:
        flat = flat_months(month, points=(12, 12), names=NAMES, missing=0.02)
        for row in rows_of_file(flat, ERA5_GRID.nearest_location(*place).location_id):
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
    rows = rows_of(loaded, f"SELECT * FROM weather_daily WHERE location_id = era5.at{PLACE} ORDER BY day")
    assert_days(rows, expected)
    assert {row["hours"] for row in rows} == {24}
    # The last hour of May would come with June, that of July comes with August.
    last = {row["day"]: row["total_precipitation_sum_hours"] for row in rows}
    full = max(last.values())
    assert full == 24
    assert min(last[day] for day in last if day.day != 31) >= 20


@pytest.mark.parametrize(("first", "last"), [("2023-07-30", "2023-08-02"), ("2023-05-31", "2023-07-01")])
def test_a_period_has_the_rows_of_the_view(loaded: str, first: str, last: str) -> None:
    of_place = f"WHERE location_id = era5.at{PLACE}"
    rows = rows_of(loaded, f"SELECT * FROM weather_daily('{first}', '{last}') {of_place} ORDER BY day")
    same = rows_of(
        loaded, f"SELECT * FROM weather_daily {of_place} AND day BETWEEN '{first}' AND '{last}' ORDER BY day"
    )
    assert rows == same
    assert len(rows) == (4 if first == "2023-07-30" else 2)


def test_a_period_has_all_places_and_is_empty_if_it_ends_before_it_begins(loaded: str) -> None:
    ((count),) = rows_of(
        loaded,
        "SELECT count(*) AS n, count(DISTINCT location_id) AS places FROM weather_daily('2023-07-04', '2023-07-05')",
    )
    assert count == {"n": 288, "places": 144}
    assert rows_of(loaded, "SELECT * FROM weather_daily('2023-07-05', '2023-07-04')") == []


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
    hours = {row["time"].astimezone(UTC): row for row in rows_of(warehouse.url, "SELECT * FROM weather")}
    rows = {
        row["day"]: row for row in rows_of(warehouse.url, "SELECT * FROM weather_daily('2023-07-31', '2023-08-31')")
    }
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
    assert len(rows_of(warehouse.url, "SELECT temperature_2m_mean FROM weather_daily")) == 62
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("DROP VIEW weather_daily CASCADE")
    load_sample(warehouse, tmp_path, "2023-09", "default,msl")
    ((days),) = rows_of(warehouse.url, "SELECT count(mean_sea_level_pressure_mean) AS days FROM weather_daily")
    assert days == {"days": 61}


@pytest.mark.parametrize("name", ["weather_daily", "weather_monthly"])
def test_a_view_of_that_name_that_is_somebody_elses_is_left_alone(
    warehouse: Warehouse, flat_months: FlatMonths, name: str
) -> None:
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(f"DROP VIEW {name} CASCADE; CREATE VIEW {name} AS SELECT 1 AS mine".encode())
    load_month(warehouse, flat_months("2023-08"))
    assert rows_of(warehouse.url, f"SELECT * FROM {name}") == [{"mine": 1}]


REAL = ROOT / "data" / "era5"


def test_the_variables_of_the_table_have_unit_names_and_months(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", names=("t2m", "tp")))
    load_month(warehouse, flat_months("2024-02", names=("t2m",)))
    by_name = {row["column_name"]: row for row in rows_of(warehouse.url, "SELECT * FROM era5.variable")}
    assert set(by_name) == set(DEFAULT_COLUMNS)
    assert by_name["temperature_2m"] == {
        "column_name": "temperature_2m",
        "unit": "degC",
        "cf_unit": "degC",
        "short_name": "t2m",
        "param_id": 167,
        "cds_name": "2m_temperature",
        "long_name": "2 metre temperature",
        "standard_name": "air_temperature",
        "cell_method": "point",
        "extent": "everywhere",
        "description": "Air temperature 2 m above the surface",
        "first_month": date(2023, 7, 1),
        "last_month": date(2024, 2, 1),
        "months": 2,
    }
    rain = by_name["total_precipitation"]
    assert (rain["unit"], rain["cell_method"], rain["months"]) == ("mm", "sum", 1)
    assert (by_name["zonal_wind_10m"]["cf_unit"], by_name["zonal_wind_10m"]["months"]) == ("m s-1", 0)
    assert by_name["zonal_wind_10m"]["first_month"] is None
    with warehouse.connect() as connection:  # dropped months are not counted
        connection.execute("UPDATE era5.ledger SET dropped_at = now(), state = 'dropped'")
    assert ask(warehouse.url, "SELECT sum(months) FROM era5.variable") == 0


def test_the_catalogue_has_every_variable_and_follows_the_program(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        assert ask(warehouse.url, "SELECT count(*) FROM era5.catalogue") == len(VARIABLES) == 147
        connection.execute("DELETE FROM era5.catalogue WHERE column_name = 'snowfall'")
        connection.execute("UPDATE era5.catalogue SET unit = 'inch' WHERE column_name = 'total_precipitation'")
        ensure_schema(connection)
    units = "SELECT string_agg(unit, ' ') FROM era5.catalogue WHERE column_name IN ('snowfall', 'total_precipitation')"
    assert ask(warehouse.url, units) == "mm mm"


def test_units_can_be_asked_for_by_table_and_column(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    rows = rows_of(warehouse.url, "SELECT * FROM era5.table_column WHERE table_name LIKE 'weather%'")
    units = {(row["table_name"], row["column_name"]): row["unit"] for row in rows}
    assert units["weather", "total_precipitation"] == "mm"
    assert units["weather", "location_id"] is None
    assert units["weather_monthly", "total_precipitation_sum"] == "mm"
    assert units["weather_monthly", "temperature_2m_hours"] == "hours"
    assert units["weather_monthly", "wind_speed_10m_mean"] == "m/s"
    assert units["weather_daily", "wind_direction_10m_prevailing"] == "degrees"
    assert units["weather_daily", "latitude"] == "degrees_north"
    positions = [row["position"] for row in rows if row["table_name"] == "weather"]
    assert sorted(positions) == list(range(1, 11))


def test_missing_hours_are_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    """The real file has one hour of the month: those before it and after it are two runs."""
    file = REAL / "karnataka-2024-01-01T12" / "era5.nc"
    load_month(warehouse, era5_files.flatten([file], "2024-01", tmp_path))
    rows = rows_of(
        warehouse.url, "SELECT * FROM era5.missing_hours WHERE column_name = 'temperature_2m' ORDER BY first_time"
    )
    assert [(row["first_time"], row["last_time"], row["hours"]) for row in rows] == [
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 11, tzinfo=UTC), 12),
        (datetime(2024, 1, 1, 13, tzinfo=UTC), datetime(2024, 1, 31, 23, tzinfo=UTC), 731),
    ]
    assert {row["locations"] for row in rows} == {25}
    assert {row["month"] for row in rows} == {date(2024, 1, 1)}


def test_preliminary_hours_are_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    """The real file is final to 1 October 11:00, and preliminary from 12:00 on, every six hours."""
    file = REAL / "germany-tp-expver-mix" / "data_stream-oper_stepType-accum.nc"
    load_month(warehouse, era5_files.flatten([file], "2025-10", tmp_path))
    rows = rows_of(warehouse.url, "SELECT * FROM era5.preliminary_hours ORDER BY first_time")
    assert rows[0]["first_time"] == datetime(2025, 10, 1, 12, tzinfo=UTC)
    assert {row["column_name"] for row in rows} == {"total_precipitation"}
    assert sum(row["hours"] for row in rows) == 2 + 30 * 4
    assert {row["first_time"].astimezone(UTC).hour for row in rows} == {0, 6, 12, 18}


def test_they_do_not_depend_on_the_search_path(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """A server that reads them as foreign tables has one of pg_catalog alone."""
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url) as connection:
        connection.execute("SET search_path = pg_catalog")
        for query in (
            "SELECT count(*) FROM era5.variable",
            "SELECT count(*) FROM era5.table_column WHERE table_name = 'weather'",
            "SELECT count(*) FROM public.weather_daily WHERE location_id = era5.at(10.25, 20.0)",
            "SELECT count(*) FROM public.weather_daily('2023-07-01', '2023-07-03')",
        ):
            found = connection.execute(query.encode()).fetchone()
            assert found is not None
            assert found[0] > 0


BESIDE = ("weather", "weather_monthly", "weather_daily", "weather_monthly_map")
DROP = "DROP VIEW weather_daily, weather_monthly_map, era5.{} CASCADE".format(", era5.".join(RELATIONS[1:]))


def has_postgis(url: str, schema: str = "public") -> bool:
    """Install PostGIS in a schema of the database, where the server offers it."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgis'").fetchone() is None:
            return False
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        connection.execute(f'CREATE EXTENSION IF NOT EXISTS postgis SCHEMA "{schema}"'.encode())
        return True


def require_postgis(url: str, schema: str = "public") -> None:
    if not has_postgis(url, schema):
        pytest.skip("this server does not offer PostGIS")


def undescribed(url: str) -> list[str]:
    """The relations, columns and functions of the warehouse that have no comment."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT c.oid::regclass::text || coalesce('.' || a.attname, '') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "CROSS JOIN LATERAL (SELECT 0::smallint AS attnum, NULL AS attname UNION ALL SELECT attnum, attname "
            "FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) a "
            "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') "
            "AND (n.nspname = 'era5' OR n.nspname = 'public' AND c.relname = ANY(%s)) "
            "AND NOT EXISTS (SELECT FROM pg_description WHERE objoid = c.oid AND classoid = 'pg_class'::regclass "
            "AND objsubid = a.attnum AND description <> '') "
            "UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE (n.nspname = 'era5' OR p.proname LIKE 'weather%%') AND obj_description(p.oid, 'pg_proc') IS NULL",
            (list(BESIDE),),
        ).fetchall()
    return [name for (name,) in rows]


def views_of(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'v' "
            "AND relnamespace IN ('era5'::regnamespace, 'public'::regnamespace)"
        ).fetchall()
    return {name for (name,) in rows}


OURS = {
    *("variable", "table_column", "missing_hours", "preliminary_hours", "location", "month"),
    *("weather_monthly", "weather_daily"),
}


def test_every_view_and_column_and_function_is_described(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    postgis = has_postgis(warehouse.url)
    for months in (("2023-07", "2023-12"), ("2024-01",)):
        for month in months:
            load_month(warehouse, flat_months(month, names=("t2m", "tp", "u10", "v10")))
        assert undescribed(warehouse.url) == []
    assert views_of(warehouse.url) >= OURS | ({"weather_monthly_map"} if postgis else set())
    # The test itself finds what is not described.
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("COMMENT ON COLUMN era5.month.rows IS NULL")
        connection.execute("CREATE VIEW era5.mine AS SELECT 1 AS one")
    assert sorted(undescribed(warehouse.url)) == ["era5.mine", "era5.mine.one", "era5.month.rows"]


def test_each_value_with_a_unit_says_it(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    has_postgis(warehouse.url)
    load_month(warehouse, flat_months(names=("t2m", "tp", "u10", "v10")))
    with psycopg.connect(warehouse.url) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, type, unit, description FROM era5.table_column "
            "WHERE table_name = ANY(%s) AND type IN ('real', 'double precision')",
            (list(BESIDE),),
        ).fetchall()
    assert len(rows) > 45
    written = {"degrees_north": "Degrees north", "degrees_east": "Degrees east"}
    for table, column, _, unit, description in rows:
        assert unit, (table, column)
        assert written.get(unit, unit) in description, (table, column)


@pytest.mark.parametrize("by", ["era5 db init", "a load"])
def test_a_database_of_an_earlier_version_gets_them(warehouse: Warehouse, flat_months: FlatMonths, by: str) -> None:
    load_month(warehouse, flat_months())
    before = views_of(warehouse.url)
    drop = DROP.replace("weather_monthly_map, ", "")
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(drop.encode())
        connection.execute("DROP TABLE era5.catalogue")
    assert views_of(warehouse.url) == before - {*RELATIONS, "weather_daily"}
    if by == "a load":
        load_month(warehouse, flat_months("2023-08"))
    else:
        with warehouse.connect() as connection:
            ensure_schema(connection)
    assert views_of(warehouse.url) == before
    assert ask(warehouse.url, "SELECT count(*) FROM era5.variable") == 6
    assert undescribed(warehouse.url) == []


def test_a_user_who_may_not_create_them_loads_all_the_same(
    warehouse: Warehouse, host_url: str, flat_months: FlatMonths
) -> None:
    """What the owner made last lacks them, and the owner has not come by."""
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(DROP.replace("weather_monthly_map, ", "").encode())
        connection.execute("DROP TABLE era5.catalogue")
    with fresh_role(warehouse.url) as user, warehouse.connect() as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA era5 TO {user}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA era5, public TO {user}".encode())
        connection.execute(f"SET ROLE {user}".encode())
        ensure_schema(connection)
        connection.execute("RESET ROLE")
    assert not views_of(warehouse.url) & {*RELATIONS, "weather_daily"}


def test_what_is_there_is_not_made_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    has_postgis(warehouse.url)
    load_month(warehouse, flat_months())
    versions = (
        "SELECT array_agg(c.relname || c.xmin::text || coalesce(p.xmin::text, '') ORDER BY c.oid) FROM pg_class c "
        "LEFT JOIN pg_proc p ON p.prorettype = c.reltype WHERE c.relkind = 'v' "
        "AND c.relnamespace IN ('era5'::regnamespace, 'public'::regnamespace)"
    )
    rows = "SELECT array_agg(xmin::text) FROM era5.catalogue"
    land = "SELECT array_agg(xmin::text ORDER BY latitude_index) FROM era5.land"
    before = [ask(warehouse.url, query) for query in (versions, rows, land)]
    load_month(warehouse, flat_months("2023-08"))
    assert [ask(warehouse.url, query) for query in (versions, rows, land)] == before


MAP_COLUMNS = (
    "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
    "WHERE attrelid = to_regclass('{}') AND attnum > 0 AND NOT attisdropped"
)


@pytest.mark.parametrize("schema", ["public", "Geo data"])
def test_a_month_is_a_layer_of_cells(host_url: str, flat_months: FlatMonths, schema: str) -> None:
    with fresh_database(host_url) as url:
        load_month(Warehouse(url), flat_months())
        assert ask(url, "SELECT to_regclass('weather_monthly_map')::text") is None
        require_postgis(url, schema)
        load_month(Warehouse(url), flat_months("2023-08"))
        with psycopg.connect(url) as connection:
            connection.execute(f'SET search_path = public, "{schema}"'.encode())
            assert connection.execute(
                "SELECT f_geometry_column, type, srid FROM geometry_columns WHERE f_table_name = 'weather_monthly_map'"
            ).fetchall() == [("cell", "POLYGON", 4326)]
            rows = connection.execute(
                "SELECT location_id, latitude, longitude, ST_AsText(cell), ST_Area(cell), temperature_2m_mean "
                "FROM weather_monthly_map WHERE month = '2023-08-01' ORDER BY location_id"
            ).fetchall()
            means = connection.execute(
                "SELECT location_id, temperature_2m_mean FROM weather_monthly WHERE month = '2023-08-01'"
            ).fetchall()
        assert [(row[0], row[5]) for row in rows] == sorted(means)
        assert len(rows) == 6
        assert all(row[4] == 0.0625 for row in rows)
        (cell,) = (row for row in rows if row[1:3] == (10.25, 20.0))
        assert cell[3] == "POLYGON((19.875 10.125,19.875 10.375,20.125 10.375,20.125 10.125,19.875 10.125))"


def test_the_cells_of_a_pole_end_there(warehouse: Warehouse) -> None:
    require_postgis(warehouse.url)
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2023, 7), (), timeout_seconds=10, on_wait=print)
        for latitude in (-90.0, 90.0):
            connection.execute(
                "INSERT INTO era5.monthly_summary (location_id, month) VALUES (%s, '2023-07-01')",
                (ERA5_GRID.nearest_location(latitude, 0.0).location_id,),
            )
    query = "SELECT array_agg(ST_AsText(cell) ORDER BY location_id) FROM weather_monthly_map"
    assert ask(warehouse.url, query) == [
        "POLYGON((-0.125 -90,-0.125 -89.875,0.125 -89.875,0.125 -90,-0.125 -90))",
        "POLYGON((-0.125 89.875,-0.125 90,0.125 90,0.125 89.875,-0.125 89.875))",
    ]


def test_a_month_reads_its_summaries_alone(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    require_postgis(warehouse.url)
    for month in ("2022-07", "2023-07"):
        load_month(warehouse, flat_months(month))
    with psycopg.connect(warehouse.url) as connection:
        plan = connection.execute(
            "EXPLAIN SELECT location_id, cell, temperature_2m_mean FROM weather_monthly_map WHERE month = '2023-07-01'"
        ).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "monthly_summary_2023" in text
    assert "monthly_summary_2022" not in text
    assert "monthly_last_hour" not in text


def test_columns_that_a_load_adds_are_there(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    require_postgis(warehouse.url)
    load_month(warehouse, flat_months())
    monthly = ask(warehouse.url, MAP_COLUMNS.format("weather_monthly"))
    assert ask(warehouse.url, MAP_COLUMNS.format("weather_monthly_map")) == monthly.replace(
        "location_id latitude longitude month", "location_id month cell latitude longitude"
    )


GLOBE = ((1, 1_038_241),)
_PART = (
    "INSERT INTO era5.ledger (month, part, state, rows, locations, location_ids, hours, hours_expected, missing_hours, "
    "source, expver, columns, files, warnings, raw_bytes, flat_bytes, flat_file, seconds, versions, fingerprint, "
    "version, checked_at, has_summaries, dropped_at) VALUES (%s, %s, %s, 0, 0, %s::int4multirange, 744, 744, '{}', "
    "'sample', '{}', '[]', '[]', '{}', 0, 0, '{}', '{}', '{}', '', 'final', now(), false, %s)"
)


@pytest.fixture(scope="module")
def made(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with the schema, and an empty ledger."""
    with fresh_warehouse(server_url) as warehouse, warehouse.connect() as connection:
        yield connection


def hold(connection: psycopg.Connection[Any], *parts: tuple[tuple[int, int], ...]) -> None:
    """Let the ledger have parts with these runs of location_id, each in a month of its own."""
    connection.execute("TRUNCATE era5.ledger")
    for number, runs in enumerate(parts):
        text = "{" + ",".join(f"[{first},{end})" for first, end in runs) + "}"
        connection.execute(_PART, (f"{1990 + number}-01-01", 1, "loaded", text, None))


def nearest(connection: psycopg.Connection[Any], latitude: float, longitude: float) -> tuple[Any, ...] | None:
    return connection.execute("SELECT * FROM era5.nearest(%s, %s)", (latitude, longitude)).fetchone()


def test_the_view_has_the_locations_of_the_table(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    load_month(warehouse, flat_months("2023-08", north=-6.0, west=106.75))
    with warehouse.connect() as connection:
        rows = connection.execute("SELECT * FROM era5.location ORDER BY location_id").fetchall()
        held = connection.execute("SELECT DISTINCT location_id, latitude, longitude FROM weather ORDER BY 1").fetchall()
        assert [row[:3] for row in rows] == held
        assert len(rows) == 12
        for row in rows:
            place, column = divmod(row[0] - 1, 1440)
            assert row[3] == pytest.approx(land_percent()[place, column] / 100)
        # 10.25, 20 is in Chad; -6, 107 off the port of Jakarta.
        shares = {(row[1], row[2]): row[3] for row in rows}
        assert shares[10.25, 20.0] == 1.0
        assert 0.0 < shares[-6.0, 107.0] < 1.0
        found = nearest(connection, -6.2, 106.84)
        assert found is not None
        assert found[:3] == (ERA5_GRID.nearest_location(-6.25, 106.75).location_id, -6.25, 106.75)


def test_dropped_parts_are_no_longer_there(made: psycopg.Connection[Any]) -> None:
    hold(made, ((100, 110),))
    made.execute(_PART, ("2020-02-01", 1, "dropped", "{[500,600)}", "2024-01-01Z"))
    assert made.execute("SELECT array_agg(location_id ORDER BY location_id) FROM era5.location").fetchone() == (
        list(range(100, 110)),
    )
    found = nearest(made, -90.0, 0.0)
    assert found is not None
    assert 100 <= found[0] < 110


def test_nothing_loaded_unknown_or_impossible_coordinates_have_no_nearest(made: psycopg.Connection[Any]) -> None:
    hold(made)
    assert nearest(made, -6.2, 106.8) is None
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (0,)
    hold(made, GLOBE)
    assert made.execute("SELECT * FROM era5.nearest(NULL, 1)").fetchone() is None
    assert made.execute("SELECT * FROM era5.nearest(1, NULL)").fetchone() is None
    with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="is out of range"):
        nearest(made, 106.8, -6.2)


def test_of_a_whole_globe_it_is_the_nearest_grid_point(made: psycopg.Connection[Any]) -> None:
    hold(made, GLOBE)
    found = nearest(made, -6.2, 106.8)
    assert found is not None
    assert found[:3] == (483547, -6.25, 106.75)
    # A twentieth of a degree each way: 5.56 km northward, 5.53 km eastward.
    assert found[3] == pytest.approx(7.84, abs=0.01)
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (1_038_240,)


@st.composite
def runs(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """A few runs of location_id: points, parts of rows, and bands of many rows."""
    lengths = st.sampled_from((1, 3, 400, 1440, 5000))
    ids: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(1, 1_038_240))
        ids.extend(range(first, min(first + draw(lengths), 1_038_241)))
    return LocationSet.of_ids(ids).runs


@settings(deadline=None, max_examples=80)
@given(runs(), st.floats(-90, 90), st.floats(-180, 360))
@example(((1, 2),), 90.0, 0.0)
@example(((1, 1441),), 90.0, 0.0)
@example(((1, 1441),), 1e-200, 1e-200)
# On both sides of the date line, which is between the last location of a row and the first.
@example(((519_840, 519_841),), 0.0, -179.75)
@example(((519_000, 520_300),), 0.1, 359.9)
@example(((1, 4000), (1_034_000, 1_038_241)), 0.0, 12.34)
def test_the_nearest_is_that_of_all_distances(
    made: psycopg.Connection[Any], held: tuple[tuple[int, int], ...], latitude: float, longitude: float
) -> None:
    hold(made, held)
    found = nearest(made, latitude, longitude)
    assert found is not None
    location_id, nearest_latitude, nearest_longitude, kilometres = found
    positions = LocationSet(held).ids() - 1
    distances = distances_km(
        latitude, longitude, ERA5_GRID.latitudes_of(positions // 1440), ERA5_GRID.longitudes_of(positions % 1440)
    )
    assert kilometres == pytest.approx(distances.min(), abs=0.05)
    assert location_id in LocationSet(held)
    place, column = divmod(location_id - 1, 1440)
    assert (nearest_latitude, nearest_longitude) == (
        float(ERA5_GRID.latitudes_of(place)),
        float(ERA5_GRID.longitudes_of(column)),
    )
    there = distances[np.searchsorted(positions, location_id - 1)]
    assert kilometres == pytest.approx(there, abs=0.001)


def test_parts_of_several_months_are_searched_together(made: psycopg.Connection[Any]) -> None:
    jakarta, paris = (ERA5_GRID.nearest_location(*point).location_id for point in ((-6.25, 106.75), (48.75, 2.25)))
    hold(made, ((jakarta, jakarta + 1),), ((paris, paris + 1),), ((jakarta, jakarta + 1), (paris, paris + 1)))
    for point, expected in (((-8.0, 110.0), jakarta), ((52.5, 13.4), paris)):
        found = nearest(made, *point)
        assert found is not None
        assert found[0] == expected
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (2,)


def test_every_cell_has_its_percentage(made: psycopg.Connection[Any]) -> None:
    rows = made.execute("SELECT percent FROM era5.land ORDER BY latitude_index").fetchall()
    assert b"".join(row for (row,) in rows) == land_percent().tobytes()


def test_a_database_of_an_earlier_version_gets_locations(server_url: str) -> None:
    with fresh_warehouse(server_url) as warehouse, warehouse.connect() as connection:
        connection.execute("DROP VIEW era5.location; DROP TABLE era5.land; DROP FUNCTION era5.nearest")
        ensure_schema(connection)
        hold(connection, GLOBE)
        assert nearest(connection, 0.0, 0.0) is not None
        assert connection.execute("SELECT land_share FROM era5.location WHERE location_id = 663160").fetchone() == (
            1.0,
        )


@pytest.mark.parametrize("schema", ["public", "Geo data"])
def test_where_postgis_is_installed_the_view_gains_a_geography(host_url: str, schema: str) -> None:
    with fresh_database(host_url) as url, Warehouse(url).connect() as connection:
        ensure_schema(connection)
        columns = (
            "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'era5.location'::regclass"
        )
        assert connection.execute(columns).fetchone() == ("location_id latitude longitude land_share",)
        require_postgis(url, schema)
        ensure_schema(connection)
        assert connection.execute(columns).fetchone() == ("location_id latitude longitude land_share geography geom",)
        comment = "SELECT col_description('era5.location'::regclass, 5)"
        assert connection.execute(comment).fetchone() == ("The point, for PostGIS: ST_DWithin, ST_Distance",)
        hold(connection, ((483_547, 483_548), (600_000, 600_001)))
        connection.execute(f'SET search_path = public, "{schema}"'.encode())
        near = connection.execute(
            "SELECT location_id, ST_AsText(geography), ST_AsText(geom) FROM era5.location "
            "WHERE ST_DWithin(geography, ST_MakePoint(106.8, -6.2)::geography, 10000)"
        ).fetchall()
        assert near == [(483_547, "POINT(106.75 -6.25)", "POINT(106.75 -6.25)")]
