"""Cost of reading months from a Zarr store: chunks, requests, bytes, and the other months in the same chunks.

Counts by the layout alone. Bytes are those of decoded values times a rate, which is measured by the sizes of a few
objects, or documented.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month, time_of
from era5_pipeline.sources.zarr.reading import blocks_of, hours_of_unit, positions_of, unit_hours, units_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from era5_pipeline.netcdf.cds_files import Axes
    from era5_pipeline.sources.zarr.layout import Geometry, Layout
    from era5_pipeline.sources.zarr.reading import Block
    from era5_pipeline.sources.zarr.store import ReadOnlyStore


@dataclass(frozen=True)
class ChunkPlan:
    """The chunks with hours of some months at some places, each read once.

    `chunk` is hours x latitudes x longitudes of the first variable, `shard` the object with it, if chunks share one.
    `bytes` are stored ones, None if no size is known; `decoded_bytes` those of the chunks in memory. `months_within`
    are the first and last month, and `area_within` the largest area, that the same chunks hold.
    """

    chunk: tuple[int, int, int]
    shard: tuple[int, int, int] | None
    chunks: int
    requests: int
    bytes: int | None
    decoded_bytes: int
    months_within: tuple[Month, Month] | None
    area_within: Area | None

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value."""
        return {
            "chunk": list(self.chunk),
            "shard": None if self.shard is None else list(self.shard),
            "chunks": self.chunks,
            "requests": self.requests,
            "bytes": self.bytes,
            "decoded_bytes": self.decoded_bytes,
            "months_within": None if self.months_within is None else list(map(str, self.months_within)),
            "area_within": None if self.area_within is None else str(self.area_within),
        }


def joined(plans: Iterable[ChunkPlan]) -> ChunkPlan:
    """The chunks of several stores together; their shape, months and area are those of the first."""
    first, *others = plans
    for plan in others:
        is_known = first.bytes is not None and plan.bytes is not None
        first = replace(
            first,
            chunks=first.chunks + plan.chunks,
            requests=first.requests + plan.requests,
            bytes=(first.bytes or 0) + (plan.bytes or 0) if is_known else None,
            decoded_bytes=first.decoded_bytes + plan.decoded_bytes,
        )
    return first


def plan_chunks(
    geometry: Geometry, axes: Axes, months: Sequence[Month], stored_bytes: Mapping[str, float | None]
) -> ChunkPlan:
    """Count what reading these months takes; `stored_bytes` are those of a decoded byte, by name of the array."""
    units = sorted({number for month in months for number in units_of(geometry, hours_of_month(month))})
    alike: Counter[tuple[int, int]] = Counter()
    example: dict[tuple[int, int], int] = {}
    length = unit_hours(geometry)
    for number in units:
        hours = hours_of_unit(geometry, number)
        kind = (len(hours), geometry.position_of(hours.start) % length)
        alike[kind] += 1
        example[kind] = number
    chunks = requests = 0
    decoded: Counter[str] = Counter()
    for kind, count in alike.items():
        for block in blocks_of(geometry, axes, example[kind]):
            of_block, requested = _counted(block)
            chunks += count * of_block
            requests += count * requested
            decoded[block.array.name] += count * of_block * block.array.bytes_of(block.array.chunk)
    known = [decoded[name] * rate for name in decoded if (rate := stored_bytes.get(name)) is not None]
    first = geometry.arrays[0]
    return ChunkPlan(
        chunk=first.chunk,
        shard=None if first.shard == first.chunk else first.shard,
        chunks=chunks,
        requests=requests,
        bytes=round(sum(known)) if len(known) == len(decoded) else None,
        decoded_bytes=sum(decoded.values()),
        months_within=_months_within(geometry, units),
        area_within=area_within(geometry, axes),
    )


def _counted(block: Block) -> tuple[int, int]:
    """Chunks of a block, and the requests for them: one for each, or of a shard that is not read whole, one more."""
    chunk, shard = block.array.chunk, block.array.shard
    positions = (np.arange(block.hours.start, block.hours.stop), block.rows, block.columns)
    # Along each axis: how many chunks of each object.
    inside = [
        Counter((np.unique(of_axis // size) * size // of_shard).tolist())
        for of_axis, size, of_shard in zip(positions, chunk, shard, strict=True)
    ]
    whole = math.prod(of_shard // size for size, of_shard in zip(chunk, shard, strict=True))
    chunks = requests = 0
    shapes = [Counter(of_axis.values()) for of_axis in inside]
    for time, times in shapes[0].items():
        for row, rows in shapes[1].items():
            for column, columns in shapes[2].items():
                count, objects = time * row * column, times * rows * columns
                chunks += count * objects
                requests += objects if count == whole else objects * (1 + count)
    return chunks, requests


def _months_within(geometry: Geometry, units: Sequence[int]) -> tuple[Month, Month] | None:
    if not units or list(units) != list(range(units[0], units[-1] + 1)):
        return None
    first, last = hours_of_unit(geometry, units[0]).start, hours_of_unit(geometry, units[-1]).stop - 1
    start, end = Month.of(time_of(first)), Month.of(time_of(last))
    if hours_of_month(start).start < first:
        start = Month.from_number(start.number + 1)
    if hours_of_month(end).stop - 1 > last:
        end = Month.from_number(end.number - 1)
    return (start, end) if start <= end else None


def area_within(geometry: Geometry, axes: Axes) -> Area | None:
    """The largest area in the same chunks; None if they are not side by side."""
    rows, columns = positions_of(geometry, axes)
    borders = []
    for positions, indices, size in (
        (rows, geometry.latitude_index, max(array.chunk[1] for array in geometry.arrays)),
        (columns, geometry.longitude_index, max(array.chunk[2] for array in geometry.arrays)),
    ):
        held = np.unique(positions // size)
        if held.size != held[-1] - held[0] + 1:
            return None
        of_chunks = indices[held[0] * size : (held[-1] + 1) * size]
        if not np.isin(np.abs(np.diff(of_chunks)), (1, axes.grid.columns - 1)).all():  # the latter at 180 degrees
            return None
        borders.append((int(of_chunks[0]), int(of_chunks[-1])))
    (west_index, east_index), grid = borders[1], axes.grid
    south, north = grid.latitudes_of(sorted(borders[0]))
    west, east = grid.longitudes_of([west_index, east_index])
    return Area(float(north), float(west), float(south), float(east), grid=grid)


def area_of(axes: Axes) -> Area:
    """The smallest area with all these places."""
    grid = axes.grid
    degrees = axes.longitudes if axes.longitudes.size < grid.columns else np.array([grid.west_degrees, 180.0])
    north, south = float(axes.latitudes.max()), float(axes.latitudes.min())
    return Area(north, float(degrees.min()), south, float(degrees.max()), grid=grid)


def stored_rates(store: ReadOnlyStore, layout: Layout, axes: Axes, months: Sequence[Month]) -> dict[str, float | None]:
    """Stored bytes of a decoded byte, by name of the array: the size of one object in the middle of what is wanted.

    Asks for no values: a request for the size of one object of each array.
    """
    rows, columns = positions_of(layout, axes)
    wanted = [month for month in months if units_of(layout, hours_of_month(month))]
    if not wanted:
        return {}
    middle = hours_of_month(wanted[len(wanted) // 2])
    hour = layout.position_of(min(max(middle.start, layout.hours.start), layout.hours.stop - 1))
    rates = {}
    for array in layout.arrays:
        key = array.key_at(hour, int(rows[rows.size // 2]), int(columns[columns.size // 2]))
        size = store.size_of(key)
        rates[array.name] = None if size is None else size / array.bytes_of(array.shard)
    return rates
