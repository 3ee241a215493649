"""Answers as xarray arrays with values read on demand, for `field`, `dataset` and the backend `era5` of xarray."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from era5_pipeline.api.frames import warn_of_missing
from era5_pipeline.model.cf_names import CONVENTIONS, cf_attributes
from era5_pipeline.model.location_set import GridWindow
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.times import as_datetime64, hour_of, hours_of_month
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.boxes import hour_range, read_box, read_box_contents, read_field
from era5_pipeline.read.credit import SAMPLE_CREDIT, read_origin
from era5_pipeline.read.held import require_columns
from era5_pipeline.read.missing import describe_absent, only_null_in

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse

DIMENSIONS = ("time", "latitude", "longitude")


class TableArray(BackendArray):
    """A column of the table as an array (hours, latitudes, longitudes), read in parts by index.

    It holds the address of the database but no connection, so it can be sent to the workers of a cluster. The object
    `keep_open` lives as long as this array, or any array derived from it.
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
        # Another process does not keep this one's database open.
        return {**vars(self), "_keep_open": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> TableArray:
        return self  # immutable

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:  # noqa: ANN401  # as in xarray
        """Read the part selected by the key."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> npt.NDArray[np.float32]:
        """Read the smallest box that holds the selection, and take the selection from it."""
        asked = [np.atleast_1d(np.arange(size)[one]) for size, one in zip(self.shape, key, strict=True)]
        whole = [range(int(one.min()), int(one.max()) + 1) if one.size else range(0) for one in asked]
        if any(not one for one in whole):
            box = np.empty([len(one) for one in whole], dtype=self.dtype)
        else:
            hours = self._hours[whole[0].start : whole[0].stop]
            box = read_box(self._warehouse, self._column, hours, self._window.part(whole[1], whole[2]))
            box = box[np.ix_(*(one - span.start for one, span in zip(asked, whole, strict=True)))]
        # A single index removes its dimension.
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
    """Make the dataset documented in `Database.dataset`, without Dask chunks; no values are read.

    Its arrays keep a reference to `keep_open`, which keeps the server running.

    Each variable's `encoding["preferred_chunks"]` are months.
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
    """The dataset with Dask arrays, a chunk for each month."""
    lengths = {name: one.encoding["preferred_chunks"] for name, one in dataset.data_vars.items()}
    return dataset.chunk(next(iter(lengths.values())))


def coordinates_of(hours: range, window: GridWindow) -> dict[str, xr.Variable]:
    """The coordinates of a box, with CF attributes; times are in UTC, without a zone, as usual in xarray."""
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
    """Attributes of a dataset: conventions, the program that made it, versions of its hours, and the credit."""
    source = dataset_of(connection)
    origin = read_origin(connection, start, end, window.locations, columns)
    return {
        "Conventions": CONVENTIONS,
        "title": SAMPLE_CREDIT if origin.credit == SAMPLE_CREDIT else source.short_subject,
        "source": f"table {source.table} of era5-pipeline {__version__}",
        **origin.attributes,
    }


def read_hour(
    connection: psycopg.Connection[Any], time: datetime, variable: Variable, area: Area | None
) -> xr.DataArray:
    """Read the values (latitude, longitude) at an hour, as `era5 map` draws them."""
    found = read_field(connection, time, variable, area)
    lines = describe_absent(connection, found, area)
    own = found.window
    window = GridWindow.of_area(area) if area else own
    values = np.full((window.rows, window.columns), np.nan, dtype=np.float32)
    row = window.north_index - own.north_index
    column = (own.west_index - window.west_index) % window.grid.columns
    values[row : row + own.rows, column : column + own.columns] = found.values[::-1]
    hours = range(hour_of(time), hour_of(time) + 1)
    array = xr.DataArray(
        values[np.newaxis], coordinates_of(hours, window), DIMENSIONS, variable.column, cf_attributes(variable)
    ).squeeze("time")
    array.attrs |= _origin(connection, time, time + timedelta(hours=1), window, variable)
    warn_of_missing(f"{time:%Y-%m-%d %H:%M} UTC", lines)
    return array


def read_month(
    connection: psycopg.Connection[Any], warehouse: Warehouse, month: Month, variable: Variable, area: Area | None
) -> xr.DataArray:
    """Read the values (time, latitude, longitude) at all hours of a month."""
    require_columns(connection, (variable,))
    held = read_box_contents(connection, area, (variable,), month.start, month.end)
    values = read_box(warehouse, variable.column, hours_of_month(month), held.window, by_two=True)
    has_values = np.isfinite(values).any(axis=(1, 2))
    if not has_values.any():
        raise only_null_in(held.area, variable, f"in {month}", "month")
    array = xr.DataArray(
        values,
        coordinates_of(hours_of_month(month), held.window),
        DIMENSIONS,
        variable.column,
        cf_attributes(variable),
    )
    array.attrs |= _origin(connection, month.start, month.end, held.window, variable)
    lines = held.lines
    if not has_values.all():
        lines.append(f"no value at {np.count_nonzero(~has_values):,} of {month.hours} hours")
    warn_of_missing(f"{month}", lines)
    return array


def _origin(
    connection: psycopg.Connection[Any], start: datetime, end: datetime, window: GridWindow, variable: Variable
) -> dict[str, str]:
    attributes = dataset_attributes(connection, start, end, window, [variable.column])
    return {name: text for name, text in attributes.items() if name not in ("Conventions", "title")}
