"""Lazy arrays of a field's values, in stored units; nothing is read before dask is told to.

Source of the arithmetic: CF 8.1 (value * scale_factor + add_offset), then the variable's own unit conversion, both in
float64 and rounded once, to float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from era5_pipeline.variables import BY_COLUMN, Variable

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import dask.array as da
    import numpy.typing as npt

    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.inspect import Field

    Floats = npt.NDArray[np.float32]
    Positions = npt.NDArray[np.intp]

# Values read at a time: 16 MB of float32.
_DASK_CHUNK_VALUES = 4_000_000
# Values converted at a time: half a megabyte of float64, which stays in the processor's cache.
_CACHED_VALUES = 1 << 16


class FieldReader:
    """Reads fields of one netCDF file. Close it when done."""

    def __init__(self, file: NetcdfFile) -> None:
        # Undecoded: the coordinates are known, and xarray may unpack in float32 (`_decode` never does).
        self._dataset = xr.open_dataset(file.path, engine="netcdf4", decode_cf=False, cache=False)

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()

    def lazy(self, field: Field, hours: Positions, latitudes: Positions, longitudes: Positions) -> da.Array:
        """Values at these positions of the file, as a dask array (hour, latitude, longitude) of float32.

        The positions along each axis must be ascending. Missing values are NaN; the unit is the stored one.
        """
        array, (time_axis, latitude_axis, longitude_axis) = _three_axes(self._dataset, field)
        picked = array.isel(
            {time_axis: _as_slice(hours), latitude_axis: _as_slice(latitudes), longitude_axis: _as_slice(longitudes)}
        )
        across = max(1, len(latitudes) * len(longitudes))
        own_chunk = field.chunks[0] or 1
        # Whole chunks of the file, so that none is decompressed twice, unless one is too large by itself.
        steps = max(own_chunk, own_chunk * (_DASK_CHUNK_VALUES // (across * own_chunk)))
        steps = max(1, min(steps, 4 * _DASK_CHUNK_VALUES // across))
        stored = picked.chunk({time_axis: steps, latitude_axis: -1, longitude_axis: -1})
        values: da.Array = stored.data.map_blocks(
            _decode,
            dtype=np.float32,
            meta=np.empty((0, 0, 0), dtype=np.float32),
            attributes=dict(array.attrs),
            variable=BY_COLUMN[field.column],
        )
        return values


def _decode(block: npt.NDArray[Any], *, attributes: Mapping[str, Any], variable: Variable) -> Floats:
    """Stored numbers as values in the unit of the table, NaN where they are fill values."""
    if attributes.get("_Unsigned") == "true":
        block = block.view(np.dtype(f"u{block.dtype.itemsize}"))
    packing = (float(attributes.get("scale_factor", 1.0)), float(attributes.get("add_offset", 0.0)))
    conversions = [c for c in (packing, (variable.scale, variable.offset)) if c != (1.0, 0.0)]
    decoded = np.empty(block.shape, dtype=np.float32)
    few = max(1, _CACHED_VALUES * len(block) // max(1, block.size))
    for start in range(0, len(block), few):
        values = block[start : start + few]
        for scale, offset in conversions:
            values = np.multiply(values, scale, dtype=np.float64)
            values += offset
        decoded[start : start + few] = values
    for name in ("_FillValue", "missing_value"):
        for fill in np.atleast_1d(attributes.get(name, np.nan)):
            if not np.isnan(fill):
                decoded[block == np.asarray(fill).astype(block.dtype)] = np.nan
    return decoded


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
