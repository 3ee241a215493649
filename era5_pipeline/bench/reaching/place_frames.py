"""All hours of one place as a table of pandas: as `era5.open` reads them, and row by row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.query.api.open_database import open_database

if TYPE_CHECKING:
    import pandas as pd

    from era5_pipeline.bench.asking.asked_table import AskedTable
    from era5_pipeline.bench.cells import Numbers

COLUMN = "temperature_2m"
_ROW_BY_ROW = """
    SELECT time, temperature_2m
    FROM weather
    WHERE location_id = %(location_id)s AND time < %(end)s
    ORDER BY time
"""


def frame_of_one_column(table: AskedTable) -> tuple[int, Numbers]:
    """`series` of one variable, from the call to the table, with its connection; returns the hours and the times."""
    return _frame(table, COLUMN)


def frame_of_all_columns(table: AskedTable) -> tuple[int, Numbers]:
    """`series` of all variables."""
    return _frame(table, None)


def _frame(table: AskedTable, columns: str | None) -> tuple[int, Numbers]:
    import pandas as pd  # noqa: F401, PLC0415  # imported before the clock starts, as a program does once

    table.load()
    with open_database(table.target.warehouse.url) as database:
        place: dict[str, Any] = {"latitude": table.place.latitude, "longitude": table.place.longitude}
        started = time.perf_counter()
        frame = database.series(**place, end=str(table.months[-1]), columns=columns)
        seconds = time.perf_counter() - started
    _require_hours(table, frame)
    return len(frame), {"seconds": seconds}


def frame_row_by_row(table: AskedTable) -> tuple[int, Numbers]:
    """The same hours of one variable, a tuple of Python for each row, made into a table.

    Raises:
        CannotRunError: if the values are not those that `series` gives.
    """
    import pandas as pd  # noqa: PLC0415

    table.load()
    parameters = {"location_id": table.place.location_id, "end": table.months[-1].end}
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        rows = connection.execute(_ROW_BY_ROW, parameters).fetchall()
    frame = pd.DataFrame(rows, columns=["time", COLUMN]).set_index("time")
    seconds = time.perf_counter() - started
    with open_database(table.target.warehouse.url) as database:
        expected = database.series(
            latitude=table.place.latitude, longitude=table.place.longitude, end=str(table.months[-1]), columns=COLUMN
        )
    if not np.array_equal(frame[COLUMN].to_numpy(np.float32), expected[COLUMN].to_numpy(), equal_nan=True):
        raise CannotRunError("series gives other values than the rows")
    return len(frame), {"seconds": seconds}


def _require_hours(table: AskedTable, frame: pd.DataFrame) -> None:
    wanted = sum(month.hours for month in table.months)
    if len(frame) != wanted or not np.isfinite(frame[COLUMN].to_numpy()).all():
        raise CannotRunError(f"{len(frame):,} hours were read, of {wanted:,}")
