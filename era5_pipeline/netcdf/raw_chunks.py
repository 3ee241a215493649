"""Read the chunks of a netCDF-4 variable without libhdf5, in several threads: inflated, decoded and turned in one step.

libhdf5 serves one thread at a time, and hands out hours of a map, which must then be turned to locations with their
hours. Here it only says where the chunks lie. Variables that are not stored as the CDS and xarray store them (float32
or int16, shuffle and zlib, three dimensions) are left to `field_reader`, which gives the same values.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from isal import isal_zlib

from era5_pipeline.runtime.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.netcdf.contents import Field
    from era5_pipeline.netcdf.decoding import Decoding

    Floats = npt.NDArray[np.floating[Any]]
    Positions = npt.NDArray[np.intp]

_SHUFFLE, _DEFLATE = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE
_TYPES = (np.dtype("<f4"), np.dtype("<i2"))
# A file of many years may have more, and is opened for each of its months: listing 10,000 takes 30 ms.
_MOST_CHUNKS = 10_000
# Locations that are transposed together: a cache line of each byte of a value.
_TURNED = 64


@dataclass(frozen=True, eq=False)
class RawChunks:
    """A variable whose chunks can be read in any thread; (hour, latitude, longitude) as in its file.

    `starts` and `sizes` (n, m, k) are the bytes of each chunk in the file.
    """

    path: Path
    name: str
    dtype: np.dtype[Any]
    is_shuffled: bool
    shape: tuple[int, int, int]
    chunk: tuple[int, int, int]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def find(cls, path: Path, field: Field) -> RawChunks | None:
        """Find the chunks of a field; None if it is stored in another way."""
        if None in field.dimensions or field.expver_position is not None or not all(field.chunks):
            return None
        with h5py.File(path, "r", locking=False) as file:
            data = file[field.name]
            filters = data.id.get_create_plist()
            codes = [filters.get_filter(number)[0] for number in range(filters.get_nfilters())]
            sizes = (field.hours.size, field.latitude_index.size, field.longitude_index.size)
            names = tuple(scale[0].name.rpartition("/")[2] if len(scale) else None for scale in data.dims)
            if (
                data.shape != sizes
                or names != field.dimensions
                or data.dtype not in _TYPES
                or codes not in ([_DEFLATE], [_SHUFFLE, _DEFLATE])
                or file.userblock_size
            ):
                return None
            if np.prod(data.shape) > _MOST_CHUNKS * np.prod(data.chunks):
                return None
            grid = tuple(-(-size // chunk) for size, chunk in zip(data.shape, data.chunks, strict=True))
            starts, stored = np.full(grid, -1, dtype=np.int64), np.zeros(grid, dtype=np.int64)
            masks = []

            def add(info: h5py.h5d.StoreInfo) -> None:
                at = tuple(offset // size for offset, size in zip(info.chunk_offset, data.chunks, strict=True))
                starts[at], stored[at] = info.byte_offset, info.size
                masks.append(info.filter_mask)

            data.id.chunk_iter(add)
            # A chunk that was never written, or without one of the filters.
            if (starts < 0).any() or any(masks):
                return None
            return cls(path, field.name, data.dtype, _SHUFFLE in codes, data.shape, data.chunks, starts, stored)

    def within(self, hours: Positions, latitudes: Positions, longitudes: Positions) -> Iterator[tuple[int, int, int]]:
        """The chunks, by their place among all, that hold any of these positions."""
        axes = (hours, latitudes, longitudes)
        return product(*(np.unique(axis // size).tolist() for axis, size in zip(axes, self.chunk, strict=True)))

    def read(
        self,
        at: tuple[int, int, int],
        hours: Positions,
        latitudes: Positions,
        longitudes: Positions,
        decoding: Decoding,
        out: Floats,
    ) -> None:
        """Read the chunk at this place among all, and put its values at these positions into `out`.

        `out` (latitude, longitude, hour) has the positions of all chunks, in order. NaN where missing.
        """
        stored = self._inflated(at)
        steps = np.array(decoding.steps, dtype=np.float64).reshape(-1, 2)
        dtype = np.dtype(f"<u{self.dtype.itemsize}") if decoding.is_unsigned else self.dtype
        fills = np.array([np.asarray(fill).astype(dtype) for fill in decoding.fills], dtype=dtype)
        turn = _turn_floats if self.dtype.kind == "f" else _turn_integers
        axes = zip((hours, latitudes, longitudes), at, self.chunk, strict=True)
        runs = [_runs(positions, number * size, size) for positions, number, size in axes]
        for (*in_hours, to_hour), (*in_rows, to_row), (*in_columns, to_column) in product(*runs):
            box = np.array([in_hours, in_rows, in_columns])
            turn(stored, self.chunk, box, steps, fills, out[to_row:, to_column:, to_hour:])

    def _inflated(self, at: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
        size = math.prod(self.chunk) * self.dtype.itemsize
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            packed = os.pread(descriptor, int(self.sizes[at]), int(self.starts[at]))
        finally:
            os.close(descriptor)
        inflating = isal_zlib.decompressobj()
        try:
            # No more than that, whatever a damaged or malicious chunk would become.
            data = inflating.decompress(packed, size + 1)
        except isal_zlib.error as error:  # type: ignore[misc]  # it has no types
            raise ValueError(str(error)) from error
        if len(data) != size or not inflating.eof:
            raise ValueError(f"a chunk has other than {size} bytes, or ends too early")
        by_value = (-1, self.dtype.itemsize)
        values = np.frombuffer(data, dtype=np.uint8)
        return values.reshape(by_value[::-1]) if self.is_shuffled else np.ascontiguousarray(values.reshape(by_value).T)


def _runs(positions: Positions, start: int, size: int) -> list[tuple[int, int, int]]:
    """Runs of positions without gaps in a chunk of this start and size: first and end in it, and the first's number."""
    first, end = np.searchsorted(positions, (start, start + size))
    within = positions[first:end] - start
    ends = [*(np.flatnonzero(within[1:] - within[:-1] != 1) + 1).tolist(), within.size]
    return [(int(within[begin]), int(within[end - 1]) + 1, int(first) + begin) for begin, end in pairwise([0, *ends])]


def load_compiled() -> None:
    """Load the functions for float32, which the first call would do otherwise."""
    stored = np.frombuffer(bytes(4), dtype=np.uint8).reshape(4, 1)
    box, steps, fills = np.array([[0, 1]] * 3), np.empty((0, 2)), np.empty(0, dtype=np.float32)
    out = np.empty((2, 1, 2), dtype=np.float32)
    for part in (out, out[:, :, 1:]):  # contiguous or not
        _turn_floats(stored, (1, 1, 1), box, steps, fills, part)


@compiled
def _turn_floats(stored: Any, shape: Any, box: Any, steps: Any, fills: Any, out: Any) -> None:
    """Put float32 values of a box of a chunk of this shape into `out` (latitude, longitude, hour).

    `stored` (4, n) are the bytes of the chunk's values, the lowest first; `box` (3, 2) the first position in the chunk
    and the end, along (hour, latitude, longitude).
    """
    bits = np.empty((box[0, 1] - box[0, 0], _TURNED), dtype=np.uint32)
    values = bits.view(np.float32)
    decoded = np.empty(values.shape, dtype=out.dtype)
    for row in range(box[1, 0], box[1, 1]):
        for first in range(box[2, 0], box[2, 1], _TURNED):
            count = min(_TURNED, box[2, 1] - first)
            for hour in range(box[0, 0], box[0, 1]):
                start = (hour * shape[1] + row) * shape[2] + first
                at = slice(start, start + count)
                a, b, c, d = stored[0, at], stored[1, at], stored[2, at], stored[3, at]
                line = bits[hour - box[0, 0]]
                for column in range(count):
                    line[column] = (
                        np.uint32(a[column])
                        | (np.uint32(b[column]) << np.uint32(8))
                        | (np.uint32(c[column]) << np.uint32(16))
                        | (np.uint32(d[column]) << np.uint32(24))
                    )
                _decode(values[hour - box[0, 0]], decoded[hour - box[0, 0]], count, steps, fills)
            _put(decoded, count, out[row - box[1, 0], first - box[2, 0] :])


@compiled
def _turn_integers(stored: Any, shape: Any, box: Any, steps: Any, fills: Any, out: Any) -> None:
    """The same with packed numbers of two bytes, signed or not as `fills`."""
    bits = np.empty(_TURNED, dtype=np.uint16)
    numbers = bits.view(fills.dtype)
    values = np.empty((box[0, 1] - box[0, 0], _TURNED), dtype=out.dtype)
    for row in range(box[1, 0], box[1, 1]):
        for first in range(box[2, 0], box[2, 1], _TURNED):
            count = min(_TURNED, box[2, 1] - first)
            for hour in range(box[0, 0], box[0, 1]):
                start = (hour * shape[1] + row) * shape[2] + first
                low, high = stored[0, start : start + count], stored[1, start : start + count]
                for column in range(count):
                    bits[column] = np.uint16(low[column]) | (np.uint16(high[column]) << np.uint16(8))
                _decode(numbers, values[hour - box[0, 0]], count, steps, fills)
            _put(values, count, out[row - box[1, 0], first - box[2, 0] :])


@compiled
def _decode(numbers: Any, values: Any, count: int, steps: Any, fills: Any) -> None:
    """Decode as `Decoding` does."""
    if fills.size:
        missing = np.zeros(_TURNED, dtype=np.bool_)
        for fill in fills:
            for column in range(count):
                missing[column] |= numbers[column] == fill
        _convert(numbers, values, count, steps)
        for column in range(count):
            if missing[column]:
                values[column] = np.nan
    else:
        _convert(numbers, values, count, steps)


@compiled
def _convert(numbers: Any, values: Any, count: int, steps: Any) -> None:
    if len(steps) == 0:
        for column in range(count):
            values[column] = numbers[column]
    elif len(steps) == 1:
        scale, offset = steps[0]
        for column in range(count):
            values[column] = np.float64(numbers[column]) * scale + offset
    else:
        scale, offset = steps[0]
        scale_2, offset_2 = steps[1]
        for column in range(count):
            values[column] = (np.float64(numbers[column]) * scale + offset) * scale_2 + offset_2


@compiled
def _put(values: Any, count: int, out: Any) -> None:
    """Turn (hour, longitude) to (longitude, hour)."""
    for column in range(count):
        line = out[column]
        for hour in range(values.shape[0]):
            line[hour] = values[hour, column]
