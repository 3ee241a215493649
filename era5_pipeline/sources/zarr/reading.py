"""Read the chunks of a Zarr store, each once: which of them, in which blocks, and what their values are.

A *unit* is the hours of a time chunk, or a day's worth of shorter ones, at all places wanted. It is read in blocks of
whole chunks and gathered in a `Gathered`, which is in memory or, if it is large, a file that outlives the process.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import Era5Error, MonthFailedError, disk_errors
from era5_pipeline.model.times import describe_hours, hour_of
from era5_pipeline.runtime.files import digest_of, read_json, reserve, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.cds_files import Axes
    from era5_pipeline.sources.zarr.layout import ChunkGrid, Geometry, Layout, StoredArray
    from era5_pipeline.sources.zarr.store import ReadOnlyStore

    Floats = npt.NDArray[np.float32]
    Positions = npt.NDArray[np.intp]

# Decoded bytes of the chunks that are read together.
_BLOCK_BYTES = 64 << 20
# A unit up to this size, or of up to a day, is gathered in memory; a kill loses it.
_IN_MEMORY_BYTES = 256 << 20
_DAY = 24
# Blocks that are read at once, as far as their decoded chunks together are no more than one large block.
_AT_ONCE = 8
_TRIES = 3
# One block of so many is read twice where no checksum guards the chunks: it costs 6 % more requests.
_SAMPLE = 16
_AGAIN = "Run it again: the chunk is then read again. If that does not help, tell whoever runs the store."


# --- Units and blocks: pure ---


def unit_hours(layout: Geometry) -> int:
    """Hours of a unit: a time chunk, or as many short ones as fit into a day."""
    chunk = layout.time_chunk
    return chunk * max(1, _DAY // chunk)


def units_of(layout: Geometry, hours: range) -> tuple[int, ...]:
    """The numbers of the units with any of these hours that the store has, ascending."""
    held = range(max(hours.start, layout.hours.start), min(hours.stop, layout.hours.stop))
    if not held:
        return ()
    length = unit_hours(layout)
    return tuple(range(layout.position_of(held.start) // length, layout.position_of(held.stop - 1) // length + 1))


def hours_of_unit(layout: Geometry, number: int) -> range:
    """The unit's hours that the store has."""
    first = layout.hour_at(number * unit_hours(layout))
    return range(max(first, layout.hours.start), min(first + unit_hours(layout), layout.hours.stop))


@dataclass(frozen=True)
class Block:
    """Whole chunks of an array, the `number`th of the layout's, that are read together, and what of them is wanted.

    `rows` and `columns` are positions in the store; `to_rows`, `to_columns` where their values go.
    """

    number: int
    array: ChunkGrid
    hours: slice
    rows: Positions
    columns: Positions
    to_rows: Positions
    to_columns: Positions
    chunks: int

    @property
    def key(self) -> str:
        """A name, unique among the blocks of a unit."""
        return f"{self.array.name}-{self.hours.start}-{self.rows[0]}-{self.columns[0]}"

    def read(self, array: StoredArray) -> Floats:
        """Read the wanted values, (hour, latitude, longitude)."""
        rows, columns = _spanned(self.rows), _spanned(self.columns)
        values = array.read(self.hours, rows, columns)
        return values[:, _as_slice(self.rows - rows.start)][:, :, _as_slice(self.columns - columns.start)]


def _spanned(positions: Positions) -> slice:
    return slice(int(positions.min()), int(positions.max()) + 1)


def _as_slice(positions: Positions) -> slice | Positions:
    """The positions as a slice, which is several times faster, if they ascend one by one."""
    return _spanned(positions) if (np.diff(positions) == 1).all() else positions


def blocks_of(layout: Geometry, axes: Axes, number: int) -> Iterator[Block]:
    """The blocks of a unit, which together have each chunk with any place of `axes` once.

    A block has up to 64 MB of decoded chunks, or a single chunk: it is split by place, and by time only if several time
    chunks are in the unit.
    """
    rows, columns = positions_of(layout, axes)
    hours = hours_of_unit(layout, number)
    first, last = layout.position_of(hours.start), layout.position_of(hours.stop - 1)
    for n, array in enumerate(layout.arrays):
        # Chunks of a small shard are read together, by one request.
        chunk = array.shard if array.bytes_of(array.shard) <= _BLOCK_BYTES else array.chunk
        times = array.shard[0]
        one = array.bytes_of((times, chunk[1], chunk[2]))
        row_runs, column_runs = _runs(rows, chunk[1]), _runs(columns, chunk[2])
        across = sum(len(run) for run in column_runs)
        along = sum(len(run) for run in row_runs)
        at_once = max(1, _BLOCK_BYTES // one)
        times_at_once = max(1, at_once // (across * along))
        for start in range(first // times * times, last + 1, times * times_at_once):
            own = slice(max(first, start), min(last + 1, start + times * times_at_once))
            for row_run in _split(row_runs, max(1, at_once // across)):
                for column_run in _split(column_runs, at_once):
                    to_rows = np.flatnonzero(np.isin(rows // chunk[1], row_run))
                    to_columns = np.flatnonzero(np.isin(columns // chunk[2], column_run))
                    count = len(row_run) * len(column_run) * math.ceil((own.stop - own.start) / array.chunk[0])
                    yield Block(n, array, own, rows[to_rows], columns[to_columns], to_rows, to_columns, count)


def positions_of(layout: Geometry, axes: Axes) -> tuple[Positions, Positions]:
    """The positions in the store of the latitudes and of the longitudes."""
    rows = _positions(layout.latitude_index, axes.grid.latitude_indices(axes.latitudes))
    return rows, _positions(layout.longitude_index, axes.grid.longitude_indices(axes.longitudes))


def _runs(positions: Positions, size: int) -> list[list[int]]:
    """Numbers of the chunks of `size` with these positions, in runs without gaps."""
    runs: list[list[int]] = []
    for chunk in np.unique(positions // size).tolist():
        if runs and chunk == runs[-1][-1] + 1:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def _split(runs: list[list[int]], most: int) -> Iterator[list[int]]:
    for run in runs:
        for start in range(0, len(run), most):
            yield run[start : start + most]


def _positions(held: npt.NDArray[np.int32], wanted: npt.NDArray[np.int32]) -> Positions:
    """The index in `held` of each value of `wanted`."""
    order = np.argsort(held, kind="stable")
    found: Positions = order[np.searchsorted(held, wanted, sorter=order)]
    return found


# --- Reading a unit ---


@dataclass
class Gathered:
    """The values of a unit: `values` are (variable, hour, latitude, longitude); `absent` are hours without a chunk.

    With a `path`, the values are in this file, and `done` names the blocks that are finished there.
    """

    hours: range
    columns: tuple[str, ...]
    values: Floats
    path: Path | None = None
    done: set[str] = field(default_factory=set)
    absent: dict[str, set[int]] = field(default_factory=dict)

    def of(self, column: str, hours: range) -> Floats:
        """The values of a variable, (hour, latitude, longitude)."""
        part: Floats = self.values[self.columns.index(column), hours.start - self.hours.start :][: len(hours)]
        return part

    def finish(self, key: str) -> None:
        """Note that a block is finished, so that a run after a kill does not read it again."""
        self.done.add(key)
        if self.path is not None and isinstance(self.values, np.memmap):
            self.values.flush()
            absent = {column: sorted(hours) for column, hours in self.absent.items()}
            write_json(self.path.with_suffix(".json"), {"done": sorted(self.done), "absent": absent})

    def remove(self) -> None:
        """Remove the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path.with_suffix(".json").unlink(missing_ok=True)


def chunks_of_unit(layout: Geometry, axes: Axes, number: int) -> int:
    """How many chunks of a unit have any of the places."""
    return sum(block.chunks for block in blocks_of(layout, axes, number))


def bytes_of_unit(layout: Geometry, axes: Axes, number: int) -> int:
    """Bytes of a unit's values, as gathered."""
    places = axes.latitudes.size * axes.longitudes.size
    return 4 * len(layout.arrays) * len(hours_of_unit(layout, number)) * int(places)


def is_in_memory(layout: Geometry, axes: Axes, number: int) -> bool:
    """Return True if the unit is gathered in memory."""
    is_of_a_day = len(hours_of_unit(layout, number)) <= _DAY
    return is_of_a_day or bytes_of_unit(layout, axes, number) <= _IN_MEMORY_BYTES


def read_unit(
    store: ReadOnlyStore,
    layout: Layout,
    axes: Axes,
    number: int,
    folder: Path,
    say: Callable[[str], None],
    report: Callable[[int], None],
) -> Gathered:
    """Read all chunks of a unit that have any of the places; a large unit is gathered in a file in `folder`.

    `report` receives how many chunks were read.
    """
    gathered = _opened(layout, axes, number, folder)
    blocks = list(blocks_of(layout, axes, number))
    left = [block for block in blocks if block.key not in gathered.done]
    read = sum(block.chunks for block in blocks) - sum(block.chunks for block in left)
    with closing(_read_at_once(layout, left)) as at_once:
        for block, values in at_once:
            if values is None:
                values = _chunk_by_chunk(store, layout, block, say)  # noqa: PLW2901
            if _is_sampled(layout, number, block):
                values = _read_alike(store, layout, block, values, say)  # noqa: PLW2901
            _gather(store, layout, block, values, gathered)
            gathered.finish(block.key)
            read += block.chunks
            report(read)
    return gathered


def _read_at_once(layout: Layout, blocks: list[Block]) -> Generator[tuple[Block, Floats | None]]:
    """Yield the blocks in order with their values, None for one with a damaged chunk; several are read at once."""
    largest = max((block.chunks * block.array.bytes_of(block.array.chunk) for block in blocks), default=1)
    at_once = max(1, min(_AT_ONCE, _BLOCK_BYTES // largest))
    pool = ThreadPoolExecutor(at_once)
    try:
        reading: deque[tuple[Block, Future[Floats | None]]] = deque()
        for block in blocks:
            if len(reading) == at_once:
                first, values = reading.popleft()
                yield first, values.result()
            reading.append((block, pool.submit(_values_of, layout, block)))
        for block, values in reading:
            yield block, values.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _opened(layout: Layout, axes: Axes, number: int, folder: Path) -> Gathered:
    hours, columns = hours_of_unit(layout, number), tuple(array.variable.column for array in layout.arrays)
    shape = (len(columns), len(hours), axes.latitudes.size, axes.longitudes.size)
    if is_in_memory(layout, axes, number):
        return Gathered(hours, columns, np.empty(shape, dtype=np.float32))
    # Of the same chunks only, of the same snapshot: a store may be written again with others.
    cut = [[array.name, array.chunk, array.shard] for array in layout.arrays]
    state = [] if layout.snapshot is None else [layout.snapshot.id]
    digest = digest_of([columns, [hours.start, hours.stop], shape, cut, *state])[:12]
    path = folder / f"c{number:05d}-{digest}.part"
    size = 4 * math.prod(shape)
    known: Any = read_json(path.with_suffix(".json")) if path.is_file() and path.stat().st_size == size else None
    folder.mkdir(parents=True, exist_ok=True)
    with disk_errors(f"gathering {path.name}", folder), path.open("r+b" if known else "wb") as file:
        reserve(file, size)
    values = np.memmap(path, dtype=np.float32, mode="r+", shape=shape)
    if not known:
        return Gathered(hours, columns, values, path)
    absent = {column: set(of_column) for column, of_column in known["absent"].items()}
    return Gathered(hours, columns, values, path, set(known["done"]), absent)


def _is_sampled(layout: Layout, number: int, block: Block) -> bool:
    """Return True if the block is to be read twice: one in `_SAMPLE` of a store with snapshots, without checksums."""
    return layout.snapshot is not None and zlib.crc32(f"{number} {block.key}".encode()) % _SAMPLE == 0


def _gather(store: ReadOnlyStore, layout: Layout, block: Block, values: Floats, gathered: Gathered) -> None:
    column = block.array.variable.column
    first = layout.hour_at(block.hours.start)
    hours = range(first, first + block.hours.stop - block.hours.start)
    rows, columns = _as_slice(block.to_rows), _as_slice(block.to_columns)
    if isinstance(rows, slice) or isinstance(columns, slice):
        gathered.of(column, hours)[:, rows, columns] = values
    else:
        gathered.of(column, hours)[np.ix_(np.arange(len(hours)), rows, columns)] = values
    if store.absent:
        absent = gathered.absent.setdefault(column, set())
        absent |= _without_chunk(store, layout, block)


def _values_of(layout: Layout, block: Block) -> Floats | None:
    """The values of the block; None if a chunk of it cannot be decoded."""
    try:
        return block.read(layout.arrays[block.number])
    except Era5Error:
        raise
    except Exception:  # noqa: BLE001  # each codec raises its own for a damaged chunk
        return None


def _read_alike(
    store: ReadOnlyStore, layout: Layout, block: Block, values: Floats, say: Callable[[str], None]
) -> Floats:
    """Read the block again until it has the same values twice in a row: what changes was damaged on its way."""
    (text, *_) = describe_hours([layout.hour_at(block.hours.start)])
    what = f"{layout.shown}: {block.array.variable.cds_name} from {text} was read twice, with different values"
    for attempt in range(1, _TRIES + 1):
        again = _values_of(layout, block)
        if again is None:
            again = _chunk_by_chunk(store, layout, block, say)
        if np.array_equal(again, values, equal_nan=True):
            return values
        say(f"{what}; reading it again ({attempt} of {_TRIES} tries)")
        values = again
    raise MonthFailedError(what, remedy="Check the network, and what is between here and the store; then run it again.")


def _chunk_by_chunk(store: ReadOnlyStore, layout: Layout, block: Block, say: Callable[[str], None]) -> Floats:
    """Read the block again, a chunk at a time, to find the damaged one; it may have been damaged on its way."""
    array = layout.arrays[block.number]
    values = np.empty((block.hours.stop - block.hours.start, block.rows.size, block.columns.size), dtype=np.float32)
    for hours, rows, columns in _chunks_in(block):
        own_rows, own_columns = block.rows[rows], block.columns[columns]
        key = array.key_at(hours.start, int(own_rows[0]), int(own_columns[0]))
        (text, *_) = describe_hours([layout.hour_at(hours.start)])
        what = f"{layout.shown}: the chunk {key} ({block.array.variable.cds_name} from {text})"
        for attempt in range(1, _TRIES + 1):
            store.forget()
            try:
                read = array.read(hours, _spanned(own_rows), _spanned(own_columns))
                break
            except Era5Error:
                raise
            except Exception as error:  # each codec raises its own for a damaged chunk
                said = " ".join(f"{error}".split()) or type(error).__name__
                if attempt == _TRIES:
                    raise MonthFailedError(f"{what} cannot be decoded ({said})", remedy=_AGAIN) from error
                say(f"{what} cannot be decoded ({said}); reading it again ({attempt} of {_TRIES} tries)")
        at = np.ix_(np.arange(hours.start - block.hours.start, hours.stop - block.hours.start), rows, columns)
        values[at] = read[:, own_rows - own_rows.min()][:, :, own_columns - own_columns.min()]
    return values


def _chunks_in(block: Block) -> Iterator[tuple[slice, Positions, Positions]]:
    """The objects of a block: positions of hours, and indices of rows and columns of the block."""
    size = block.array.shard
    start = block.hours.start
    while start < block.hours.stop:
        stop = min(block.hours.stop, (start // size[0] + 1) * size[0])
        for row in np.unique(block.rows // size[1]):
            for column in np.unique(block.columns // size[2]):
                yield (
                    slice(start, stop),
                    np.flatnonzero(block.rows // size[1] == row),
                    np.flatnonzero(block.columns // size[2] == column),
                )
        start = stop


def _without_chunk(store: ReadOnlyStore, layout: Layout, block: Block) -> set[int]:
    """Hours of the block whose object is absent at some of its places."""
    array, hours = layout.arrays[block.number], set[int]()
    for part, rows, columns in _chunks_in(block):
        if array.key_at(part.start, int(block.rows[rows][0]), int(block.columns[columns][0])) in store.absent:
            hours |= set(range(layout.hour_at(part.start), layout.hour_at(part.stop)))
    return hours


# --- What is missing ---


def missing_hours(values: Floats, variable: Variable, hours: range) -> tuple[int, ...]:
    """Hours at which values (hour, latitude, longitude) that ERA5 has are missing somewhere, as far as can be told."""
    missing = np.isnan(values).reshape(len(hours), -1)
    if variable.extent == "everywhere":
        found = missing.any(axis=1)
    elif variable.extent in ("sea", "land"):
        # At sea, or on land, the same places have values at all hours.
        found = (missing & ~missing.all(axis=0)).any(axis=1)
    else:
        return ()
    due = hour_of(variable.first_valid)
    return tuple(
        hour
        for hour, is_missing in zip(hours, np.atleast_1d(found).tolist(), strict=True)
        if is_missing and hour >= due
    )


def describe_missing(missing: dict[str, set[int]]) -> str:
    """Write the hours that are missing of each variable, `t2m at 2020-02-01T00 to 2020-02-01T05`."""
    of_each = {name: ", ".join(describe_hours(sorted(hours))) for name, hours in missing.items() if hours}
    return "; ".join(f"{name} at {hours}" for name, hours in of_each.items())
