"""Datasets of xarray whose values are read from the table when they are asked for, and only those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from era5_pipeline.model.hours import as_datetime64
from era5_pipeline.model.package_version import __version__
from era5_pipeline.query.api.boxes.box_contents import read_box_contents
from era5_pipeline.query.api.boxes.box_values import hour_range, read_box
from era5_pipeline.query.api.cf_attributes import CONVENTIONS, cf_attributes
from era5_pipeline.query.api.missing_data import warn_of_missing
from era5_pipeline.query.available import require_columns
from era5_pipeline.query.credit import read_credit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.query.api.boxes.grid_window import GridWindow

DIMENSIONS = ("time", "latitude", "longitude")


class TableArray(BackendArray):
    """A column of the table as an array (hours, latitudes, longitudes), of which parts are read by index.

    It holds the address of the database and no connection, so that it can be sent to the workers of a cluster. What
    `keep_open` refers to is kept as long as the array, or another that is made of it.
    """

    def __init__(self, warehouse: Warehouse, column: str, hours: range, window: GridWindow, keep_open: object) -> None:
        self._keep_open = keep_open
        self.shape = (len(hours), window.rows, window.columns)
        self.dtype = np.dtype(np.float32)
        self._warehouse = warehouse
        self._column = column
        self._hours = hours
        self._window = window

    def __getstate__(self) -> dict[str, Any]:
        # Another process does not keep the database of this one open.
        return {**vars(self), "_keep_open": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> TableArray:
        return self  # it never changes

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:  # noqa: ANN401  # as in xarray
        """Read the part that the key names."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> npt.NDArray[np.float32]:
        """Read the smallest box that holds what is asked for, and take that from it."""
        asked = [np.atleast_1d(np.arange(size)[one]) for size, one in zip(self.shape, key, strict=True)]
        whole = [range(int(one.min()), int(one.max()) + 1) if one.size else range(0) for one in asked]
        if any(not one for one in whole):
            box = np.empty([len(one) for one in whole], dtype=self.dtype)
        else:
            hours = self._hours[whole[0].start : whole[0].stop]
            box = read_box(self._warehouse, self._column, hours, self._window.part(whole[1], whole[2]))
            box = box[np.ix_(*(one - span.start for one, span in zip(asked, whole, strict=True)))]
        # A single index takes its dimension away.
        return box.reshape(
            [one.size for one, own in zip(asked, key, strict=True) if not isinstance(own, int | np.integer)]
        )


def make_dataset(
    connection: psycopg.Connection[Any],
    warehouse: Warehouse,
    area: Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
    *,
    keep_open: object,
) -> xr.Dataset:
    """The dataset that `Database.dataset` documents, without chunks of Dask; of values, nothing is read.

    Its arrays keep a reference to `keep_open`, which keeps the server running.

    Each variable's `encoding["preferred_chunks"]` are months.

    Raises:
        NoDataError: if the table holds nothing of it.
    """
    require_columns(connection, columns or ())
    held = read_box_contents(connection, area, columns, start, end)
    hours = hour_range(held.start, held.end)
    coordinates = coordinates_of(hours, held.window)
    months = coordinates["time"].values.astype("datetime64[M]")
    lengths = tuple(np.unique(months, return_counts=True)[1].tolist())
    preferred = {"time": lengths, "latitude": held.window.rows, "longitude": held.window.columns}
    variables = {}
    for variable in held.variables:
        array = indexing.LazilyIndexedArray(TableArray(warehouse, variable.column, hours, held.window, keep_open))
        attributes = cf_attributes(variable)
        if variable.column in held.missing_months:
            attributes["missing_months"] = " ".join(map(str, held.missing_months[variable.column]))
        variables[variable.column] = xr.Variable(DIMENSIONS, array, attributes, {"preferred_chunks": preferred})
    dataset = xr.Dataset(variables, coordinates)
    dataset.attrs = dataset_attributes(connection, held.start, held.end, held.window, variables)
    if held.incomplete_months:
        dataset.attrs["incomplete_months"] = " ".join(map(str, held.incomplete_months))
    dataset.encoding["source"] = warehouse.shown
    warn_of_missing(f"{held.area}", held.lines)
    return dataset


def chunked(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with arrays of Dask, a chunk for each month."""
    lengths = {name: one.encoding["preferred_chunks"] for name, one in dataset.data_vars.items()}
    return dataset.chunk(next(iter(lengths.values())))


def coordinates_of(hours: range, window: GridWindow) -> dict[str, xr.Variable]:
    """The coordinates of a box, with CF attributes; times are in UTC, without a zone, as xarray has them."""
    times = as_datetime64(np.arange(hours.start, hours.stop, dtype=np.int64)).astype("datetime64[ns]")
    north = {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"}
    east = {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"}
    return {
        "time": xr.Variable("time", times, {"standard_name": "time", "long_name": "time (UTC)", "axis": "T"}),
        "latitude": xr.Variable("latitude", window.latitudes, north),
        "longitude": xr.Variable("longitude", window.longitudes, east),
    }


def dataset_attributes(
    connection: psycopg.Connection[Any], start: datetime, end: datetime, window: GridWindow, columns: Iterable[str]
) -> dict[str, str]:
    """What a dataset says of itself: conventions, what made it, and whom to credit."""
    return {
        "Conventions": CONVENTIONS,
        "title": "ERA5 hourly data on single levels",
        "source": f"table weather of era5-pipeline {__version__}",
        "credit": read_credit(connection, start, end, window.locations, columns),
    }
