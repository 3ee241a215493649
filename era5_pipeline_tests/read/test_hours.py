"""Tests of `read/hours`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import psycopg
import pytest
from psycopg import sql

from era5_pipeline.model import grid
from era5_pipeline.model.derived_variables import find_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_VARIABLES
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.read import hours
from era5_pipeline.read.fetch import packed
from era5_pipeline.read.hours import prepare_for_reading, read_hours, read_packed, read_place_hours, read_series
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.serving.archive import formulas
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.weather_table import (
    HOUR,
    HOURS,
    JAKARTA,
    MISSING,
    NULL,
    START,
    TEMPERATURE,
    Connection,
    make_table,
    temperature_of,
)

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.read.hours import Hours
    from era5_pipeline_tests.flat_months import FlatMonths

PLACE = ERA5_GRID.nearest_location(10.25, 20.25)
PACKED_PLACE = PLACE.location_id
PACKED_COLUMNS = ("temperature_2m", "total_precipitation")
PACKED_MONTHS = ("2023-06", "2023-07", "2023-09", "2023-10")
PACKED_HOURS = 24 * (30 + 31 + 30 + 31)


@pytest.fixture(scope="module")
def loaded_months(shared_warehouse: Warehouse, flat_months: FlatMonths) -> Warehouse:
    """Four months of six places with values missing, the last of them loaded first; the tests leave them unchanged."""
    for month in reversed(PACKED_MONTHS):
        load_month(shared_warehouse, flat_months(month, missing=0.2))
    return shared_warehouse


@pytest.fixture
def packed_months(loaded_months: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """The same, which are enough for two sessions here."""
    monkeypatch.setattr(hours, "_MONTHS_FOR_TWO", len(PACKED_MONTHS))
    return loaded_months


def assert_same(one: Hours, other: Hours) -> None:
    assert np.array_equal(one[0], other[0])
    assert list(one[1]) == list(other[1])
    for column, values in one[1].items():
        assert np.array_equal(values, other[1][column], equal_nan=True)


def test_two_sessions_read_what_one_reads(packed_months: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[psycopg.Connection] = []

    def connect(url: str, *, autocommit: bool) -> psycopg.Connection:
        opened.append(psycopg.Connection.connect(url, autocommit=autocommit))
        return opened[-1]

    with packed_months.connect() as connection:
        expected = read_packed(connection, PACKED_PLACE, PACKED_COLUMNS, None, None)
        monkeypatch.setattr(psycopg, "connect", connect)
        assert_same(read_hours(connection, PACKED_PLACE, PACKED_COLUMNS, None, None), expected)
    assert expected[0].size == PACKED_HOURS
    assert np.isnan(expected[1]["temperature_2m"]).any()
    assert [one.closed for one in opened] == [True]


def test_a_session_that_is_kept_reads_the_same_in_one_statement(packed_months: Warehouse) -> None:
    start, end = datetime(2023, 6, 20, tzinfo=UTC), datetime(2023, 9, 5, tzinfo=UTC)
    with packed_months.connect() as connection:
        expected = read_packed(connection, PACKED_PLACE, PACKED_COLUMNS, start, end)
        connection.execute("SET default_transaction_read_only = on")
        prepare_for_reading(connection)
        assert_same(read_packed(connection, PACKED_PLACE, PACKED_COLUMNS, start, end, is_prepared=True), expected)
        row = connection.execute("SHOW jit").fetchone()
    assert expected[0].size == 24 * (11 + 31 + 4)
    assert row == ("off",)


def test_a_range_with_few_months_is_read_by_one_session(
    packed_months: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with packed_months.connect() as connection:
        monkeypatch.setattr(psycopg, "connect", pytest.fail)
        times, _ = read_hours(connection, PACKED_PLACE, PACKED_COLUMNS, datetime(2023, 7, 5, tzinfo=UTC), None)
    assert times.size == PACKED_HOURS - 24 * (30 + 4)


def test_where_a_second_session_is_refused_the_first_reads_all(packed_months: Warehouse) -> None:
    with fresh_role(packed_months.url, "PASSWORD 'secret' CONNECTION LIMIT 1") as role:
        name = sql.Identifier(role)
        with packed_months.connect() as owner:
            owner.execute(sql.SQL("GRANT SELECT ON weather TO {}").format(name))
            owner.execute(sql.SQL("GRANT USAGE ON SCHEMA era5 TO {}").format(name))
            owner.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA era5 TO {}").format(name))
            expected = read_packed(owner, PACKED_PLACE, PACKED_COLUMNS, None, None)
        with psycopg.connect(with_user(packed_months.url, role), password="secret", autocommit=True) as reader:
            assert_same(read_hours(reader, PACKED_PLACE, PACKED_COLUMNS, None, None), expected)


def test_without_a_ledger_one_session_reads_all(packed_months: Warehouse) -> None:
    with packed_months.connect() as connection:
        expected = read_packed(connection, PACKED_PLACE, PACKED_COLUMNS, None, None)
        connection.execute("ALTER SCHEMA era5 RENAME TO elsewhere")
        try:
            assert_same(read_hours(connection, PACKED_PLACE, PACKED_COLUMNS, None, None), expected)
        finally:
            connection.execute("ALTER SCHEMA elsewhere RENAME TO era5")


def test_where_only_the_first_session_finds_the_table_it_reads_all(packed_months: Warehouse) -> None:
    with packed_months.connect() as connection:
        expected = read_packed(connection, PACKED_PLACE, PACKED_COLUMNS, None, None)
        connection.execute("CREATE SCHEMA elsewhere")
        connection.execute("ALTER TABLE weather SET SCHEMA elsewhere")
        connection.execute("SET search_path = elsewhere")
        try:
            assert_same(read_hours(connection, PACKED_PLACE, PACKED_COLUMNS, None, None), expected)
        finally:
            connection.execute("ALTER TABLE weather SET SCHEMA public")
            connection.execute("DROP SCHEMA elsewhere")


def test_series_has_all_hours_of_a_location_ordered_by_time(weather_table: Connection) -> None:
    found = read_series(weather_table, JAKARTA, DEFAULT_VARIABLES, None, None)
    hours = [hour for hour in range(HOURS) if hour != MISSING]
    assert found.times.tolist() == [(START + hour * HOUR).replace(tzinfo=None) for hour in hours]
    assert list(found.values) == [variable.column for variable in DEFAULT_VARIABLES]
    assert {values.dtype for values in found.values.values()} == {np.dtype(np.float32)}
    assert found.values["temperature_2m"].tolist() == [temperature_of(JAKARTA, hour) for hour in hours]
    assert np.flatnonzero(np.isnan(found.values["total_cloud_cover"])).tolist() == [NULL]
    assert found.values["total_cloud_cover"][0] == np.float32(0.1)
    assert np.isnan(found.values["snowfall"]).all()


WINDS = [(0, -3), (3, 0), (0, 4), (-5, 0), (-0.0, -2), (3, 4), (0, 0), (None, 1), (1e-3, -1e-3), (-12.34, 5.67)]


def test_wind_is_computed_from_its_components(weather_table: Connection) -> None:
    asked = find_columns("wind_speed_10m,wind_direction_10m")
    with weather_table.transaction(force_rollback=True):
        for hour, (east, north) in enumerate(WINDS):
            weather_table.execute(
                "UPDATE weather SET zonal_wind_10m = %s, meridional_wind_10m = %s WHERE location_id = %s AND time = %s",
                (east, north, JAKARTA.location_id, START + hour * HOUR),
            )
        found = read_series(weather_table, JAKARTA, asked, START, START + len(WINDS) * HOUR)
    speed, direction = found.values["wind_speed_10m"], found.values["wind_direction_10m"]
    assert list(found.values) == ["wind_speed_10m", "wind_direction_10m"]
    # From the north, the west, the south, the east, and the north again; calm air has no direction, NULL has neither.
    assert direction[:5].tolist() == [360, 270, 180, 90, 360]
    assert speed[:7].tolist() == [3, 3, 4, 5, 2, 5, 0]
    assert np.flatnonzero(np.isnan(direction)).tolist() == [6, 7]
    assert np.flatnonzero(np.isnan(speed)).tolist() == [7]
    # HTTP's formulas, but for calm air.
    east, north = np.array(WINDS, dtype=np.float32).T
    np.testing.assert_allclose(speed, formulas.wind_speed(east, north), rtol=1e-6)
    others = [hour for hour in range(len(WINDS)) if hour != 6]
    np.testing.assert_allclose(direction[others], formulas.wind_direction(east, north)[others], rtol=1e-6)


def test_without_a_component_there_is_no_wind(weather_table: Connection) -> None:
    with pytest.raises(
        NoDataError,
        match=r"no column zonal_wind_100m or meridional_wind_100m, of which wind_speed_100m would be computed: .*"
        r"\n.*--variables default,zonal_wind_100m,meridional_wind_100m",
    ):
        read_series(weather_table, JAKARTA, find_columns("wind_speed_100m"), None, None)


def test_series_reads_only_partitions_of_its_range(weather_table: Connection) -> None:
    columns = packed("temperature_2m")
    statement = psycopg.sql.SQL("EXPLAIN " + read_sql("series")).format(columns=columns)
    parameters = {"location_id": 1, "start": START, "end": START + HOUR}
    plan = str(weather_table.execute(statement, parameters).fetchall())
    assert "weather_01" in plan
    assert "weather_02" not in plan


def test_missing_or_empty_table_says_that_no_month_is_loaded(empty_database: Connection) -> None:
    with pytest.raises(NoDataError, match=r"no month has been loaded yet\nLoad a month first"):
        read_series(empty_database, JAKARTA, (TEMPERATURE,), None, None)
    make_table(empty_database)
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        read_series(empty_database, JAKARTA, (TEMPERATURE,), None, None)


def test_missing_time_names_available_hours(weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # the rows alone say it
    later = datetime(2024, 5, 1, tzinfo=UTC)
    expected = (
        r"location 483547 \(latitude -6.25, longitude 106.75\)"
        r".* from 2024-05-01 00:00 to before 2024-05-01 01:00 UTC; "
        r"it holds 2023-01-30 00:00 to 2023-02-01 23:00 UTC\nAsk for a time within that"
    )
    with pytest.raises(NoDataError, match=expected):
        read_series(weather_table, JAKARTA, (TEMPERATURE,), later, later + HOUR)


def test_missing_location_names_the_nearest_one(weather_table: Connection) -> None:
    expected = r"longitude -179\).*no data there.*nearest of its 7 locations is latitude -17, longitude -179.75"
    with pytest.raises(NoDataError, match=expected):
        read_series(weather_table, grid.ERA5_GRID.nearest_location(-17.0, -179.0), (TEMPERATURE,), None, None)


COLUMNS = tuple(BY_COLUMN[name] for name in ("temperature_2m", "total_precipitation", "snowfall"))


def rows_of(warehouse: Warehouse, start: str, end: str) -> list[tuple[datetime, float | None, float | None]]:
    """The rows of the place, without the reader that is tested."""
    with psycopg.connect(warehouse.url, options="-c TimeZone=UTC") as connection:
        return connection.execute(
            "SELECT time, temperature_2m, total_precipitation FROM weather "
            "WHERE location_id = %s AND time >= %s AND time < %s ORDER BY time",
            (PLACE.location_id, start, end),
            binary=True,
        ).fetchall()


def same(found: pd.Series, expected: list[float | None]) -> bool:
    return bool(np.array_equal(found.to_numpy(), np.array(expected, dtype=np.float32), equal_nan=True))


def test_all_hours_are_those_of_the_table_with_nan_for_null(loaded_months: Warehouse) -> None:
    with loaded_months.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        hours = read_place_hours(connection, PLACE, COLUMNS, None, None)
    rows = rows_of(loaded_months, "1940-01-01Z", "2100-01-01Z")
    assert len(rows) == PACKED_HOURS
    assert hours.index.name == "time"
    assert str(hours.index.dtype) == "datetime64[s, UTC]"
    assert hours.index.tolist() == [time for time, *_ in rows]
    assert list(hours.columns) == [variable.column for variable in COLUMNS]
    assert set(hours.dtypes) == {np.dtype(np.float32)}
    assert same(hours["temperature_2m"], [row[1] for row in rows])
    assert same(hours["total_precipitation"], [row[2] for row in rows])
    assert 0.1 < hours["temperature_2m"].isna().mean() < 0.3
    assert hours["snowfall"].isna().all()


def test_hours_are_those_of_read_series(loaded_months: Warehouse) -> None:
    start, end = datetime(2023, 6, 15, 7, tzinfo=UTC), datetime(2023, 9, 2, tzinfo=UTC)
    with loaded_months.connect() as connection:
        hours = read_place_hours(connection, PLACE, COLUMNS, start, end)
        series = read_series(connection, PLACE, COLUMNS, start, end)
    assert hours.index[0] == pd.Timestamp("2023-06-15T07:00Z")
    assert hours.index[-1] == pd.Timestamp("2023-09-01T23:00Z")
    assert len(hours) == len(rows_of(loaded_months, "2023-06-15 07:00Z", "2023-09-02Z"))
    assert np.array_equal(hours.index.to_numpy(dtype="datetime64[s]"), series.times)
    for column in hours:
        assert np.array_equal(hours[column].to_numpy(), series.values[str(column)], equal_nan=True)


def test_many_columns_are_read_in_groups(loaded_months: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded_months.connect() as connection:
        at_once = read_place_hours(connection, PLACE, DEFAULT_VARIABLES, None, None)
        monkeypatch.setattr("era5_pipeline.read.hours._COLUMNS_AT_ONCE", 4)
        in_groups = read_place_hours(connection, PLACE, DEFAULT_VARIABLES, None, None)
    assert list(in_groups.columns) == [variable.column for variable in DEFAULT_VARIABLES]
    assert in_groups.notna().any().sum() == 2
    pd.testing.assert_frame_equal(in_groups, at_once)


def test_the_session_keeps_its_settings(loaded_months: Warehouse) -> None:
    with loaded_months.connect() as connection:
        before = connection.execute("SHOW jit").fetchone()
        read_place_hours(connection, PLACE, COLUMNS, None, None)
        assert connection.execute("SHOW jit").fetchone() == before
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_is_missing_is_said(loaded_months: Warehouse) -> None:
    with loaded_months.connect() as connection:
        place = ERA5_GRID.location(PACKED_PLACE)
        with pytest.raises(NoDataError, match="2023-06 to 2023-07, 2023-09 to 2023-10"):
            read_place_hours(connection, place, COLUMNS, *(datetime(2023, n, 1, tzinfo=UTC) for n in (8, 9)))
        with pytest.raises(NoDataError, match="no data there; the nearest of its 6 locations"):
            read_place_hours(connection, ERA5_GRID.location(1), COLUMNS, None, None)
        with pytest.raises(NoDataError, match="no column surface_pressure"):
            read_place_hours(connection, PLACE, (BY_COLUMN["surface_pressure"],), None, None)
