"""Tests of `flat/monthly`."""

from __future__ import annotations

import math
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from era5_pipeline.flat import monthly
from era5_pipeline.flat.flatten import flatten_month, read_flat_month
from era5_pipeline.flat.monthly import (
    WIND_SPEED,
    is_total,
    mean_wind_speed,
    summary_columns,
)
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline_tests.era5_files import (
    VARIABLES,
    flat_rows,
    flatten,
    hour,
    hours_from,
    raw_month,
    weather,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth

_OF_THE_VIEW = ("location_id", "month", "latitude", "longitude", "month_hours", "wind_direction_10m_prevailing")
# PostgreSQL cuts longer names.
_LONGEST_NAME = 63


def test_no_name_is_too_long_or_stands_for_two_columns() -> None:
    names = [*_OF_THE_VIEW, WIND_SPEED, *(column.name for column in summary_columns(BY_COLUMN))]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= _LONGEST_NAME


def test_totals_alone_have_sums() -> None:
    totals = {column.variable.column for column in summary_columns(BY_COLUMN) if column.statistic == "sum"}
    assert {"total_precipitation", "snowfall", "surface_solar_radiation_downwards", "evaporation"} <= totals
    assert totals.isdisjoint({"temperature_2m", "wind_gust_10m", "maximum_temperature_2m", "snow_density"})
    assert totals == {name for name, variable in BY_COLUMN.items() if is_total(variable)}


TOTALS = ("total_precipitation", "snowfall")


def summaries_of(flat: FlatMonth) -> dict[int, dict[str, Any]]:
    """The summaries in the file, by location."""
    assert flat.summaries is not None
    return {row["location_id"]: row for row in pq.read_table(flat.summaries.path).to_pylist()}


def expected_of(flat: FlatMonth) -> dict[int, dict[str, Any]]:
    """The summaries of the rows in the flat file, value by value."""
    rows = flat_rows(flat.path)
    start = hour(f"{flat.month}-01T00")
    held = flat.column_names
    found: dict[int, dict[str, Any]] = {}
    for location in np.unique(rows.locations).tolist():
        own = rows.locations == location
        hours = rows.hours[own].tolist()
        row: dict[str, Any] = {"location_id": location, "month": date(flat.month.year, flat.month.month, 1)}
        for column in held:
            pairs = [(h, v) for h, v in zip(hours, rows.values[column][own].tolist(), strict=True) if not math.isnan(v)]
            values = [value for _, value in pairs]
            row[f"{column}_mean"] = math.fsum(values) / len(values) if values else None
            row[f"{column}_min"] = min(values, default=None)
            row[f"{column}_max"] = max(values, default=None)
            row[f"{column}_hours"] = len(values)
            if column in TOTALS:
                rest = [value for h, value in pairs if h > start]
                row[f"{column}_sum"] = math.fsum(rest) if rest else None
                row[f"{column}_sum_hours"] = len(rest)
                row[f"{column}_first"] = next((value for h, value in pairs if h == start), None)
        if {"zonal_wind_10m", "meridional_wind_10m"} <= set(held):
            components = (rows.values[name][own].tolist() for name in ("zonal_wind_10m", "meridional_wind_10m"))
            speeds = [math.sqrt(u * u + v * v) for u, v in zip(*components, strict=True) if not math.isnan(u + v)]
            row["wind_speed_10m_mean"] = math.fsum(speeds) / len(speeds) if speeds else None
        found[location] = row
    return found


def assert_summaries_are_those_of_the_rows(flat: FlatMonth) -> None:
    actual, expected = summaries_of(flat), expected_of(flat)
    assert actual.keys() == expected.keys()
    assert len(actual) == flat.locations
    for location, row in expected.items():
        assert actual[location].keys() == row.keys()
        for name, value in row.items():
            same = value if not isinstance(value, float) else pytest.approx(value, rel=1e-12, abs=1e-12)
            assert actual[location][name] == same, (location, name)


@pytest.mark.parametrize(
    ("first", "hours", "missing"),
    [
        pytest.param("2023-07-01T00", 744, 0.0, id="complete"),
        pytest.param("2023-07-01T00", 744, 0.1, id="some values are missing"),
        pytest.param("2023-07-01T00", 744, 1.0, id="without a value"),
        pytest.param("2023-06-30T20", 9, 0.0, id="the first hours, and some of June"),
        pytest.param("2023-07-01T00", 1, 0.0, id="the first hour alone"),
        pytest.param("2023-07-01T01", 100, 0.0, id="without the first hour"),
    ],
)
def test_summaries_are_those_of_the_rows(tmp_path: Path, first: str, hours: int, missing: float) -> None:
    of = weather(hours_from(first, hours), names=list(VARIABLES), missing=missing)
    flat = flatten(write(tmp_path, of), "2023-07", tmp_path)
    assert_summaries_are_those_of_the_rows(flat)
    for row in summaries_of(flat).values():
        if missing in (0.0, 1.0):
            assert (row["total_precipitation_first"] is None) == (first == "2023-07-01T01" or missing == 1.0)
        assert (row["total_precipitation_sum"] is None) == (hours == 1 or missing == 1.0)


def test_the_file_does_not_depend_on_how_the_month_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, weather(hours_from("2023-07-01T00", 48), names=list(VARIABLES), missing=0.05))
    whole = flatten(paths, "2023-07", tmp_path / "whole")
    monkeypatch.setattr("era5_pipeline.flat.filled_tiles.row_group_rows", lambda _: 100)
    monkeypatch.setattr(monthly, "_GROUP_LOCATIONS", 5)
    cut = flatten(paths, "2023-07", tmp_path / "cut")
    assert cut.summaries is not None
    with pq.ParquetFile(cut.summaries.path) as file:
        assert file.num_row_groups == 2
    assert summaries_of(cut) == summaries_of(whole)


def test_the_facts_name_the_file_and_flattening_again_gives_the_same(tmp_path: Path) -> None:
    paths = write(tmp_path, weather(hours_from("2023-07-01T00", 24)))
    flat = flatten(paths, "2023-07", tmp_path)
    assert flat.summaries is not None
    path = flat.summaries.path
    assert path == flat.path.with_name(f"{flat.path.stem}.monthly.parquet")
    assert (flat.summaries.bytes, flat.summaries.sha256) == (path.stat().st_size, sha256_of(path))
    assert flatten(paths, "2023-07", tmp_path).summaries == flat.summaries
    folder = tmp_path / "flat"
    path.write_bytes(path.read_bytes()[:-1])
    assert read_flat_month(folder, Month(2023, 7)) is None
    path.unlink()
    assert read_flat_month(folder, Month(2023, 7)) is None
    assert flatten(paths, "2023-07", tmp_path).summaries is not None
    raw = raw_month(paths, "2023-07")
    without = flatten_month(raw, folder, home=tmp_path, flat_format="parquet", with_summaries=False)
    assert without.summaries is None
    assert [path.name for path in folder.glob("*.parquet")] == [without.path.name]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_wind_speed_needs_both_components_of_an_hour(is_compiled: bool) -> None:
    eastward = np.array([[3.0, np.nan, 0.0], [np.nan, 1.0, 1.0], [1e-3, 1e-3, 1e-3]], dtype=np.float32)
    northward = np.array([[4.0, 9.0, 1.0], [1.0, np.nan, np.nan], [0.0, 0.0, 0.0]], dtype=np.float32)
    speeds = mean_wind_speed(eastward, northward, is_complete=False, is_compiled=is_compiled)
    np.testing.assert_allclose(speeds, [3.0, np.nan, float(np.float32(1e-3))], rtol=1e-15)


@given(data=st.data())
def test_the_compiled_wind_speed_is_that_of_numpy_to_the_bit(data: st.DataObject) -> None:
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 744)))
    elements = st.floats(-200.0, 200.0, width=32) | st.just(float("nan"))
    components = [data.draw(npst.arrays(np.float32, shape, elements=elements)) for _ in range(2)]
    is_complete = not np.isnan(components).any()
    found = [mean_wind_speed(*components, is_complete=is_complete, is_compiled=way) for way in (False, True)]
    np.testing.assert_array_equal(found[1], found[0])


def test_a_month_with_one_component_of_the_wind_has_no_wind_speed(tmp_path: Path) -> None:
    flat = flatten(write(tmp_path, weather(hours_from("2023-07-01T00", 24), names=("u10", "tp"))), "2023-07", tmp_path)
    names = list(next(iter(summaries_of(flat).values())))
    assert "zonal_wind_10m_mean" in names
    assert {"wind_speed_10m_mean", "zonal_wind_10m_sum"}.isdisjoint(names)
