"""One variable at an hour, or at all hours of a month, on a rectangle of the grid, as a DataArray of xarray."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import latitude_indices, longitude_indices
from era5_pipeline.model.hours import hour_of, hours_of_month
from era5_pipeline.query.api.boxes.box_contents import read_box_contents
from era5_pipeline.query.api.boxes.box_values import read_box
from era5_pipeline.query.api.boxes.grid_window import GridWindow
from era5_pipeline.query.api.boxes.lazy_dataset import DIMENSIONS, coordinates_of, dataset_attributes
from era5_pipeline.query.api.cf_attributes import cf_attributes
from era5_pipeline.query.api.missing_data import warn_of_missing
from era5_pipeline.query.available import require_columns
from era5_pipeline.query.snapshots import lines_of_absent, read_snapshot

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse


def read_hour(
    connection: psycopg.Connection[Any], time: datetime, variable: Variable, area: Area | None
) -> xr.DataArray:
    """The values (latitude, longitude) at an hour, as `era5 map` draws them.

    Raises:
        NoDataError: if there are none.
    """
    found = read_snapshot(connection, time, variable, area)
    lines = lines_of_absent(connection, found, area)
    own = GridWindow(
        north_index=int(latitude_indices(found.latitudes[-1:])[0]),
        west_index=int(longitude_indices(found.longitudes[:1])[0]),
        rows=found.latitudes.size,
        columns=found.longitudes.size,
    )
    window = GridWindow.of_area(area) if area else own
    values = np.full((window.rows, window.columns), np.nan, dtype=np.float32)
    row = window.north_index - own.north_index
    column = (own.west_index - window.west_index) % 1440
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
    """The values (time, latitude, longitude) at all hours of a month.

    Raises:
        NoDataError: if there are none.
    """
    require_columns(connection, (variable,))
    held = read_box_contents(connection, area, (variable,), month.start, month.end)
    values = read_box(warehouse, variable.column, hours_of_month(month), held.window, by_two=True)
    has_values = np.isfinite(values).any(axis=(1, 2))
    if not has_values.any():
        raise NoDataError(
            f"{variable.column} is NULL everywhere in {month} in {held.area}",
            remedy="Choose another month, column or area, or load the month with the variables you need.",
        )
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
    return {name: attributes[name] for name in ("source", "credit")}
