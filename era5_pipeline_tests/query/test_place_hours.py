"""`query.place_hours`: all hours of a location as a table of pandas, on every layout."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import psycopg
import pytest

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.grid import nearest_location
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_VARIABLES
from era5_pipeline.query.place_hours import read_place_hours
from era5_pipeline.query.series import read_series
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

PLACE = nearest_location(10.25, 20.25)
COLUMNS = tuple(BY_COLUMN[name] for name in ("temperature_2m", "total_precipitation", "snowfall"))
MONTHS = ("2023-06", "2023-07", "2023-09")


@pytest.fixture
def loaded(warehouse: Warehouse, flat_months: FlatMonths) -> Warehouse:
    """Three months of six places with values missing, the last of them loaded first."""
    for month in reversed(MONTHS):
        load_month(warehouse, flat_months(month, missing=0.2))
    return warehouse


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


def test_all_hours_are_those_of_the_table_with_nan_for_null(loaded: Warehouse) -> None:
    with loaded.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        hours = read_place_hours(connection, PLACE.location_id, COLUMNS, None, None)
    rows = rows_of(loaded, "1940-01-01Z", "2100-01-01Z")
    assert len(rows) == 24 * (30 + 31 + 30)
    assert hours.index.name == "time"
    assert str(hours.index.dtype) == "datetime64[s, UTC]"
    assert hours.index.tolist() == [time for time, *_ in rows]
    assert list(hours.columns) == [variable.column for variable in COLUMNS]
    assert set(hours.dtypes) == {np.dtype(np.float32)}
    assert same(hours["temperature_2m"], [row[1] for row in rows])
    assert same(hours["total_precipitation"], [row[2] for row in rows])
    assert 0.1 < hours["temperature_2m"].isna().mean() < 0.3
    assert hours["snowfall"].isna().all()


def test_hours_are_those_of_read_series(loaded: Warehouse) -> None:
    start, end = datetime(2023, 6, 15, 7, tzinfo=UTC), datetime(2023, 9, 2, tzinfo=UTC)
    with loaded.connect() as connection:
        hours = read_place_hours(connection, PLACE.location_id, COLUMNS, start, end)
        series = read_series(connection, PLACE, COLUMNS, start, end)
    assert hours.index[0] == pd.Timestamp("2023-06-15T07:00Z")
    assert hours.index[-1] == pd.Timestamp("2023-09-01T23:00Z")
    assert len(hours) == len(rows_of(loaded, "2023-06-15 07:00Z", "2023-09-02Z"))
    assert np.array_equal(hours.index.to_numpy(dtype="datetime64[s]"), series.times)
    for column in hours:
        assert np.array_equal(hours[column].to_numpy(), series.values[str(column)], equal_nan=True)


def test_many_columns_are_read_in_groups(loaded: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded.connect() as connection:
        at_once = read_place_hours(connection, PLACE.location_id, DEFAULT_VARIABLES, None, None)
        monkeypatch.setattr("era5_pipeline.query.packed_hours._COLUMNS_AT_ONCE", 4)
        in_groups = read_place_hours(connection, PLACE.location_id, DEFAULT_VARIABLES, None, None)
    assert list(in_groups.columns) == [variable.column for variable in DEFAULT_VARIABLES]
    assert in_groups.notna().any().sum() == 2
    pd.testing.assert_frame_equal(in_groups, at_once)


def test_the_session_keeps_its_settings(loaded: Warehouse) -> None:
    with loaded.connect() as connection:
        before = connection.execute("SHOW jit").fetchone()
        read_place_hours(connection, PLACE.location_id, COLUMNS, None, None)
        assert connection.execute("SHOW jit").fetchone() == before
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_what_is_missing_is_said(loaded: Warehouse) -> None:
    with loaded.connect() as connection:
        with pytest.raises(NoDataError, match="2023-06 to 2023-07, 2023-09"):
            read_place_hours(
                connection,
                PLACE.location_id,
                COLUMNS,
                datetime(2023, 8, 1, tzinfo=UTC),
                datetime(2023, 9, 1, tzinfo=UTC),
            )
        with pytest.raises(NoDataError, match="nothing there; the nearest of its 6 locations"):
            read_place_hours(connection, 1, COLUMNS, None, None)
        with pytest.raises(NoDataError, match="no column surface_pressure"):
            read_place_hours(connection, PLACE.location_id, (BY_COLUMN["surface_pressure"],), None, None)
        with pytest.raises(UsageError, match="location_id 1038241 is out of range"):
            read_place_hours(connection, 1_038_241, COLUMNS, None, None)
