"""`read.boxes`: a box in pieces is the box."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import GridWindow
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.read import boxes
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import rows_of_file
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.flat_months import FlatMonths


WINDOW = GridWindow.of_area(Area(10.5, 179.5, 10.0, -179.75))
JULY = Month.parse("2023-07")


def expected_of(flat: FlatMonth) -> npt.NDArray[np.float32]:
    """The window's values in the file."""
    expected = np.full((744, 3, 4), np.nan, dtype=np.float32)
    for row in rows_of_file(flat):
        time, _, north, east, temperature = row[:5]
        if north >= 10.0 and east % 360 >= 179.5 and east % 360 <= 180.25 and temperature is not None:
            at = int((time - JULY.start).total_seconds()) // 3600
            expected[at, int((10.5 - north) / 0.25), int((east % 360 - 179.5) / 0.25)] = temperature
    assert np.isnan(expected).mean() < 0.2
    return expected


@pytest.fixture
def flat(warehouse: Warehouse, flat_months: FlatMonths) -> FlatMonth:
    """A month around the window, which the table has."""
    flat = flat_months("2023-07", points=(4, 6), west=179.25, missing=0.1)
    load_month(warehouse, flat)
    return flat


@pytest.mark.parametrize("by_two", [False, True], ids=["alone", "by two"])
@pytest.mark.parametrize("most", [100, 5_000, 4_000_000], ids=["hours and rows", "rows", "one"])
def test_a_box_across_the_antimeridian_is_that_of_the_file(
    warehouse: Warehouse, flat: FlatMonth, monkeypatch: pytest.MonkeyPatch, most: int, by_two: bool
) -> None:
    monkeypatch.setattr(boxes, "_MOST_VALUES_BESIDE" if by_two else "_MOST_VALUES", most)
    assert (WINDOW.rows, WINDOW.columns) == (3, 4)
    values = boxes.read_box(warehouse, "temperature_2m", hours_of_month(JULY), WINDOW, by_two=by_two)
    assert np.array_equal(values, expected_of(flat), equal_nan=True)


def test_two_sessions_read_one_state_of_the_table(
    warehouse: Warehouse, flat: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "_MOST_VALUES_BESIDE", 100)
    fill, once = boxes._fill, threading.Lock()

    def change_first(*arguments: Any) -> None:
        if once.acquire(blocking=False):
            with warehouse.connect() as other:
                other.execute("UPDATE weather SET temperature_2m = -99")
        fill(*arguments)

    monkeypatch.setattr(boxes, "_fill", change_first)
    values = boxes.read_box(warehouse, "temperature_2m", hours_of_month(JULY), WINDOW, by_two=True)
    assert not once.acquire(blocking=False)
    assert np.array_equal(values, expected_of(flat), equal_nan=True)


def test_where_a_second_session_is_refused_the_first_reads_all(
    warehouse: Warehouse, flat: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "_MOST_VALUES_BESIDE", 100)
    with fresh_role(warehouse.url, "PASSWORD 'secret' CONNECTION LIMIT 1") as role:
        with warehouse.connect() as owner:
            owner.execute(sql.SQL("GRANT SELECT ON weather TO {}").format(sql.Identifier(role)))
        reader = Warehouse(make_conninfo(with_user(warehouse.url, role), password="secret"))
        values = boxes.read_box(reader, "temperature_2m", hours_of_month(JULY), WINDOW, by_two=True)
    assert np.array_equal(values, expected_of(flat), equal_nan=True)
