"""Split a month into tiles that fit into memory, and merge pieces of one variable: final before preliminary."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import InputError
from era5_pipeline.model.source_kinds import FINAL
from era5_pipeline.model.times import hour_of, time_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.netcdf.contents import UNKNOWN_EXPVER, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from era5_pipeline.flat.inventory import Inventory, Piece
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.netcdf.contents import Field

    Indices = npt.NDArray[np.int32]
    Floats = npt.NDArray[np.floating[Any]]
    Positions = npt.NDArray[np.intp]

# --- Split a month into tiles (latitudes x longitudes x all hours) that fit in memory and follow the files' chunks ---
#
# A tile is the unit that is read, transposed and written: netCDF-4 chunks span many hours, so that reading hour by
# hour would decompress each chunk many times.


# Point-hours of one variable in a tile of six: 32 MB of float32 each, 192 MB in all. Tiles with more variables have
# proportionally fewer of each.
TARGET_POINT_HOURS = 8_000_000
_VARIABLES = 6
# A file's chunk above the target is read whole up to this size (96 MB per variable), and split beyond it: splitting
# decompresses it several times, but more memory would exceed the limit of 2 GiB.
LARGEST_POINT_HOURS = 24_000_000


@dataclass(frozen=True)
class Tile:
    """Grid indices of a rectangle, (n,) and (m,), in the order of its source file."""

    latitude_index: Indices
    longitude_index: Indices


def cut_tiles(inventory: Inventory) -> Iterator[Tile]:
    """Split the locations of the inventory into tiles, along the chunks of its largest field."""
    rows, columns = inventory.coverage.any(axis=1), inventory.coverage.any(axis=0)
    fields = (piece.field for piece in inventory.pieces)
    largest = max(fields, key=lambda field: field.latitude_index.size * field.longitude_index.size)
    hours = max(1, inventory.hours.size)
    width, height = tile_size(largest, hours * max(_VARIABLES, len(inventory.columns)) // _VARIABLES)
    for latitudes in _blocks(largest.latitude_index, np.flatnonzero(rows), height):
        for longitudes in _blocks(largest.longitude_index, np.flatnonzero(columns), width):
            if inventory.coverage[np.ix_(latitudes, longitudes)].any():
                yield Tile(latitudes, longitudes)


def tile_size(field: Field, hours: int) -> tuple[int, int]:
    """Width and height of a tile in grid points, multiples of the field's chunks unless these are too large.

    `hours` assumes six variables; with more, it is proportionally larger.
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
    # Several chunks high only if the tile spans the full width; otherwise tiles would overlap or leave gaps.
    down = max(1, target // (width * chunk_height)) if width == field.longitude_index.size else 1
    return width, min(field.latitude_index.size, chunk_height * down)


def _blocks(file_order: Indices, needed: npt.NDArray[np.intp], size: int) -> Iterator[Indices]:
    """The needed indices in blocks: first those in the file, split at its multiples of `size`, then the others."""
    # A meridian stored twice (0 and 360) counts at its first occurrence.
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


@dataclass(frozen=True)
class PieceHours:
    """Distinct hours of a piece with one version, (n,) positions in the file and in the month."""

    piece: Piece
    expver: str
    file_hours: Positions
    month_hours: Positions

    @property
    def is_final(self) -> bool:
        """True if its values are final; files without a version count as final, as all old files are."""
        return self.expver in (FINAL, UNKNOWN_EXPVER)


@dataclass(frozen=True)
class Placed:
    """A part's place in a tile: ascending positions in the file, and the corresponding ones in the tile."""

    part: PieceHours
    file_latitudes: Positions
    file_longitudes: Positions
    tile_latitudes: Positions
    tile_longitudes: Positions


@dataclass
class HourVersions:
    """Records for which hours of the month each version provided values of one column."""

    hours: int
    seen: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def add(self, expver: str, month_hours: Positions, gave: npt.NDArray[np.bool_]) -> None:
        """Record at which of these hours `expver` provided values; `gave` (n,) bool."""
        flags = self.seen.setdefault(expver, np.zeros(self.hours, dtype=np.bool_))
        flags[month_hours] |= gave

    def add_all(self, other: HourVersions) -> None:
        """Add another record of the same hours."""
        every_hour = np.arange(self.hours)
        for expver, flags in other.seen.items():
            self.add(expver, every_hour, flags)

    def counts(self) -> dict[str, int]:
        """Hour counts per version, for versions that provided any value."""
        return {expver: int(flags.sum()) for expver, flags in sorted(self.seen.items()) if flags.any()}

    def positions(self, expver: str) -> Positions:
        """Positions of the hours, (n,) ascending, at which `expver` provided at least one value."""
        return np.flatnonzero(self.seen.get(expver, np.zeros(0, dtype=np.bool_)))


def parts_of(inventory: Inventory, column: str) -> tuple[PieceHours, ...]:
    """The parts of a column in order of precedence: final first, then those with the smaller packing step.

    Hours that a piece has more than once are several parts, so that they are compared as those of several files are.
    """
    month = inventory.month
    pieces = [(piece, piece.field.positions_in(month)) for piece in inventory.column_pieces(column)]
    return _in_order_of_precedence(pieces, inventory.hours)


def parts_before(inventory: Inventory, column: str) -> tuple[PieceHours, ...]:
    """The same of the hour before the month, for a column of sums since 00 UTC: its `month_hours` are 0."""
    hour = hour_of(inventory.month.start) - 1
    own = [piece for piece in inventory.before if piece.field.column == column]
    pieces = [(piece, np.flatnonzero(piece.field.hours == hour)) for piece in own]
    return _in_order_of_precedence(pieces, np.array([hour]))


def _in_order_of_precedence(
    pieces: Iterable[tuple[Piece, Positions]], hours: npt.NDArray[np.int64]
) -> tuple[PieceHours, ...]:
    """The parts of pieces at these positions in their files, of these hours in all."""
    parts = []
    for piece, positions in pieces:
        versions = piece.field.expver[positions]
        for expver in distinct_texts(versions):
            of_version = positions[versions == expver]
            for distinct in _distinct(piece.field.hours[of_version]):
                file_hours = of_version[distinct]
                month_hours = np.searchsorted(hours, piece.field.hours[file_hours])
                parts.append(PieceHours(piece, expver, file_hours, month_hours))
    return tuple(sorted(parts, key=lambda part: (not part.is_final, part.piece.field.half_step, part.piece.file.shown)))


def places(part: PieceHours, tile: Tile) -> Iterator[Placed]:
    """Find the part's places in the tile: none if they do not overlap, several if the file repeats a meridian.

    Some global files have the first meridian at the end, too (0 and 360, or -180 and 180).
    """
    field = part.piece.field
    for file_latitudes, tile_latitudes in _meet(field.latitude_index, tile.latitude_index):
        for file_longitudes, tile_longitudes in _meet(field.longitude_index, tile.longitude_index):
            yield Placed(part, file_latitudes, file_longitudes, tile_latitudes, tile_longitudes)


def _meet(in_file: npt.NDArray[np.int32], in_tile: npt.NDArray[np.int32]) -> Iterator[tuple[Positions, Positions]]:
    """Positions of the common indices, ascending and distinct in the file, and those in the (sorted) tile."""
    common = np.flatnonzero(np.isin(in_file, in_tile))
    for distinct in _distinct(in_file[common]):
        positions = common[distinct]
        yield positions, np.searchsorted(in_tile, in_file[positions])


def _distinct(numbers: npt.NDArray[np.integer[Any]]) -> Iterator[Positions]:
    """Split the positions of the numbers so that none is repeated: their first occurrences, the second ones, and on."""
    left = np.arange(numbers.size)
    if left.size and (np.diff(numbers) > 0).all():  # nearly always, and found in a tenth of the time
        yield left
        return
    while left.size:
        first = np.sort(np.unique(numbers[left], return_index=True)[1])
        yield left[first]
        left = np.delete(left, first)


def merge(
    placed: Sequence[Placed],
    read: Sequence[Floats],
    tile: Tile,
    hours: npt.NDArray[np.int64],
    versions: HourVersions,
    grid: Grid,
) -> Floats:
    """Overlay the parts, `read` in the order of `placed`: (latitude, longitude, hour), of the type that was read.

    Values in no part are NaN. Latitudes and longitudes are in the tile's order.
    """
    shape = (tile.latitude_index.size, tile.longitude_index.size, hours.size)
    whole = _whole_tile(placed[0], read[0], shape) if len(placed) == 1 else None
    if whole is not None:
        versions.add(placed[0].part.expver, placed[0].part.month_hours, _hours_with_values(whole))
        return whole
    merged: Floats = np.empty(shape, dtype=read[0].dtype if read else np.float32)
    if not (placed and _fills(placed[0], shape)):
        merged.fill(np.nan)
    laid = np.zeros(hours.size, dtype=np.bool_)
    settled: npt.NDArray[np.bool_] | None = None
    for number, (one, values) in enumerate(zip(placed, read, strict=True)):
        if settled is None and not one.part.is_final:
            # Preliminary values may differ from final ones, so exclude the latter from the comparison.
            settled = ~np.isnan(merged) if number else np.zeros(shape, dtype=np.bool_)
        if not laid[one.part.month_hours].any():
            # The usual and by far the fastest case: no other part has values there.
            for longitudes, window in _windows(one):
                merged[window] = values[:, longitudes]
            versions.add(one.part.expver, one.part.month_hours, _hours_with_values(values))
        else:
            where = np.ix_(one.tile_latitudes, one.tile_longitudes, one.part.month_hours)
            before = merged[where]
            empty, given = np.isnan(before), ~np.isnan(values)
            comparable = given & ~empty
            if settled is not None:
                comparable &= ~settled[where]
            if comparable.any():
                _require_agreement(one, placed[:number], before, values, comparable, tile, hours, grid)
            merged[where] = np.where(empty, values, before)
            versions.add(one.part.expver, one.part.month_hours, _hours_with_values(np.where(empty, values, np.nan)))
        laid[one.part.month_hours] = True
    return merged


def _fills(placed: Placed, shape: tuple[int, int, int]) -> bool:
    """Return True if the part covers the whole tile, of this shape."""
    return (placed.tile_latitudes.size, placed.tile_longitudes.size, placed.part.month_hours.size) == shape


def _whole_tile(placed: Placed, values: Floats, shape: tuple[int, int, int]) -> Floats | None:
    """The values of the part as those of the tile, if nothing has to be moved for that; None otherwise.

    The usual case for files that are read chunk by chunk, also from north to south.
    """
    if not _fills(placed, shape):
        return None
    step = -1 if placed.tile_latitudes[0] > placed.tile_latitudes[-1] else 1
    axes = (placed.tile_latitudes[::step], placed.tile_longitudes, placed.part.month_hours)
    is_in_order = all(bool((np.diff(positions) > 0).all()) for positions in axes)
    turned = values[::step]
    return turned if is_in_order and turned.flags.c_contiguous else None


def _windows(placed: Placed) -> Iterator[tuple[slice, tuple[slice | Positions, ...]]]:
    """Longitudes of the part, and where they are in the tile: as slices if possible, which copy several times as fast.

    The circle of longitudes may begin elsewhere in the file; then there are two windows.
    """
    axes = (placed.tile_latitudes, placed.tile_longitudes, placed.part.month_hours)
    latitudes, month_hours = _as_slice(axes[0]), _as_slice(axes[2])
    (begins,) = np.nonzero(np.diff(axes[1], prepend=axes[1][0]) < -1)
    cuts = [0, *begins.tolist(), axes[1].size]
    longitudes = [_as_slice(axes[1][start:end]) for start, end in pairwise(cuts)]
    if latitudes is None or month_hours is None or None in longitudes:
        yield slice(None), np.ix_(*axes)
        return
    for (start, end), of_tile in zip(pairwise(cuts), longitudes, strict=True):
        assert of_tile is not None  # noqa: S101  # see above
        yield slice(start, end), (latitudes, of_tile, month_hours)


def _as_slice(positions: Positions) -> slice | None:
    """The slice of consecutive positions, ascending or descending (files list latitudes from north to south)."""
    step = -1 if positions.size > 1 and positions[1] < positions[0] else 1
    first, last = int(positions[0]), int(positions[-1])
    if not np.array_equal(positions, np.arange(first, last + step, step)):
        return None
    return slice(first, last + step if last + step >= 0 else None, step)


def _hours_with_values(values: Floats) -> npt.NDArray[np.bool_]:
    """Mask of the hours, (n,), when any location of (latitude, longitude, hour) has a value; the first usually has."""
    has: npt.NDArray[np.bool_] = ~np.isnan(values[0, 0])
    for hour in np.flatnonzero(~has):
        has[hour] = not np.isnan(values[:, :, hour]).all()
    return has


def _require_agreement(
    one: Placed,
    earlier: Sequence[Placed],
    before: Floats,
    values: Floats,
    comparable: npt.NDArray[np.bool_],
    tile: Tile,
    hours: npt.NDArray[np.int64],
    grid: Grid,
) -> None:
    # Two packings of one field may each be off by half a step, plus the rounding to float32 of the file's value (in
    # kelvin), which near 0 degC is coarser than that of the table's value.
    steps = one.part.piece.field.half_step + max(other.part.piece.field.half_step for other in earlier)
    offset = np.float32(BY_COLUMN[one.part.piece.field.column].offset)
    with np.errstate(invalid="ignore"):
        apart = np.abs(before.astype(np.float64) - values)
        rounding = np.spacing(np.abs(values) + np.abs(offset))
        differs = comparable & (apart > steps + 2.0 * rounding)
    if not differs.any():
        return
    latitude, longitude, hour = (int(axis[0]) for axis in np.nonzero(differs))
    place_in_tile = (
        int(one.tile_latitudes[latitude]),
        int(one.tile_longitudes[longitude]),
        int(one.part.month_hours[hour]),
    )
    other = next((o for o in reversed(earlier) if _holds(o, place_in_tile)), earlier[-1])
    column = one.part.piece.field.column
    in_rows, in_columns, in_hours = place_in_tile
    where = describe_place(
        grid, int(tile.latitude_index[in_rows]), int(tile.longitude_index[in_columns]), int(hours[in_hours])
    )
    shown = [of.part.piece.file.shown for of in (other, one)]
    said = f"{where}: {before[latitude, longitude, hour]:g} and {values[latitude, longitude, hour]:g}"
    if shown[0] == shown[1]:
        raise InputError(
            f"{column}: {shown[0]} contradicts itself, with two values at {said}",
            remedy="If it was joined from several files, load those in its place, from before they were joined; else "
            "download it again.",
        )
    raise InputError(
        f"{column}: {shown[0]} and {shown[1]} contradict each other at {said}",
        remedy="Keep the correct one in the folder, and move the other out of it.",
    )


def _holds(placed: Placed, place_in_tile: tuple[int, int, int]) -> bool:
    latitude, longitude, hour = place_in_tile
    return latitude in placed.tile_latitudes and longitude in placed.tile_longitudes and hour in placed.part.month_hours


def describe_place(grid: Grid, latitude_index: int, longitude_index: int, hour: int) -> str:
    """Describe a place and an hour since 1970: `latitude 25.5, longitude 51.25, 2023-07-01T00:00Z`."""
    latitude, longitude = grid.latitudes_of(latitude_index), grid.longitudes_of(longitude_index)
    return f"latitude {latitude:g}, longitude {longitude:g}, {time_of(hour):%Y-%m-%dT%H:00Z}"


def covered_by(placed: Sequence[Placed], tile: Tile, hours: int) -> npt.NDArray[np.bool_] | None:
    """A mask of the tile's (latitude, longitude, hour) covered by any part, with or without a value; None: all."""
    full = (tile.latitude_index.size, tile.longitude_index.size, hours)
    covered: npt.NDArray[np.bool_] | None = None
    for one in placed:
        if _fills(one, full):
            return None
        if covered is None:
            covered = np.zeros(full, dtype=np.bool_)
        covered[np.ix_(one.tile_latitudes, one.tile_longitudes, one.part.month_hours)] = True
    return np.zeros(full, dtype=np.bool_) if covered is None else covered
