"""Read the values of a field lazily with dask, in the table's units.

Source of the arithmetic: CF 8.1 (value * scale_factor + add_offset), then the variable's unit conversion, both in
float64 and rounded once, to float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import netCDF4
import numpy as np
import xarray as xr

from era5_pipeline.model.variables import BY_COLUMN, Variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.contents import Field

    Floats = npt.NDArray[np.float32]
    Positions = npt.NDArray[np.intp]

# Values per read: 16 MB of float32.
_DASK_CHUNK_VALUES = 4_000_000
_CHUNK_CACHE_BYTES = 1 << 20
# Values per conversion: half a megabyte of float64, which fits in the processor's cache.
_CACHED_VALUES = 1 << 16


class FieldReader:
    """Reads fields of one netCDF file. Close it when done."""

    def __init__(self, file: NetcdfFile) -> None:
        # HDF5 would cache 64 MB of chunks for each variable of each open file; here every chunk is read once and whole.
        # Set for the whole process, because xarray closes and reopens files if there are many.
        netCDF4.set_chunk_cache(_CHUNK_CACHE_BYTES)
        # Undecoded: the coordinates are known, and xarray may unpack in float32, while `_decode` uses float64.
        self._dataset = xr.open_dataset(file.path, engine="netcdf4", decode_cf=False, cache=False)

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()

    def lazy(self, field: Field, hours: Positions, latitudes: Positions, longitudes: Positions) -> da.Array:
        """The values at these file positions, as a float32 dask array (hour, latitude, longitude).

        Positions must ascend along each axis. Missing values are NaN; units are the table's.
        """
        array = _three_axes(self._dataset, field)
        # Split into gapless runs: netCDF reads positions with gaps one by one, decompressing the chunk each time.
        stored = da.block(  # type: ignore[no-untyped-call]
            [
                [
                    [_stored(array[run, rows, columns], run.start, field.chunks[0]) for columns in _runs(longitudes)]
                    for rows in _runs(latitudes)
                ]
                for run in _runs(hours)
            ]
        )
        values: da.Array = stored.map_blocks(
            _decode,
            dtype=np.float32,
            meta=np.empty((0, 0, 0), dtype=np.float32),
            attributes=dict(array.attrs),
            variable=BY_COLUMN[field.column],
        )
        return values


def _stored(array: xr.DataArray, first_hour: int, chunk_hours: int) -> da.Array:
    """The array in dask, split at the file's chunk borders, so that no chunk is decompressed twice."""
    hours, latitudes, longitudes = array.shape
    chunk = max(1, chunk_hours)
    step = chunk * max(1, _DASK_CHUNK_VALUES // (chunk * latitudes * longitudes))
    borders = [0, *range(step - first_hour % chunk, hours, step), hours]
    pieces: da.Array = array.chunk(dict(zip(array.dims, (tuple(np.diff(borders).tolist()), -1, -1), strict=True))).data
    return pieces


def _decode(block: npt.NDArray[Any], *, attributes: Mapping[str, Any], variable: Variable) -> Floats:
    """Convert stored numbers to values in the table's unit; fill values become NaN."""
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


def _three_axes(dataset: xr.Dataset, field: Field) -> xr.DataArray:
    """The field as (time, latitude, longitude); missing dimensions are added with size one."""
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
    return array.reset_coords(drop=True).transpose(*axes)


def _runs(positions: Positions) -> list[slice]:
    """Split ascending positions into slices without gaps."""
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return [slice(int(run[0]), int(run[-1]) + 1) for run in runs]
