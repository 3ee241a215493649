"""Lazy arrays of a field's values, in stored units, location-major; nothing is read before dask is told to.

Source of the arithmetic: CF packing (value * scale_factor + add_offset), then the variable's own unit conversion, both
in float64 and rounded once, to float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.netcdf.inspect import open_netcdf
from era5_pipeline.variables import BY_COLUMN

if TYPE_CHECKING:
    from collections.abc import Hashable

    import dask.array as da
    import numpy.typing as npt
    import xarray as xr

    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.inspect import Field

    Positions = npt.NDArray[np.intp]

# Values decoded at a time: 16 MB of float32, and 32 MB while they are converted in float64.
_DASK_CHUNK_VALUES = 4_000_000


class FieldReader:
    """Reads fields of one netCDF file. Close it when done."""

    def __init__(self, file: NetcdfFile) -> None:
        self._dataset = open_netcdf(file)

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()

    def lazy(self, field: Field, hours: Positions, latitudes: Positions, longitudes: Positions) -> da.Array:
        """Values at these positions of the file, as a dask array (latitude, longitude, hour) of float32.

        The positions along each axis must be ascending. Missing values are NaN; the unit is the stored one.
        """
        variable = BY_COLUMN[field.column]
        array, (time_axis, latitude_axis, longitude_axis) = _three_axes(self._dataset, field)
        picked = array.isel(
            {time_axis: _as_slice(hours), latitude_axis: _as_slice(latitudes), longitude_axis: _as_slice(longitudes)}
        )
        across = max(1, len(latitudes) * len(longitudes))
        own_chunk = field.chunks[0] or 1
        # Whole chunks of the file, so that none is decompressed twice, unless one is too large by itself.
        steps = max(own_chunk, own_chunk * (_DASK_CHUNK_VALUES // (across * own_chunk)))
        steps = max(1, min(steps, 4 * _DASK_CHUNK_VALUES // across))
        values = picked.chunk({time_axis: steps, latitude_axis: -1, longitude_axis: -1})
        if variable.scale != 1.0 or variable.offset != 0.0:
            values = values.astype(np.float64) * variable.scale + variable.offset
        located = values.transpose(latitude_axis, longitude_axis, time_axis).astype(np.float32)
        return located.data


def _three_axes(dataset: xr.Dataset, field: Field) -> tuple[xr.DataArray, tuple[Hashable, Hashable, Hashable]]:
    """The field with exactly its time, latitude and longitude dimensions; single values get a dimension of one."""
    array = dataset[field.name]
    if field.expver_position is not None:
        array = array.isel(expver=field.expver_position)
    axes = []
    sizes = (field.hours.size, field.latitude_index.size, field.longitude_index.size)
    for stand_in, axis, size in zip(("_time", "_latitude", "_longitude"), field.dimensions, sizes, strict=True):
        if axis is None:
            array = array.expand_dims({stand_in: size})
        axes.append(stand_in if axis is None else axis)
    others = [dimension for dimension in array.dims if dimension not in axes]
    if others:
        array = array.squeeze(others)
    array = array.reset_coords(drop=True)
    return array.transpose(*axes), (axes[0], axes[1], axes[2])


def _as_slice(positions: Positions) -> slice | Positions:
    """A slice where the positions are consecutive: the file is then read in one piece."""
    if positions.size and positions[-1] - positions[0] == positions.size - 1:
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions
