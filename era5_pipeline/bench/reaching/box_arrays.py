"""A month of a square box of places as labelled arrays of xarray: by `field`, and by `dataset`, which is lazy."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.query.api.open_database import open_database
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable

    import xarray as xr

    from era5_pipeline.bench.asking.asked_table import AskedTable
    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.query.api.database import Database

# A month after those of the one place, and away from it.
_MONTH = Month(2025, 7)
_NORTH, _WEST, _STEP = 60.0, 0.0, 0.25
_COLUMN = "temperature_2m"
# The box has as many times the places of the months that are asked about one place: 100 x 100 for 100.
BOX_SHARE = 100


class BoxOfMonth:
    """The box, loaded beside the months of `table` when it is first asked for."""

    def __init__(self, table: AskedTable, rows: int) -> None:
        self._table = table
        side = max(2, round(math.sqrt(BOX_SHARE * rows / _MONTH.hours)))
        self.shape = (_MONTH.hours, side, side)
        self._area = Area(_NORTH, _WEST, _NORTH - _STEP * (side - 1), _WEST + _STEP * (side - 1))
        self._is_loaded = False

    def field(self) -> tuple[int, Numbers]:
        """`field` of the month; returns the number of values and the times."""
        return self._read(lambda database: database.field(_COLUMN, month=str(_MONTH), area=self._area))

    def dataset(self) -> tuple[int, Numbers]:
        """The same by `dataset`, with its values read."""
        month = str(_MONTH)
        return self._read(
            lambda database: database.dataset(area=self._area, start=month, end=month, columns=_COLUMN)[_COLUMN].load()
        )

    def _read(self, read: Callable[[Database], xr.DataArray]) -> tuple[int, Numbers]:
        import dask.array  # noqa: F401, PLC0415  # imported before the clock starts, as a program does once
        import xarray as xr  # noqa: F401, PLC0415

        self._load()
        with open_database(self._table.target.warehouse.url) as database:
            started = time.perf_counter()
            array = read(database)
            seconds = time.perf_counter() - started
        if array.shape != self.shape or not np.isfinite(array.to_numpy()).all():
            raise CannotRunError(f"an array {array.shape} was read, not {self.shape} without gaps")
        return array.size, {"seconds": seconds}

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._table.load()
        folder = self._table.folder / "box"
        raw = SampleSource(folder / "raw", Request(None, self._area)).fetch(_MONTH)
        flat = flatten_month(raw, folder / "flat", home=folder, flat_format="parquet")
        load_month(self._table.target.warehouse, flat)
        flat.path.unlink()
        self._is_loaded = True
