"""Split a month into tiles (latitudes x longitudes x all hours) that fit into memory and follow the files' chunks.

A tile is the unit that is read, transposed and written: netCDF-4 chunks span many hours, so that reading hour by hour
would decompress each chunk many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.netcdf.contents import Field

    Indices = npt.NDArray[np.int32]

# Point-hours of one variable in a tile of six: 32 MB of float32 each, 192 MB in all. A tile of more variables has fewer
# of each, in proportion.
TARGET_POINT_HOURS = 8_000_000
_VARIABLES = 6
# A file's chunk larger than the target is read whole up to this size (96 MB a variable), and split beyond it: splitting
# means decompressing it several times, but more memory would exceed the limit of 2 GiB.
LARGEST_POINT_HOURS = 24_000_000


@dataclass(frozen=True)
class Tile:
    """Grid indices of a rectangle, (n,) and (m,), in the order of the file that it was cut from."""

    latitude_index: Indices
    longitude_index: Indices


def cut_tiles(inventory: Inventory) -> Iterator[Tile]:
    """Split the locations of the inventory into tiles, along the chunks of its largest field."""
    rows, columns = inventory.coverage.any(axis=1), inventory.coverage.any(axis=0)
    largest = max((piece.field for piece in inventory.pieces), key=_points)
    hours = max(1, inventory.hours.size)
    width, height = tile_size(largest, hours * max(_VARIABLES, len(inventory.columns)) // _VARIABLES)
    for latitudes in _blocks(largest.latitude_index, np.flatnonzero(rows), height):
        for longitudes in _blocks(largest.longitude_index, np.flatnonzero(columns), width):
            if inventory.coverage[np.ix_(latitudes, longitudes)].any():
                yield Tile(latitudes, longitudes)


def _points(field: Field) -> int:
    return field.latitude_index.size * field.longitude_index.size


def tile_size(field: Field, hours: int) -> tuple[int, int]:
    """Width and height of a tile in grid points, multiples of the field's chunks where these are not too large.

    `hours` are those of six variables; of more variables, more in proportion.
    """
    _, chunk_height, chunk_width = field.chunks
    chunk_height = min(chunk_height or 1, field.latitude_index.size)
    chunk_width = min(chunk_width or field.longitude_index.size, field.longitude_index.size)
    largest = max(1, LARGEST_POINT_HOURS // hours)
    target = max(1, TARGET_POINT_HOURS // hours)
    chunk_width = min(chunk_width, largest)
    chunk_height = max(1, min(chunk_height, largest // chunk_width))
    across = max(1, target // (chunk_width * chunk_height))
    width = min(field.longitude_index.size, chunk_width * across)
    # Several chunks high only where the tile spans the full width: otherwise tiles would overlap or leave gaps.
    down = max(1, target // (width * chunk_height)) if width == field.longitude_index.size else 1
    return width, min(field.latitude_index.size, chunk_height * down)


def _blocks(file_order: Indices, needed: npt.NDArray[np.intp], size: int) -> Iterator[Indices]:
    """The needed indices in blocks: first those in the file, split at multiples of `size` there, then the others."""
    # A meridian that the file holds twice (0 and 360) counts where it occurs first.
    wanted = np.zeros(file_order.size, dtype=np.bool_)
    wanted[np.unique(file_order, return_index=True)[1]] = True
    wanted &= np.isin(file_order, needed)
    for start in range(0, file_order.size, size):
        block = file_order[start : start + size][wanted[start : start + size]]
        if block.size:
            yield np.unique(block)
    lacking = np.setdiff1d(needed, file_order).astype(np.int32)
    for start in range(0, lacking.size, size):
        yield lacking[start : start + size]
