"""Flatten a month's raw files: location-major rows in the table's units, written as Parquet or CSV.

Makes rows of tiles and writes them. For finding the files see `sources`, for reading and merging them `filled_tiles`
(on a Dask cluster `cluster`), for counting `statistics`, for judging the result `checks`.

Location-major means all hours of a location in order, then the next location. A location's month is then contiguous on
disk, where a BRIN index of 131 kB finds it as fast as a B-tree of 55 MB, and compresses four-fold.
Memory does not grow with the month: only a tile (`tiles`) and a few row groups are in memory at a time.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from era5_pipeline.flat.bands import BandSink
from era5_pipeline.flat.filled_tiles import counted_tile, filled_tiles, open_readers
from era5_pipeline.flat.flat_month import FACTS_FORM, ColumnFacts, FlatFile, FlatMonth
from era5_pipeline.flat.formats import KEYS, Sink, columns_in, open_sink, schema_of
from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.flat.monthly import SummarySink, summarise, summary_sink
from era5_pipeline.flat.statistics import ColumnStatistics
from era5_pipeline.flat.tiles import cut_tiles
from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.source_kinds import source_kind, version_of
from era5_pipeline.model.times import as_datetime64, describe_hours, hour_of, time_of
from era5_pipeline.model.variables import BY_COLUMN, in_table_order
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.netcdf.contents import hours_of
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import REMADE_BYTES, has_form, read_json, replacing, write_json
from era5_pipeline.runtime.peak_memory import peak_rss_bytes
from era5_pipeline.runtime.prefetch import Prefetched

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.filled_tiles import CountedTile, RowBlock
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.model.source_kinds import Version
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.field_reader import Reader
    from era5_pipeline.sources.source import RawMonth

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class MiddleHour:
    """The month's first variable at the hour nearest to its middle: `values` (k,) float32 at `location_ids` (k,).

    `version` is that of the hour.
    """

    time: datetime
    variable: Variable
    location_ids: npt.NDArray[np.int32]
    values: Floats
    version: Version
    dataset: Dataset


def flatten_month(
    raw: RawMonth,
    folder: Path,
    *,
    home: Path,
    flat_format: FlatFormat,
    raw_seconds: float = 0.0,
    inventory: Inventory | None = None,
    draw: Callable[[MiddleHour], bytes] | None = None,
    dask_scheduler: str | None = None,
    with_summaries: bool = True,
    for_lake: bool = False,
) -> FlatMonth:
    """Write the month's rows and a JSON file with their facts into `folder`; each is replaced atomically.

    With `for_lake`, the rows are written as a lake's files (`flat.bands`), which are Parquet.

    The month's summaries are written beside the rows, unless `with_summaries` is False, which serves to benchmark their
    cost.

    `inventory` is that of `raw`, if already taken and its files are still unpacked; None: take it now. `draw` makes the
    preview map (a PNG) stored next to the rows if `has_preview`; None: no map. `dask_scheduler` is the
    address of a Dask cluster to read the files; None: this process reads them.
    """
    started = time.monotonic()
    facts_path = facts_file(folder, raw.month)
    with ExitStack() as unpacked:
        if inventory is None:
            inventory = take_inventory(raw, unpacked.enter_context(scratch_folder(home)))
        if not inventory.pieces:
            raise RefusedError(f"{raw.month}: {inventory.problems[0]}", remedy=inventory.problems[0].remedy)
        # Named after the content, so that facts never describe another file.
        name = f"{raw.month}-{raw.fingerprint[:12]}"
        summaries_path = folder / f"{name}.monthly.parquet" if with_summaries else None
        schema = schema_of(inventory.columns)
        with (
            _summary_sink(summaries_path, inventory) as summaries,
            _row_sink(folder, name, flat_format, schema, for_lake=for_lake) as (sink, paths),
        ):
            picture = None
            with closing(_Writer(sink)) as writer:
                flattening = _Flattening(raw, inventory, writer, schema, summaries)
                flattening.run(dask_scheduler)
                if draw is not None and has_preview(inventory.locations):
                    # While the last rows are written.
                    picture = draw(flattening.middle())
                writer.finish()
    first, *others = map(FlatFile.at, paths())
    flat = FlatMonth(
        raw=raw,
        path=first.path,
        other_files=tuple(others),
        is_for_lake=for_lake,
        shift=inventory.shift,
        format=flat_format,
        rows=flattening.rows,
        location_ids=LocationSet.of_coverage(inventory.coverage, inventory.grid),
        hours=int(inventory.hours.size),
        hours_expected=raw.month.hours,
        missing_hours=describe_hours(np.setdiff1d(hours_of(raw.month), inventory.hours)),
        columns=flattening.facts(),
        location_id_sum=flattening.location_id_sum,
        bytes=first.bytes,
        sha256=first.sha256,
        seconds=time.monotonic() - started,
        raw_seconds=raw_seconds,
        peak_rss_bytes=peak_rss_bytes(),
        summaries=None if summaries_path is None else FlatFile.at(summaries_path),
    )
    if picture is None:
        preview_file(folder, raw.month).unlink(missing_ok=True)
    else:
        with replacing(preview_file(folder, raw.month)) as temporary:
            temporary.write_bytes(picture)
    write_json(facts_path, flat.to_json(), durable_bytes=REMADE_BYTES)
    kept = {file.path for file in flat.files}
    for earlier in folder.glob(f"{raw.month}-{'[0-9a-f]' * 12}[-.]*"):
        if earlier not in kept:
            earlier.unlink(missing_ok=True)
    return flat


@contextmanager
def _summary_sink(path: Path | None, inventory: Inventory) -> Iterator[SummarySink | None]:
    """Open a sink that writes the month's summaries to `path`; yield None without a path."""
    if path is None:
        yield None
        return
    with (
        replacing(path, durable_bytes=REMADE_BYTES) as temporary,
        summary_sink(temporary, inventory.columns, inventory.month) as sink,
    ):
        yield sink


@contextmanager
def _row_sink(
    folder: Path, name: str, flat_format: FlatFormat, schema: pa.Schema, *, for_lake: bool
) -> Iterator[tuple[Sink | BandSink, Callable[[], tuple[Path, ...]]]]:
    """Open a sink of rows; yield it, and a function that returns the files after the block."""
    if for_lake:
        with BandSink(lambda band: folder / f"{name}-band{band:02d}.parquet", schema) as bands:
            yield bands, lambda: bands.paths
        return
    path = folder / f"{name}.{flat_format}"
    with replacing(path, durable_bytes=REMADE_BYTES) as temporary, open_sink(temporary, flat_format, schema) as sink:
        yield sink, lambda: (path,)


def facts_file(folder: Path, month: Month) -> Path:
    """The path of a flat month's facts."""
    return folder / f"{month}.json"


# The least: 3 x 3 grid points.
_LOCATIONS_OF_A_MAP = 9


def has_preview(locations: int) -> bool:
    """Return True if the month gets a preview map: a few places would be dots, and take longer than everything else."""
    return locations >= _LOCATIONS_OF_A_MAP


def preview_file(folder: Path, month: Month) -> Path:
    """The path of a flat month's preview map."""
    return folder / f"{month}.png"


def read_flat_month(folder: Path, month: Month) -> FlatMonth | None:
    """Read the flat month in `folder`; None if it does not exist, or a file is missing or has another size."""
    path = facts_file(folder, month)
    flat = read_facts(read_json(path), path)
    if flat is None or any(not file.path.is_file() or file.path.stat().st_size != file.bytes for file in flat.files):
        return None
    return flat if has_own_columns(flat) else None


def read_facts(value: Any, path: Path) -> FlatMonth | None:  # noqa: ANN401  # JSON is any
    """The flat month described by the facts, whether or not its file exists; None if the facts are not valid."""
    if not has_form(value, FACTS_FORM, path):
        return None
    try:
        return FlatMonth.from_json(value)
    except (TypeError, KeyError, AttributeError, ValueError, UsageError):
        return None


def has_own_columns(flat: FlatMonth) -> bool:
    """Return True if each file of rows has the columns that the facts list, in their order."""
    with suppress(pa.ArrowException):  # damage is found by the digest
        return all(columns_in(file.path, flat.format) == (*KEYS, *flat.column_names) for file in flat.row_files)
    return True


class _Writer:
    """Writes tables in a thread, up to two of them behind; close it when done."""

    def __init__(self, sink: Sink | BandSink) -> None:
        self._sink = sink
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._waiting: deque[Future[None]] = deque()

    def write(self, table: pa.Table) -> None:
        """Append the rows as one group, after the groups before."""
        while len(self._waiting) > 1:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._sink.write, table))

    def finish(self) -> None:
        """Wait until all is written."""
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """Stop."""
        self._pool.shutdown(cancel_futures=True)


@dataclass
class _Flattening:
    """Writes a month's rows into a sink and collects their facts."""

    raw: RawMonth
    inventory: Inventory
    writer: _Writer
    schema: pa.Schema
    summary_sink: SummarySink | None
    rows: int = 0
    location_id_sum: int = 0
    points_done: int = 0
    preview_locations: list[npt.NDArray[np.int32]] = field(default_factory=list)
    preview_values: list[Floats] = field(default_factory=list)
    statistics: dict[str, ColumnStatistics] = field(default_factory=dict)
    # The times of the longest table so far: those of the others are their first ones.
    times: npt.NDArray[np.datetime64] = field(default_factory=lambda: np.empty(0, dtype="datetime64[us]"))

    def __post_init__(self) -> None:
        for variable in in_table_order(self.inventory.columns):
            self.statistics[variable.column] = ColumnStatistics.empty(variable, self.inventory)

    def run(self, dask_scheduler: str | None) -> None:
        """Read, merge and write the month, tile by tile."""
        with self._counted_tiles(dask_scheduler) as tiles:
            for counted in tiles:
                self._add(counted)
                if self.points_done < self._points_total:
                    # Free the tile's memory before the one after next is read.
                    self.writer.finish()
                del counted

    @contextmanager
    def _counted_tiles(self, dask_scheduler: str | None) -> Iterator[Iterator[CountedTile]]:
        if dask_scheduler is None:
            with open_readers(self.inventory) as readers, closing(self._read_here(readers)) as tiles:
                yield tiles
            return
        from era5_pipeline.flat.cluster import remote_tiles  # noqa: PLC0415  # Dask's cluster part is slow to import

        with remote_tiles(dask_scheduler, self.raw, cut_tiles(self.inventory)) as tiles:
            yield tiles

    def _read_here(self, readers: Mapping[NetcdfFile, Reader]) -> Generator[CountedTile]:
        """Read the tiles in this process, the next one while one is written."""
        rules = {column: statistics.rules for column, statistics in self.statistics.items()}
        # Stop the prefetching thread before the files are closed.
        with closing(Prefetched(filled_tiles(self.inventory, readers))) as tiles:
            for filled in tiles:
                yield counted_tile(filled, self.inventory, rules)
                del filled

    def facts(self) -> tuple[ColumnFacts, ...]:
        """The facts of every column in the files, in table order."""
        return tuple(statistics.facts() for statistics in self.statistics.values())

    def middle(self) -> MiddleHour:
        """The values to draw: the month's first variable at the hour nearest to its middle."""
        hour, column = int(self.inventory.hours[self._preview_hour]), self.inventory.columns[0]
        seen = self.statistics[column].versions.seen
        expver = {column: {expver: int(flags[self._preview_hour]) for expver, flags in seen.items()}}
        return MiddleHour(
            time_of(hour),
            BY_COLUMN[column],
            np.concatenate(self.preview_locations),
            np.concatenate(self.preview_values),
            version_of(expver, generated=expver if source_kind(self.raw.source).is_generated else ()),
            self.raw.dataset,
        )

    def _add(self, counted: CountedTile) -> None:
        for column, statistics in self.statistics.items():
            statistics.versions.add_all(counted.versions[column])
        for portion in counted.portions:
            for column, sums in portion.sums.items():
                self.statistics[column].add(sums)
                self.statistics[column].add_anomalies(portion.anomalies[column])
            location_id = self.inventory.grid.location_ids(portion.latitude_index, portion.longitude_index)
            self.preview_locations.append(location_id)
            # A copy: the portion's memory is freed before the preview is drawn.
            self.preview_values.append(portion.values[self.inventory.columns[0]][:, self._preview_hour].copy())
            if self.summary_sink is not None:
                by_location = {column: of.by_location for column, of in portion.sums.items()}
                is_compiled = self.inventory.is_large
                summaries = summarise(portion.values, by_location, self._first_hour, is_compiled=is_compiled)
                self.summary_sink.add(location_id, summaries)
            self._write(self._table(portion, location_id), location_id.size * self.inventory.hours.size)

    def _table(self, portion: RowBlock, location_id: npt.NDArray[np.int32]) -> pa.Table:
        hours, grid = self.inventory.hours, self.inventory.grid
        if self.times.size < hours.size * location_id.size:
            self.times = np.tile(as_datetime64(hours).astype("datetime64[us]"), location_id.size)
        times = self.times[: hours.size * location_id.size]
        keys = (location_id, grid.latitudes_of(portion.latitude_index), grid.longitudes_of(portion.longitude_index))
        arrays = [pa.array(times, type=self.schema.field("time").type)]
        arrays += [pa.array(np.repeat(key, hours.size)) for key in keys]
        for column in self.statistics:
            values = portion.values[column].reshape(-1)
            is_complete = portion.sums[column].values == values.size
            arrays.append(pa.array(values, mask=None if is_complete else np.isnan(values)))
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        present = portion.present
        return table if present is None or present.all() else table.filter(pa.array(present.reshape(-1)))

    def _write(self, table: pa.Table, points: int) -> None:
        if table.num_rows:
            self.writer.write(table)
        self.rows += table.num_rows
        self.location_id_sum += pc.sum(table.column("location_id"), min_count=0).as_py()
        self.points_done += points
        progress.report("flat", self.points_done, self._points_total, "rows")

    @cached_property
    def _points_total(self) -> int:
        """Total point-hours of the month."""
        return self.inventory.locations * self.inventory.hours.size

    @cached_property
    def _first_hour(self) -> int | None:
        """Position of 00:00 on the 1st; None if the files do not have that hour."""
        found = np.flatnonzero(self.inventory.hours == hour_of(self.inventory.month.start))
        return int(found[0]) if found.size else None

    @cached_property
    def _preview_hour(self) -> int:
        """Position of the hour to draw: the nearest to the middle of the month."""
        middle = int(self.inventory.month.start.timestamp()) // 3600 + self.inventory.month.hours // 2
        return int(np.abs(self.inventory.hours - middle).argmin())
