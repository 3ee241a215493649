"""Raw files to rows: a month turned location-major, in the table's units, written as Parquet or CSV.

Here: tile by tile reading with dask, and making rows. Not here: finding the files (`sources`), laying overlapping files
together (`merge`), counting (`tally`), or judging what was found (`quality`).

Location-major means: for each location all its hours in order, then the next location. A location's month then lies
together on disk, which a BRIN index of 131 kB finds as fast as a B-tree of 55 MB would, and compresses four-fold.
Memory does not grow with the month: a tile (`tiles`) and a few row groups are held at a time.
"""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dask.base import compute

from era5_pipeline.flat.digests import RowWeights
from era5_pipeline.flat.flat_month import ColumnFacts, FlatMonth
from era5_pipeline.flat.formats import COLUMNS, ROW_GROUP_ROWS, SCHEMA, Sink, columns_in, open_sink
from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.flat.merge import Part, Placed, covered_by, merge, parts_of, place
from era5_pipeline.flat.statistics import Tally
from era5_pipeline.flat.tiles import Tile, cut_tiles
from era5_pipeline.model.errors import BadFileError, RefusedError, UsageError
from era5_pipeline.model.grid import latitudes_of, location_ids, longitudes_of
from era5_pipeline.model.hours import as_datetime64, describe_hours, hour_of, time_of
from era5_pipeline.model.variables import BY_COLUMN, VARIABLES, in_table_order
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.netcdf.contents import hours_of
from era5_pipeline.netcdf.field_reader import FieldReader
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import read_json, replacing, sha256_of, write_json
from era5_pipeline.runtime.prefetch import MadeAhead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import dask.array as da
    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.sources.source import RawMonth

    Floats = npt.NDArray[np.float32]
    Flags = npt.NDArray[np.bool_]

# What netCDF4 and xarray raise for data that are damaged.
_READ_ERRORS = (RuntimeError, OSError, ValueError, IndexError)
# Threads that decode while one reads: HDF5 itself runs one at a time, so more than two only hold memory.
_READ_THREADS = 2


@dataclass(frozen=True, eq=False)
class MiddleHour:
    """The month's first variable at the hour nearest to its middle: `values` (k,) float32 at `location_ids` (k,)."""

    time: datetime
    variable: Variable
    location_ids: npt.NDArray[np.int32]
    values: Floats


def flatten_month(
    raw: RawMonth,
    folder: Path,
    *,
    home: Path,
    flat_format: FlatFormat,
    raw_seconds: float = 0.0,
    draw: Callable[[MiddleHour], bytes] | None = None,
) -> FlatMonth:
    """Write the month's rows into `folder`, and beside them a JSON with their facts; replaces both in one step each.

    `draw` makes the small map that is kept beside them (a PNG); None: there is none.

    Raises:
        InputError: if a file cannot be used, or two contradict each other.
        RefusedError: if no grid point of the files lies on ERA5's grid.
        LocalDiskError: if there is no room.
    """
    started = time.monotonic()
    facts_path = facts_file(folder, raw.month)
    with scratch_folder(home) as scratch:
        inventory = take_inventory(raw, scratch)
        if not inventory.pieces:
            raise RefusedError(f"{raw.month}: {inventory.problems[0]}", remedy=inventory.problems[0].remedy)
        # Named after the content, so that facts never describe another file than the one they were made with.
        path = folder / f"{raw.month}-{raw.fingerprint[:12]}.{flat_format}"
        with replacing(path) as temporary, open_sink(temporary, flat_format) as sink:
            flattening = _Flattening(inventory, sink)
            flattening.run()
    flat = FlatMonth(
        raw=raw,
        path=path,
        format=flat_format,
        rows=flattening.rows,
        locations=int(inventory.coverage.sum()),
        hours=int(inventory.hours.size),
        hours_expected=raw.month.hours,
        missing_hours=describe_hours(np.setdiff1d(hours_of(raw.month), inventory.hours)),
        columns=flattening.facts(),
        location_id_sum=flattening.location_id_sum,
        bytes=path.stat().st_size,
        sha256=sha256_of(path),
        seconds=time.monotonic() - started,
        raw_seconds=raw_seconds,
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    if draw is not None:
        with replacing(preview_file(folder, raw.month)) as temporary:
            temporary.write_bytes(draw(flattening.middle()))
    write_json(facts_path, flat.to_json())
    for earlier in folder.glob(f"{raw.month}-{'[0-9a-f]' * 12}.*"):
        if earlier != path:
            earlier.unlink(missing_ok=True)
    return flat


def facts_file(folder: Path, month: Month) -> Path:
    """Where the facts of a flat month lie."""
    return folder / f"{month}.json"


def preview_file(folder: Path, month: Month) -> Path:
    """Where the small map of a flat month lies."""
    return folder / f"{month}.png"


def read_flat_month(folder: Path, month: Month) -> FlatMonth | None:
    """The flat month in `folder`; None if there is none, or its file is gone or not the one that was written."""
    try:
        flat = FlatMonth.from_json(read_json(facts_file(folder, month)))
    except (TypeError, KeyError, AttributeError, ValueError, UsageError):
        return None  # none there, or one of another form
    if not flat.path.is_file() or flat.path.stat().st_size != flat.bytes:
        return None
    with suppress(pa.ArrowException):  # damaged: that is found by its digest
        if columns_in(flat.path, flat.format) != COLUMNS:
            return None  # of the time before a variable was added
    return flat


def _compute(placed: Sequence[Placed], arrays: Sequence[da.Array]) -> tuple[Floats, ...]:
    """The values of the arrays, one per part: (latitude, longitude, hour), as a view of what is (hour, ...) in memory.

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


@dataclass
class _Flattening:
    """One month on its way from its files into a sink."""

    inventory: Inventory
    sink: Sink
    rows: int = 0
    points: int = 0
    location_id_sum: int = 0
    preview_locations: list[npt.NDArray[np.int32]] = field(default_factory=list)
    preview_values: list[Floats] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def run(self) -> None:
        inventory = self.inventory
        parts = {column: parts_of(inventory, column) for column in inventory.columns}
        for variable in in_table_order(inventory.columns):
            self.tallies[variable.column] = Tally.of(variable, inventory)
        with ExitStack() as stack:
            readers = {}
            for piece in inventory.pieces:
                if piece.file not in readers:
                    readers[piece.file] = FieldReader(piece.file)
                    stack.callback(readers[piece.file].close)
            # Closed before the files are, so that nothing reads them any more.
            for tile, placed, values in stack.enter_context(closing(MadeAhead(self._tiles(parts, readers)))):
                self._write(self._tables(tile, placed, values))
                del values  # before the next but one is read

    def _write(self, tables: Iterator[tuple[pa.Table, int]]) -> None:
        for table, points in tables:
            if table.num_rows:
                self.sink.write(table)
            self.rows += table.num_rows
            self.location_id_sum += pc.sum(table.column("location_id"), min_count=0).as_py()
            self.points += points
            progress.report("flat", self.points, self.points_in_all, "rows")

    @cached_property
    def points_in_all(self) -> int:
        """Point-hours of the month."""
        return int(self.inventory.coverage.sum()) * self.inventory.hours.size

    @cached_property
    def preview_hour(self) -> int:
        """The hour that is drawn: the one nearest to the middle of the month, by position."""
        middle = hour_of(self.inventory.month.start) + self.inventory.month.hours // 2
        return int(np.abs(self.inventory.hours - middle).argmin())

    def middle(self) -> MiddleHour:
        """The month's first variable at that hour."""
        hour = int(self.inventory.hours[self.preview_hour])
        return MiddleHour(
            time_of(hour),
            BY_COLUMN[self.inventory.columns[0]],
            np.concatenate(self.preview_locations),
            np.concatenate(self.preview_values),
        )

    def facts(self) -> tuple[ColumnFacts, ...]:
        return tuple(tally.facts() for tally in self.tallies.values())

    def _tiles(
        self, parts: Mapping[str, tuple[Part, ...]], readers: Mapping[NetcdfFile, FieldReader]
    ) -> Iterator[tuple[Tile, Mapping[str, list[Placed]], dict[str, Floats]]]:
        """The tiles, what lies where in them, and their values by column."""
        for tile in cut_tiles(self.inventory):
            placed = {
                column: [p for p in (place(part, tile) for part in of_column) if p is not None]
                for column, of_column in parts.items()
            }
            yield tile, placed, self._read(tile, placed, readers)

    def _tables(
        self, tile: Tile, placed: Mapping[str, list[Placed]], values: Mapping[str, Floats]
    ) -> Iterator[tuple[pa.Table, int]]:
        """Tables of about `ROW_GROUP_ROWS` rows, and how many of the month's point-hours each stands for."""
        hours = self.inventory.hours
        covered = covered_by([p for of_column in placed.values() for p in of_column], tile, hours.size)
        for column in placed:
            self.tallies[column].note_oddities(values[column], tile)

        inside = self.inventory.coverage[np.ix_(tile.latitude_index, tile.longitude_index)]
        latitude, longitude = np.nonzero(inside)  # row by row: ascending location_id, for the tile's axes ascend
        flat_position = latitude * tile.longitude_index.size + longitude
        first = values[self.inventory.columns[0]]
        self.preview_locations.append(location_ids(tile.latitude_index[latitude], tile.longitude_index[longitude]))
        self.preview_values.append(first[latitude, longitude, self.preview_hour])
        step = max(1, ROW_GROUP_ROWS // hours.size)
        for start in range(0, flat_position.size, step):
            chosen = slice(start, start + step)
            # All of them in a row, which is usual, need no copy.
            positions = chosen if inside.all() else flat_position[chosen]
            by_location = {c: v.reshape(-1, hours.size)[positions] for c, v in values.items()}
            rows = None if covered is None else covered.reshape(-1, hours.size)[positions]
            table = self._table(
                tile.latitude_index[latitude[chosen]], tile.longitude_index[longitude[chosen]], by_location, rows
            )
            yield table, latitude[chosen].size * hours.size

    def _read(
        self, tile: Tile, placed: Mapping[str, list[Placed]], readers: Mapping[NetcdfFile, FieldReader]
    ) -> dict[str, Floats]:
        lazy = {
            column: [
                readers[p.part.piece.file].lazy(
                    p.part.piece.field, p.part.file_hours, p.file_latitudes, p.file_longitudes
                )
                for p in of_column
            ]
            for column, of_column in placed.items()
        }
        # One variable at a time: its parts are dropped once they are merged, six would be held together otherwise.
        merged = {}
        for column, arrays in lazy.items():
            read = _compute(placed[column], arrays)
            merged[column] = merge(placed[column], read, tile, self.inventory.hours, self.tallies[column].versions)
        return merged

    def _table(
        self,
        latitude_index: npt.NDArray[np.int32],
        longitude_index: npt.NDArray[np.int32],
        by_location: Mapping[str, Floats],
        rows: Flags | None,
    ) -> pa.Table:
        hours = self.inventory.hours
        location_id = location_ids(latitude_index, longitude_index)
        weights = RowWeights(location_id, hours, rows)
        times = np.tile(as_datetime64(hours).astype("datetime64[us]"), latitude_index.size)
        keys = (location_id, latitudes_of(latitude_index), longitudes_of(longitude_index))
        arrays = [pa.array(times, type=SCHEMA.field("time").type)]
        arrays += [pa.array(np.repeat(key, hours.size)) for key in keys]
        for variable in VARIABLES:
            values = by_location.get(variable.column)
            if values is None:
                arrays.append(pa.nulls(times.size, type=pa.float32()))
                continue
            empty = np.isnan(values)
            missing = empty if empty.any() else None
            self.tallies[variable.column].add(values, missing, weights)
            arrays.append(pa.array(values.reshape(-1), mask=None if missing is None else missing.reshape(-1)))
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        return table if rows is None or rows.all() else table.filter(pa.array(rows.reshape(-1)))
