"""A month's fields as tiles in memory: read with dask from all files, and merged where files overlap.

Here: reading, one tile after another. Not here: what overlapping values become (`merge`), cutting the month into tiles
(`tiles`), or rows (`flatten`).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask.base import compute

from era5_pipeline.flat.merge import HourVersions, Placed, merge, parts_of, place
from era5_pipeline.flat.tiles import Tile, cut_tiles
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.netcdf.field_reader import FieldReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import dask.array as da
    import numpy as np
    import numpy.typing as npt

    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.netcdf.archive import NetcdfFile

    Floats = npt.NDArray[np.float32]

# What netCDF4 and xarray raise for damaged data.
_READ_ERRORS = (RuntimeError, OSError, ValueError, IndexError)
# Threads that read and decode: HDF5 serves one at a time, so that more than two would only use memory.
_READ_THREADS = 2


@dataclass(frozen=True)
class FilledTile:
    """A tile, the parts in it by column, and the merged values by column: (latitude, longitude, hour)."""

    tile: Tile
    placed: Mapping[str, Sequence[Placed]]
    values: Mapping[str, Floats]


def filled_tiles(
    inventory: Inventory, readers: Mapping[NetcdfFile, FieldReader], versions: Mapping[str, HourVersions]
) -> Iterator[FilledTile]:
    """Read and merge the month, tile by tile; `versions` (by column) learn which version each hour has.

    Raises:
        InputError: if files contradict each other, or one cannot be read.
    """
    parts = {column: parts_of(inventory, column) for column in inventory.columns}
    for tile in cut_tiles(inventory):
        placed = {
            column: [p for p in (place(part, tile) for part in of_column) if p is not None]
            for column, of_column in parts.items()
        }
        # One variable at a time: its parts are freed once they are merged; those of all six would not fit. Yielded
        # without a name here, so that the consumer alone decides when the memory is freed.
        yield FilledTile(
            tile,
            placed,
            {
                column: merge(of_column, _read(of_column, readers), tile, inventory.hours, versions[column])
                for column, of_column in placed.items()
            },
        )


def _read(placed: Sequence[Placed], readers: Mapping[NetcdfFile, FieldReader]) -> tuple[Floats, ...]:
    lazy = [
        readers[p.part.piece.file].lazy(p.part.piece.field, p.part.file_hours, p.file_latitudes, p.file_longitudes)
        for p in placed
    ]
    return _compute(placed, lazy)


def _compute(placed: Sequence[Placed], arrays: Sequence[da.Array]) -> tuple[Floats, ...]:
    """Read the arrays, one per part: values as (latitude, longitude, hour), a view of (hour, ...) in memory.

    Raises:
        BadFileError: naming the file that cannot be read.
    """
    try:
        read = compute(*arrays, scheduler="threads", num_workers=_READ_THREADS)  # type: ignore[no-untyped-call]
    except _READ_ERRORS:
        for one, array in zip(placed, arrays, strict=True):
            try:
                compute(array, scheduler="synchronous")  # type: ignore[no-untyped-call]
            except _READ_ERRORS as error:
                file = one.part.piece.file
                raise BadFileError(
                    file.shown,
                    f"{one.part.piece.field.name} cannot be read, the file is damaged ({error})",
                    remedy="Download it again, or move it out of the folder.",
                ) from error
        raise
    return tuple(values.transpose(1, 2, 0) for values in read)


@contextmanager
def open_readers(inventory: Inventory) -> Iterator[Mapping[NetcdfFile, FieldReader]]:
    """Open every netCDF file of the inventory, once."""
    with ExitStack() as stack:
        readers: dict[NetcdfFile, FieldReader] = {}
        for piece in inventory.pieces:
            if piece.file not in readers:
                readers[piece.file] = FieldReader(piece.file)
                stack.callback(readers[piece.file].close)
        yield readers
