"""Look into a file of any kind, and read the values of its fields with dask, in the table's units."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import dask.array as da
import netCDF4
import numpy as np
import xarray as xr
from dask.delayed import delayed

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.decoding import Decoding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt
    from dask.delayed import Delayed

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.contents import Contents, Field
    from era5_pipeline.netcdf.grib import GribReader
    from era5_pipeline.netcdf.raw_chunks import RawChunks

    Reader: TypeAlias = "FieldReader | GribReader | WrittenReader"
    Floats = npt.NDArray[np.floating[Any]]
    Positions = npt.NDArray[np.intp]

# Values per read: 16 MB of float32.
_DASK_CHUNK_VALUES = 4_000_000
# Up to so many values are read at once: dask's own work for a field takes longer than reading them.
_FEW_VALUES = 250_000
_CHUNK_CACHE_BYTES = 1 << 20


# The file that contents come from, with its state.
_FileKey = tuple[Path, str | None, int, int]


class _KeptContents:
    """Contents of files, by the data set and the file that they come from, the last used at the end.

    They take some 27 bytes an hour and 10 kB a file, so 320 MB at most: those of 16 files of every hour since 1940, or
    of a thousand months of a place, which a listing has just read when they are loaded.
    """

    _MOST_HOURS = 12_000_000
    _HOURS_OF_A_FILE = 400

    def __init__(self) -> None:
        self._contents: dict[tuple[Dataset, _FileKey], Contents] = {}
        self._hours = 0

    def pop(self, key: tuple[Dataset, _FileKey]) -> Contents | None:
        contents = self._contents.pop(key, None)
        if contents is not None:
            self._hours -= self._hours_of(contents)
        return contents

    def add(self, key: tuple[Dataset, _FileKey], contents: Contents) -> None:
        self._contents[key] = contents
        self._hours += self._hours_of(contents)
        while self._hours > self._MOST_HOURS and len(self._contents) > 1:
            self.pop(next(iter(self._contents)))

    def _hours_of(self, contents: Contents) -> int:
        return self._HOURS_OF_A_FILE + max((one.hours.size for one in contents.fields), default=0)


_kept = _KeptContents()
# Problems that may go away while the file stays as it is.
_PASSING = ("unreadable", "library")


def contents_of(file: NetcdfFile, dataset: Dataset = ERA5) -> Contents:
    """Find variables of the data set in a file. An unusable file never raises, but gives a `Problem`.

    Contents are kept: months of a series or a year are loaded one after another, and all are in the same files; many
    small files are listed before they are loaded. Those of unpacked and converted files are known by the file that they
    come from.
    """
    try:
        key = (dataset, _key_of(file))
    except OSError:
        return _inspected(file, dataset)  # it says why
    contents = _kept.pop(key) or _sharing_arrays(_inspected(file, dataset))
    if all(problem.kind not in _PASSING for problem in contents.problems):
        _kept.add(key, contents)
    return contents


# Values of files just written: of all at most, and of one, a month of six variables at a thousand places.
_WRITTEN_BYTES, _WRITTEN_BYTES_OF_ONE = 256 << 20, 20 << 20
_written: dict[_FileKey, Mapping[str, Floats]] = {}


def keep_written(file: NetcdfFile, contents: Contents, values: Mapping[str, Floats], dataset: Dataset = ERA5) -> None:
    """Keep what was written into a file, so that it need not be read if it is flattened soon, unchanged.

    `values` are those in the file, by column: float32 (hour, latitude, longitude). They are copied; many are not kept.
    """
    key = _key_of(file)
    _kept.add((dataset, key), contents)
    if sum(of.nbytes for of in values.values()) <= _WRITTEN_BYTES_OF_ONE:
        _written[key] = {column: np.array(of) for column, of in values.items()}
    while sum(of.nbytes for held in _written.values() for of in held.values()) > _WRITTEN_BYTES:
        del _written[next(iter(_written))]


def _key_of(file: NetcdfFile) -> _FileKey:
    stat = file.source.stat()
    return file.source, file.member, stat.st_size, stat.st_mtime_ns


def _sharing_arrays(contents: Contents) -> Contents:
    """The same contents with one array for all fields of the same hours: of 86 years, each takes 18 MB."""
    arrays: dict[tuple[str, bytes], npt.NDArray[Any]] = {}

    def shared(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return arrays.setdefault((array.dtype.str, array.tobytes()), array)

    fields = tuple(replace(one, hours=shared(one.hours), expver=shared(one.expver)) for one in contents.fields)
    return replace(contents, fields=fields)


def _inspected(file: NetcdfFile, dataset: Dataset) -> Contents:
    if file.kind == "grib":
        from era5_pipeline.netcdf.grib import inspect_grib  # noqa: PLC0415  # most homes have no GRIB

        return inspect_grib(file, dataset)
    return inspect(file, dataset)


def open_reader(file: NetcdfFile, *, by_chunks: bool) -> Reader:
    """Open a file to read its fields; netCDF with `by_chunks` without libhdf5 where possible."""
    if file.kind == "grib":
        from era5_pipeline.netcdf.grib import GribReader  # noqa: PLC0415  # most homes have no GRIB

        return GribReader(file)
    written = _written.pop(_key_of(file), None) if _written else None
    return FieldReader(file, by_chunks=by_chunks) if written is None else WrittenReader(written)


def temporary_bytes(pieces: Iterable[tuple[NetcdfFile, Field]], month: Month) -> int:
    """The bytes of temporary files, at most, that reading the month of these fields needs."""
    values = sum(
        one.positions_in(month).size * one.latitude_index.size * one.longitude_index.size
        for file, one in pieces
        if file.kind == "grib"
    )
    if not values:
        return 0
    from era5_pipeline.netcdf import grib  # noqa: PLC0415  # most homes have no GRIB

    return grib.temporary_bytes(values)


class FieldReader:
    """Reads fields of one netCDF file; with `by_chunks` without libhdf5 where possible. Close it when done."""

    def __init__(self, file: NetcdfFile, *, by_chunks: bool) -> None:
        # HDF5 would cache 64 MB of chunks for each variable of each open file; here every chunk is read once and whole.
        # Set for the whole process, because xarray closes and reopens files if there are many.
        netCDF4.set_chunk_cache(_CHUNK_CACHE_BYTES)
        self._file = file
        self._by_chunks = by_chunks
        self._chunks: dict[str, RawChunks | None] = {}
        # Undecoded: the coordinates are known, and xarray may unpack in float32, while `Decoding` uses float64.
        self._dataset = xr.open_dataset(
            file.path, engine="netcdf4", decode_cf=False, cache=False, create_default_indexes=False
        )

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()

    def values(
        self,
        field: Field,
        hours: Positions,
        latitudes: Positions,
        longitudes: Positions,
        dtype: npt.DTypeLike = np.float32,
    ) -> da.Array | Delayed | Floats:
        """The values at these file positions, which dask computes unless they are few: (latitude, longitude, hour).

        They are float32, or float64 where sums are taken apart. Positions must ascend along each axis. Missing values
        are NaN; units are the table's. Raw chunks are from south to north in memory, whatever their order in the file:
        then `flat.tiles.merge` moves nothing.
        """
        decoding = Decoding.of(self._dataset[field.name].attrs, BY_COLUMN[field.column])
        chunks = self._raw_chunks(field)
        if chunks is None:
            return self._by_library(field, hours, latitudes, longitudes, decoding, dtype)
        values = np.empty((latitudes.size, longitudes.size, hours.size), dtype=dtype)
        if field.is_from_the_north:
            values = values[::-1]
        read = delayed(chunks.read, pure=False)
        reads = [
            read(at, hours, latitudes, longitudes, decoding, values)
            for at in chunks.within(hours, latitudes, longitudes)
        ]
        filled: Delayed = delayed(_first, pure=False)(values, *reads)
        return filled

    def _raw_chunks(self, field: Field) -> RawChunks | None:
        """The field's chunks, if they can be read in several threads; libhdf5 reads in one at a time."""
        if field.name not in self._chunks:
            self._chunks[field.name] = None
            if self._by_chunks:
                from era5_pipeline.netcdf.raw_chunks import RawChunks  # noqa: PLC0415  # slow to import, optional

                # If the file is damaged, libhdf5 says so when it reads.
                with suppress(OSError, RuntimeError, ValueError, KeyError):
                    self._chunks[field.name] = RawChunks.find(self._file.path, field)
        return self._chunks[field.name]

    def _by_library(
        self,
        field: Field,
        hours: Positions,
        latitudes: Positions,
        longitudes: Positions,
        decoding: Decoding,
        dtype: npt.DTypeLike,
    ) -> da.Array | Floats:
        array = _three_axes(self._dataset, field)
        is_small = hours.size * latitudes.size * longitudes.size <= _FEW_VALUES

        def read(run: slice, rows: slice, columns: slice) -> Any:  # noqa: ANN401  # of NumPy or of dask
            part = array[run, rows, columns]
            return part.values if is_small else _stored(part, run.start, field.chunks[0])

        # Split into gapless runs: netCDF reads positions with gaps one by one, decompressing the chunk each time.
        parts = [
            [[read(run, rows, columns) for columns in _runs(longitudes)] for rows in _runs(latitudes)]
            for run in _runs(hours)
        ]
        if is_small:
            return decoding.decode(np.block(parts), dtype=dtype).transpose(1, 2, 0)
        stored = da.block(parts)  # type: ignore[no-untyped-call]
        meta = np.empty((0, 0, 0), dtype=dtype)
        values = stored.map_blocks(partial(decoding.decode, dtype=dtype), dtype=dtype, meta=meta)
        turned: da.Array = values.transpose(1, 2, 0)
        return turned


class WrittenReader:
    """Reads fields of a file from the values that this process wrote into it, by column."""

    def __init__(self, values: Mapping[str, Floats]) -> None:
        self._values = values

    def close(self) -> None:
        """Do nothing: no file is open."""

    def values(
        self,
        field: Field,
        hours: Positions,
        latitudes: Positions,
        longitudes: Positions,
        dtype: npt.DTypeLike = np.float32,
    ) -> Floats:
        """The values at these positions, as those of `FieldReader`."""
        stored = self._values[field.column][np.ix_(hours, latitudes, longitudes)]
        return Decoding.of({}, BY_COLUMN[field.column]).decode(stored, dtype=dtype).transpose(1, 2, 0)


def _first(values: Floats, *_: None) -> Floats:
    return values


def _stored(array: xr.DataArray, first_hour: int, chunk_hours: int) -> da.Array:
    """The array in dask, split at the file's chunk borders, so that no chunk is decompressed twice."""
    hours, latitudes, longitudes = array.shape
    chunk = max(1, chunk_hours)
    step = chunk * max(1, _DASK_CHUNK_VALUES // (chunk * latitudes * longitudes))
    borders = [0, *range(step - first_hour % chunk, hours, step), hours]
    pieces: da.Array = array.chunk(dict(zip(array.dims, (tuple(np.diff(borders).tolist()), -1, -1), strict=True))).data
    return pieces


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
