"""`query.api.boxes.box_values`: a box in pieces is the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.grid import Area
from era5_pipeline.model.hours import hours_of_month
from era5_pipeline.model.months import Month
from era5_pipeline.query.api.boxes import box_values
from era5_pipeline.query.api.boxes.grid_window import GridWindow
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import rows_of_file

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.mark.parametrize("most", [100, 5_000, 4_000_000], ids=["hours and rows", "rows", "one"])
def test_a_box_across_the_antimeridian_is_that_of_the_file(
    warehouse: Warehouse, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    flat = flat_months("2023-07", points=(4, 6), west=179.25, missing=0.1)
    load_month(warehouse, flat)
    monkeypatch.setattr(box_values, "_MOST_VALUES", most)
    window = GridWindow.of_area(Area(10.5, 179.5, 10.0, -179.75))
    assert (window.rows, window.columns) == (3, 4)
    hours = hours_of_month(Month.parse("2023-07"))
    values = box_values.read_box(warehouse, "temperature_2m", hours, window)
    expected = np.full((744, 3, 4), np.nan, dtype=np.float32)
    for row in rows_of_file(flat):
        time, _, north, east, temperature = row[:5]
        if north >= 10.0 and east % 360 >= 179.5 and east % 360 <= 180.25 and temperature is not None:
            at = int((time - Month.parse("2023-07").start).total_seconds()) // 3600
            expected[at, int((10.5 - north) / 0.25), int((east % 360 - 179.5) / 0.25)] = temperature
    assert np.isnan(expected).mean() < 0.2
    assert np.array_equal(values, expected, equal_nan=True)
