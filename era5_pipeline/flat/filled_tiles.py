"""A month's fields as tiles in memory: read with dask, merged where files overlap, cut into portions.

Reads one tile, and yields its values as portions of rows with their sums. For cutting the month into tiles and merging
overlapping values see `tiles`, for writing rows `flatten`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

# Functions instead of scheduler names: dask imports all of `distributed` to look up a name.
from dask.base import compute
from dask.local import get_sync as get_here
from dask.threaded import get as get_in_threads

from era5_pipeline.flat import tiles
from era5_pipeline.flat.day_accumulations import (
    add_up,
    amounts_of_rows,
    falls,
    lower_bound,
    seems_accumulated,
    wrong_day_sum,
)
from era5_pipeline.flat.formats import row_group_rows
from era5_pipeline.flat.statistics import RowWeights
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.land_mask import mask_of
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.model.words import counted
from era5_pipeline.netcdf.field_reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import dask.array as da
    import numpy.typing as npt
    from dask.delayed import Delayed

    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.flat.statistics import Anomalies, ColumnRules, RowSums
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.field_reader import Reader

    Flags = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

# Errors that netCDF4 and xarray raise for damaged data.
_READ_ERRORS = (RuntimeError, OSError, ValueError, IndexError)
# Threads that read and decode. Each holds a chunk of the file, of up to 16 MB; libhdf5 serves one of them at a time.
_READ_THREADS = min(8, max(2, os.cpu_count() or 2))


@dataclass(frozen=True, eq=False)
class FilledTile:
    """A tile with, by column, its parts, merged values (latitude, longitude, hour) and versions."""

    tile: tiles.Tile
    placed: Mapping[str, Sequence[tiles.Placed]]
    values: Mapping[str, Floats]
    versions: Mapping[str, tiles.HourVersions]


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows of some locations, about one row group: values (location, hour), their sums and anomalies, by column.

    `present` (location, hour) says which of these rows exist; None: all.
    """

    latitude_index: Indices
    longitude_index: Indices
    values: Mapping[str, Floats]
    present: Flags | None
    sums: Mapping[str, RowSums]
    anomalies: Mapping[str, Anomalies]


@dataclass(frozen=True, eq=False)
class CountedTile:
    """A tile as portions in the order of the rows, with its versions by column."""

    versions: Mapping[str, tiles.HourVersions]
    portions: Iterable[RowBlock]

    def __sizeof__(self) -> int:
        # For Dask workers, which spill to disk what exceeds their memory limit.
        held = self.portions if isinstance(self.portions, list) else []
        return sum(values.nbytes for portion in held for values in portion.values.values())


@dataclass(frozen=True)
class ColumnParts:
    """The parts of a column in the month; of sums since 00 UTC also those of the hour `before` it."""

    month: tuple[tiles.PieceHours, ...]
    before: tuple[tiles.PieceHours, ...] | None = None


def month_parts(inventory: Inventory) -> Mapping[str, ColumnParts]:
    """The month's parts by column."""
    return {
        column: ColumnParts(
            tiles.parts_of(inventory, column),
            tiles.parts_before(inventory, column) if inventory.is_summed(column) else None,
        )
        for column in inventory.columns
    }


def fill(
    tile: tiles.Tile,
    parts: Mapping[str, ColumnParts],
    readers: Mapping[NetcdfFile, Reader],
    inventory: Inventory,
) -> FilledTile:
    """Read and merge one tile of the month."""
    hours, grid = inventory.hours, inventory.grid
    versions = {column: tiles.HourVersions(hours.size) for column in parts}
    placed = {column: _placed(of_column.month, tile) for column, of_column in parts.items()}
    # One variable at a time, freeing its parts once merged; those of all six would not fit in memory.
    values: dict[str, Floats] = {}
    for column, of_column in placed.items():
        before = parts[column].before
        read = _read(of_column, readers, np.float32 if before is None else np.float64)
        merged = tiles.merge(of_column, read, tile, hours, versions[column], grid)
        del read
        _require_none_off_land(merged, of_column, tile, inventory)
        if inventory.is_accumulation_given:
            _require_as_given(merged, of_column, hours)
        if before is not None:
            sums = merged
            merged = _amounts(sums, _placed(before, tile), readers, tile, inventory)
            _require_sums(sums, merged, of_column, tile, inventory)
            del sums
        values[column] = merged
    return FilledTile(tile, placed, values, versions)


def _require_none_off_land(
    merged: npt.NDArray[np.floating[Any]], placed: Sequence[tiles.Placed], tile: tiles.Tile, inventory: Inventory
) -> None:
    """Refuse values where the data set has none; those between the grid points are not of one of them alone."""
    if (mask := mask_of(inventory.dataset)) is None or inventory.shift is not None:
        return
    off = ~mask[np.ix_(tile.latitude_index, tile.longitude_index)]
    has_value = ~np.isnan(merged[off]).all(axis=1)
    if not has_value.any():
        return
    row, column = np.argwhere(off)[has_value][0]
    place = inventory.grid.location(
        int(inventory.grid.location_ids(tile.latitude_index[row], tile.longitude_index[column]))
    )
    first = placed[0].part.piece
    files = ", ".join(dict.fromkeys(one.part.piece.file.shown for one in placed))
    raise BadFileError(
        files,
        f"{first.field.name} has values at {has_value.sum():,} points where {inventory.dataset.short_title} has none, "
        f"first at {place}",
        remedy=f"It is not as {inventory.dataset.short_title} was served: download it again, or move it out of the "
        "folder.",
    )


def _require_as_given(
    merged: npt.NDArray[np.floating[Any]], placed: Sequence[tiles.Placed], hours: npt.NDArray[np.int64]
) -> None:
    """Refuse amounts whose numbers contradict what the user said of them."""
    for one in placed:
        field = one.part.piece.field
        if BY_COLUMN[field.column].step_type != "accum":
            return
        is_summed = seems_accumulated(np.moveaxis(merged, -1, 0), hours)
        if is_summed is not None and is_summed != (field.accumulation == "day"):
            rules = {True: ("sums since 00 UTC", "day"), False: ("amounts of hours", "hour")}
            (found, word), (said, _) = rules[is_summed], rules[not is_summed]
            raise BadFileError(
                one.part.piece.file.shown,
                f"the numbers of {field.name} are {found}, not {said}",
                remedy=f"Say so: --accumulation {word} (ERA5_ACCUMULATION={word}).",
            )


def _require_sums(
    sums: npt.NDArray[np.floating[Any]],
    amounts: Floats,
    placed: Sequence[tiles.Placed],
    tile: tiles.Tile,
    inventory: Inventory,
) -> None:
    """Refuse sums since 00 UTC that fall within their day, and amounts that do not add up to that of the day.

    Sums and amounts are (latitude, longitude, hour). The first are no such sums; the second would be a defect.
    """
    field, hours = placed[0].part.piece.field, inventory.hours
    variable, step = BY_COLUMN[field.column], inventory.packing_steps[field.column]
    bound = lower_bound(variable, step)
    rows = (-1, hours.size)
    if add_up(sums.reshape(rows), amounts.reshape(rows), hours, bound, is_compiled=inventory.is_large):
        return
    for row, (of_row, row_sums) in enumerate(zip(amounts, sums, strict=True)):
        if (fallen := falls(of_row.T, hours, bound)) is not None:
            column, end = fallen.place[0], fallen.hour
            text = f"falls {counted(fallen.count, 'time')} between 01 and 00 UTC, by up to {fallen.by:.4g}"
            remedy = (
                f"Sums since 00 UTC do not fall by more than {-bound:.4g} {variable.unit}, by the packing of files. It "
                "may hold other amounts, or be damaged, or joined from files of several packings or versions: download "
                "it again, or move it out of the folder."
            )
        elif (day := wrong_day_sum(of_row.T, row_sums.T, hours)) is not None:
            column, end = day.place[0], day.end
            text = f"has the sum {day.stated:.9g} of a day, but its hours {day.summed:.9g}"
            remedy = "Load the month again; if it says the same, report it: the hours were computed wrongly."
        else:
            continue
        where = tiles.describe_place(
            inventory.grid, int(tile.latitude_index[row]), int(tile.longitude_index[column]), end
        )
        files = ", ".join(dict.fromkeys(one.part.piece.file.shown for one in placed))
        raise BadFileError(files, f"{field.name} {text} {variable.unit} at {where}", remedy=remedy)


def _placed(parts: Iterable[tiles.PieceHours], tile: tiles.Tile) -> list[tiles.Placed]:
    return [placed for part in parts for placed in tiles.places(part, tile)]


def _amounts(
    sums: npt.NDArray[np.floating[Any]],
    before: Sequence[tiles.Placed],
    readers: Mapping[NetcdfFile, Reader],
    tile: tiles.Tile,
    inventory: Inventory,
) -> Floats:
    """The amounts of hours from sums since 00 UTC, both (latitude, longitude, hour); `before` has the hour before."""
    before_hour = hour_of(inventory.month.start) - 1
    read = _read(before, readers, np.float64)
    last_sums = tiles.merge(before, read, tile, np.array([before_hour]), tiles.HourVersions(1), inventory.grid)
    amounts = amounts_of_rows(
        sums.reshape(-1, sums.shape[-1]),
        last_sums.reshape(-1),
        inventory.hours,
        before_hour,
        is_compiled=inventory.is_large,
    )
    return amounts.reshape(sums.shape)


def filled_tiles(inventory: Inventory, readers: Mapping[NetcdfFile, Reader]) -> Iterator[FilledTile]:
    """Read and merge the month, tile by tile."""
    parts = month_parts(inventory)
    for tile in tiles.cut_tiles(inventory):
        # Not bound to a name here, so that only the consumer decides when the memory is freed.
        yield fill(tile, parts, readers, inventory)


def counted_tile(filled: FilledTile, inventory: Inventory, rules: Mapping[str, ColumnRules]) -> CountedTile:
    """Cut a tile into portions, which are made and counted lazily during iteration."""
    return CountedTile(filled.versions, _portions(filled, inventory, rules))


def _portions(filled: FilledTile, inventory: Inventory, rules: Mapping[str, ColumnRules]) -> Iterator[RowBlock]:
    tile, hours = filled.tile, inventory.hours
    covered = tiles.covered_by([p for of_column in filled.placed.values() for p in of_column], tile, hours.size)
    # Row by row, so location_id ascends like the axes.
    latitude, longitude = np.nonzero(inventory.coverage[np.ix_(tile.latitude_index, tile.longitude_index)])
    flat_position = latitude * tile.longitude_index.size + longitude
    is_whole = flat_position.size == tile.latitude_index.size * tile.longitude_index.size
    step = max(1, row_group_rows(len(filled.values)) // hours.size)
    for start in range(0, flat_position.size, step):
        chosen = slice(start, start + step)
        # Usually all locations of the tile are wanted: then a slice avoids a copy.
        positions = chosen if is_whole else flat_position[chosen]
        values = {c: v.reshape(-1, hours.size)[positions] for c, v in filled.values.items()}
        present = None if covered is None else covered.reshape(-1, hours.size)[positions]
        latitude_index = tile.latitude_index[latitude[chosen]]
        longitude_index = tile.longitude_index[longitude[chosen]]
        weights = RowWeights(inventory.grid.location_ids(latitude_index, longitude_index), hours, present)
        areas = np.cos(np.radians(inventory.grid.latitudes_of(latitude_index), dtype=np.float64))
        sums = {column: rules[column].sums(of_column, weights, areas) for column, of_column in values.items()}
        at = (latitude_index, longitude_index)
        anomalies = {c: rules[c].anomalies(of_column, sums[c], at) for c, of_column in values.items()}
        yield RowBlock(latitude_index, longitude_index, values, present, sums, anomalies)


def _read(
    placed: Sequence[tiles.Placed], readers: Mapping[NetcdfFile, Reader], dtype: npt.DTypeLike
) -> tuple[npt.NDArray[np.floating[Any]], ...]:
    """Read the parts: values as (latitude, longitude, hour)."""

    def values_of(one: tiles.Placed) -> da.Array | Delayed | npt.NDArray[np.floating[Any]]:
        reader = readers[one.part.piece.file]
        return reader.values(one.part.piece.field, one.part.file_hours, one.file_latitudes, one.file_longitudes, dtype)

    try:
        read: tuple[npt.NDArray[np.floating[Any]], ...] = compute(  # type: ignore[no-untyped-call]
            *map(values_of, placed), scheduler=get_in_threads, num_workers=_READ_THREADS
        )
    except _READ_ERRORS:
        for one in placed:
            try:
                compute(values_of(one), scheduler=get_here)  # type: ignore[no-untyped-call]
            except _READ_ERRORS as error:
                file = one.part.piece.file
                raise BadFileError(
                    file.shown,
                    f"{one.part.piece.field.name} cannot be read, the file is damaged ({error})",
                    remedy="Download it again, or move it out of the folder.",
                ) from error
        raise
    return read


@contextmanager
def open_readers(inventory: Inventory) -> Iterator[Mapping[NetcdfFile, Reader]]:
    """Open every file of the inventory once."""
    with ExitStack() as stack:
        readers: dict[NetcdfFile, Reader] = {}
        for piece in (*inventory.pieces, *inventory.before):
            if piece.file not in readers:
                readers[piece.file] = open_reader(piece.file, by_chunks=inventory.is_large)
                stack.callback(readers[piece.file].close)
        yield readers
