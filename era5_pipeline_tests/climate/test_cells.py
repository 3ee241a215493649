"""Tests of `climate/cells`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.climate import cells
from era5_pipeline.climate.answer import Trend, YearSpan
from era5_pipeline.climate.cells import YearlyCells, read_part, read_years, trends_of_cells
from era5_pipeline.climate.question import WHOLE_YEAR, season
from era5_pipeline.climate.trends import FEWEST_YEARS, trend_of
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly_tables import make_ready

if TYPE_CHECKING:
    from era5_pipeline.climate.question import CellStatistic
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

TEMPERATURE = BY_COLUMN["temperature_2m"]


def made_rows() -> Any:
    """Summaries of the months of 2001 to 2003, each of some of five locations, some of them NULL."""
    random = np.random.default_rng(5)
    rows = [
        (location, year, month, *np.sort(random.normal(10.0, 5.0, 3)).tolist(), int(random.integers(600, 672)))
        for year in (2001, 2002, 2003)
        for month in range(1, 13)
        for location in (10, 11, 12, 2000, 2001)
        if random.random() < 0.7
    ]
    table = pd.DataFrame(rows, columns=["location_id", "year", "month", "min", "mean", "max", "hours"])
    table.loc[random.random(len(table)) < 0.1, ["min", "mean", "max"]] = np.nan
    table.loc[table["mean"].isna(), "hours"] = 0
    return table


@pytest.mark.parametrize("statistic", ["mean", "min", "max"])
def test_months_of_other_locations_are_put_together(
    warehouse: Warehouse, flat_months: FlatMonths, statistic: CellStatistic
) -> None:
    load_month(warehouse, flat_months("2023-07", names=("t2m",)))
    table = made_rows()
    with warehouse.connect() as connection:
        for year in (2001, 2002, 2003):
            make_ready(connection, Month(year, 1), ("temperature_2m",), timeout_seconds=60, on_wait=lambda _: None)
        columns = ", ".join(f"temperature_2m_{name}" for name in ("min", "mean", "max", "hours"))
        for row in table.itertuples(index=False):
            numbers = [None if pd.isna(number) else number for number in row[3:]]
            statement = (
                f"INSERT INTO era5.monthly_summary (location_id, month, {columns}) VALUES (%s, %s, %s, %s, %s, %s)"
            )
            month = f"{row.year}-{row.month:02d}-01"
            connection.execute(statement.encode(), (row.location_id, month, *numbers))
        for part, months in ((season("JJA"), (6, 7, 8)), (WHOLE_YEAR, tuple(range(1, 13)))):
            found = read_part(connection, TEMPERATURE, part, 2002, statistic, None)
            mine = table[(table["year"] == 2002) & table["month"].isin(months)]
            assert found.location_ids.tolist() == sorted(mine["location_id"].unique())
            for location, value, hours in zip(found.location_ids, found.values, found.hours, strict=True):
                here = mine[mine["location_id"] == location].dropna()
                assert hours == here["hours"].sum()
                if statistic == "mean":
                    expected = (here["mean"] * here["hours"]).sum() / hours if hours else float("nan")
                else:
                    expected = getattr(here[statistic].astype("f4"), statistic)()
                np.testing.assert_allclose(value, expected, rtol=1e-6)
        years = read_years(connection, TEMPERATURE, season("JJA"), YearSpan(2000, 2004), "mean", None)
        assert (years.years, years.has_values) == ((2000, 2001, 2002, 2003, 2004), True)
        # None has at most 24 hours less than a summer.
        assert years.complete_years == []


def cells_of(values: np.ndarray, first: int = 1980) -> YearlyCells:
    """Cells of values (years, locations)."""
    years = tuple(range(first, first + len(values)))
    ids = np.arange(1, values.shape[1] + 1, dtype=np.int32)
    return YearlyCells(years, ids, tuple(values.astype("f4")), has_values=True, grid=ERA5_GRID)


def autocorrelated(random: np.random.Generator, years: int, lag1: float, slope: float) -> np.ndarray:
    noise = np.zeros(years)
    for year in range(1, years):
        noise[year] = lag1 * noise[year - 1] + random.normal(scale=0.3)
    return slope * np.arange(years) + noise + 15.0


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    years=st.integers(FEWEST_YEARS - 2, 60),
    lag1=st.floats(-0.5, 0.9),
    slope=st.floats(-0.1, 0.1),
    missing=st.floats(0.0, 0.4),
)
def test_each_location_has_the_trend_of_a_place(
    seed: int, years: int, lag1: float, slope: float, missing: float
) -> None:
    random = np.random.default_rng(seed)
    values = np.stack([autocorrelated(random, years, lag1, slope) for _ in range(4)], axis=1).astype("f4")
    values[random.random(values.shape) < missing] = np.nan
    found = trends_of_cells(cells_of(values), "K")
    for number in range(4):
        series = pd.Series(values[:, number].astype("f8"), index=range(1980, 1980 + years)).dropna()
        assert found.counts[number] == len(series)
        expected = trend_of(series)
        if isinstance(expected, Trend):
            np.testing.assert_allclose(found.values[number], expected.slope, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(found.p[number], expected.p, rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(found.half_widths[number], expected.high - expected.slope, rtol=1e-5)
        else:
            assert np.isnan(found.values[number])
            assert np.isnan(found.p[number])


def test_what_never_changes_has_the_trend_zero_and_what_lacks_years_has_none() -> None:
    values = np.zeros((30, 3))
    values[:, 1] = np.arange(30)
    values[FEWEST_YEARS - 1 :, 1] = np.nan
    values[:, 2] = np.nan
    found = trends_of_cells(cells_of(values), "K")
    assert found.values[0] == 0.0
    assert np.isnan(found.values[1:]).all()
    assert np.isnan(found.p).all()
    assert np.isnan(found.half_widths).all()
    assert found.counts.tolist() == [30, FEWEST_YEARS - 1, 0]


def test_locations_in_several_blocks_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    values = np.stack([autocorrelated(random, 25, 0.3, 0.01 * number) for number in range(10)], axis=1)
    whole = trends_of_cells(cells_of(values), "K")
    monkeypatch.setattr(cells, "_BLOCK", 3)
    in_blocks = trends_of_cells(cells_of(values), "K")
    np.testing.assert_allclose(in_blocks.values, whole.values, rtol=1e-12)
    np.testing.assert_allclose(in_blocks.p, whole.p, rtol=1e-9)


def test_no_location_has_no_trends() -> None:
    assert trends_of_cells(cells_of(np.empty((30, 0))), "K").values.size == 0
