"""`query.maps.cell_values` and `yearly_cells`: months and years whose locations differ, on each layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.cell_values import read_part
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, season
from era5_pipeline.query.maps.yearly_cells import read_years
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly.monthly_table import make_ready

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.query.maps.map_question import MapStatistic
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
    warehouse: Warehouse, flat_months: FlatMonths, statistic: MapStatistic
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
