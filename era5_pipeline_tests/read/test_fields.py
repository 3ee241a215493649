"""`read.fields`: one hour on a rectangle of the grid."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model import grid
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.read.boxes import read_field
from era5_pipeline.read.fields import hour_field
from era5_pipeline_tests.weather_table import (
    CLOUD,
    FIJI,
    HOUR,
    JAKARTA,
    NULL,
    SNOWFALL,
    START,
    TEMPERATURE,
    Connection,
    make_table,
    temperature_of,
)


def test_snapshot_has_one_hour_in_one_area(weather_table: Connection) -> None:
    area = grid.Area(-16.0, 179.0, -18.0, -179.0)
    found = read_field(weather_table, START + 5 * HOUR, TEMPERATURE, area)
    assert found.time == START + 5 * HOUR
    assert found.variable is TEMPERATURE
    assert found.latitudes.tolist() == [-17.25, -17.0]
    # Continues past 180 instead of -179.75.
    assert found.longitudes.tolist() == [179.75, 180.0, 180.25]
    for location in FIJI:
        row = found.latitudes.tolist().index(location.latitude)
        column = found.longitudes.tolist().index(location.longitude % 360.0)
        assert found.values[row, column] == temperature_of(location, 5)


def test_snapshot_without_area_covers_all_locations(weather_table: Connection) -> None:
    found = read_field(weather_table, START, TEMPERATURE)
    assert found.values.shape == (len(found.latitudes), len(found.longitudes)) == (45, 295)
    assert (found.latitudes[0], found.latitudes[-1]) == (-17.25, -6.25)
    assert (found.longitudes[0], found.longitudes[-1]) == (106.75, 180.25)
    assert np.isfinite(found.values).sum() == 7
    assert found.values[-1, 0] == temperature_of(JAKARTA, 0)


@pytest.mark.parametrize(
    ("area", "count"), [("-17/180/-17/180", 1), ("-16/-180/-18/-179", 4), ("-16/179/-18/180", 4), ("global", 7)]
)
def test_snapshot_excludes_locations_outside_the_area(weather_table: Connection, area: str, count: int) -> None:
    found = read_field(weather_table, START, TEMPERATURE, grid.Area.parse(area))
    assert np.isfinite(found.values).sum() == count


def test_null_is_nan_in_snapshot(weather_table: Connection) -> None:
    assert np.isnan(read_field(weather_table, START + NULL * HOUR, CLOUD).values).all()
    assert np.isnan(read_field(weather_table, START, SNOWFALL).values).all()


def test_missing_or_empty_table_says_that_no_month_is_loaded(empty_database: Connection) -> None:
    with pytest.raises(NoDataError, match=r"no month has been loaded yet\nLoad a month first"):
        read_field(empty_database, START, TEMPERATURE)
    make_table(empty_database)
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        read_field(empty_database, START, TEMPERATURE)


def test_missing_hour_names_available_hours(weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # the rows alone say it
    later = datetime(2024, 5, 1, tzinfo=UTC)
    expected = r"^2024-05-01 00:00 UTC: .*holds 2023-01-30 00:00 to 2023-02-01 23:00 UTC\n.*era5 load --from 2024-05"
    for area in (None, grid.Area(0.0, 100.0, -10.0, 110.0)):
        with pytest.raises(NoDataError, match=expected):
            read_field(weather_table, later, TEMPERATURE, area)


def test_area_without_locations_names_the_nearest_one(weather_table: Connection) -> None:
    # Across the antimeridian: the degrees are far apart, the locations near.
    expected = r"no location in -10/-170/-30/-160; the nearest of its 7 is .*longitude -179\.75"
    with pytest.raises(NoDataError, match=expected):
        read_field(weather_table, START, TEMPERATURE, grid.Area(-10.0, -170.0, -30.0, -160.0))


indices = st.tuples(st.integers(0, grid.ERA5_GRID.rows - 1), st.integers(0, grid.ERA5_GRID.columns - 1))


@given(points=st.lists(indices, min_size=1, max_size=20, unique=True))
def test_snapshot_is_the_smallest_rectangle_around_any_locations(points: list[tuple[int, int]]) -> None:
    rows, columns = np.array(points, dtype=np.int32).T
    ids = grid.ERA5_GRID.location_ids(rows, columns)
    found = hour_field(START, TEMPERATURE, ids, ids.astype(np.float32), grid.ERA5_GRID)
    assert found.values.shape == (len(found.latitudes), len(found.longitudes))
    np.testing.assert_array_equal(np.diff(found.latitudes), 0.25)
    np.testing.assert_array_equal(np.diff(found.longitudes), 0.25)
    assert -180.0 < found.longitudes[0] <= 180.0
    # Every value is at its location, and there are no others.
    at_rows = (grid.ERA5_GRID.latitudes_of(rows) - found.latitudes[0]) / 0.25
    at_columns = (grid.ERA5_GRID.longitudes_of(columns) - found.longitudes[0]) % 360.0 / 0.25
    np.testing.assert_array_equal(found.values[at_rows.astype(int), at_columns.astype(int)], ids)
    assert np.isfinite(found.values).sum() == len(points)
    # It leaves out the widest gap between two neighbouring longitudes, so it is the smallest rectangle.
    used = np.unique(columns)
    gaps = np.diff(used, append=used[0] + grid.ERA5_GRID.columns)
    assert len(found.longitudes) == grid.ERA5_GRID.columns - gaps.max() + 1
    for border in (found.values[0], found.values[-1], found.values[:, 0], found.values[:, -1]):
        assert np.isfinite(border).any()


def test_complete_parallel_begins_at_the_antimeridian() -> None:
    ids = np.arange(1, grid.ERA5_GRID.columns + 1, dtype=np.int32)
    found = hour_field(START, TEMPERATURE, ids, ids.astype(np.float32), grid.ERA5_GRID)
    assert (found.longitudes[0], found.longitudes[-1]) == (-179.75, 180.0)
