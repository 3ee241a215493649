"""`query.series`: the hours of one location."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import psycopg
import pytest

from era5_pipeline.model import grid
from era5_pipeline.model.derived_variables import find_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.query.packed_hours import packed
from era5_pipeline.query.series import read_series
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.serving.archive.variables import formulas
from era5_pipeline_tests.weather_table import (
    FIJI,
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


def test_series_includes_start_and_excludes_end(weather_table: Connection) -> None:
    found = read_series(weather_table, FIJI[0], (TEMPERATURE,), START + 20 * HOUR, START + 50 * HOUR)
    assert list(found.values) == ["temperature_2m"]
    assert found.values["temperature_2m"].tolist() == [temperature_of(FIJI[0], hour) for hour in range(20, 50)]


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
    expected = r"longitude -179\).*nothing there.*nearest of its 7 locations is latitude -17, longitude -179.75"
    with pytest.raises(NoDataError, match=expected):
        read_series(weather_table, grid.nearest_location(-17.0, -179.0), (TEMPERATURE,), None, None)
