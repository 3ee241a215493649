"""The hours of a span of time on a rectangle of the grid, to be drawn one after the other.

Values that would take much memory are kept in a file meanwhile. The table is read once, place by place, as its rows are
stored: hour by hour, every row of the month would be read for each.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import NoDataError, disk_errors
from era5_pipeline.model.hours import describe_hours, time_of
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.query.api.boxes.box_contents import read_box_contents
from era5_pipeline.query.api.boxes.box_values import hour_range, read_box
from era5_pipeline.query.available import places_held, require_columns
from era5_pipeline.query.credit import read_credit
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.scattered_places import main_part
from era5_pipeline.query.snapshots import Snapshot, on_rectangle
from era5_pipeline.runtime.progress import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.query.api.boxes.box_contents import BoxContents
    from era5_pipeline.query.maps.scattered_places import MainPart

    FloatArray = npt.NDArray[np.float32]

# Values that are read at a time, and the most that stay in memory: 200 MB.
_MOST_VALUES = 50_000_000
# The scale of colours follows from about so many values, and the extremes of all.
_SAMPLED_VALUES = 2_000_000
_FEWEST_SAMPLED = 64


@dataclass(frozen=True, eq=False)
class HourFrames:
    """One variable at k hours, ascending, on a rectangle of the grid as that of a `FieldMap`.

    `values` (k, n, m) are NaN where there is none. `scale_values` are some of them, with the least and the greatest.
    `notes` say what is missing, `left_out` which places far away are not shown.
    """

    variable: Variable
    hours: tuple[int, ...]
    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray
    scale_values: FloatArray
    is_empty: npt.NDArray[np.bool_]  # (k,) no place has a value
    notes: tuple[str, ...]
    credit: str
    left_out: str | None = None

    def field(self, number: int) -> FieldMap:
        """The map of one of the hours."""
        return FieldMap.of_snapshot(
            Snapshot(time_of(self.hours[number]), self.variable, self.latitudes, self.longitudes, self.values[number])
        )


def read_hour_frames(
    connection: psycopg.Connection[Any],
    warehouse: Warehouse,
    variable: Variable,
    start: datetime,
    end: datetime,
    area: Area | None,
    every: int,
    folder: Path,
) -> HourFrames:
    """Read every so many hours with `start <= time < end` (aware), in an area or at all places with the column.

    `folder` is for a file of the values, which the caller removes.

    Raises:
        NoDataError: if there is no value; it says what there is.
        LocalDiskError: if the values fit neither into memory nor into the folder.
    """
    require_columns(connection, (variable,))
    held = read_box_contents(connection, area, (variable,), start, end)
    part = None if area else _main_part(connection, variable, held)
    if part:
        held = read_box_contents(connection, part.area, (variable,), start, end)
    credit = read_credit(connection, held.start, held.end, held.window.locations, [variable.column])
    hours = hour_range(held.start, held.end)
    window, kept = held.window, hours[::every]
    step = max(_MOST_VALUES // (len(hours) * window.columns), 1)
    values = _room_for((len(kept), window.rows, window.columns), folder)
    for north in range(0, window.rows, step):
        rows = range(north, min(north + step, window.rows))
        found = read_box(warehouse, variable.column, hours, window.part(rows, range(window.columns)))
        # Latitudes of a box descend.
        values[:, window.rows - rows.stop : window.rows - rows.start] = found[::every, ::-1]
        report("read", rows.stop, window.rows, "rows")
    counts, scale_values = survey(values)
    is_empty = counts == 0
    if is_empty.all():
        raise NoDataError(
            f"{variable.column} is NULL everywhere from {time_of(hours.start):%Y-%m-%d %H:%M} to "
            f"{time_of(hours.stop - 1):%Y-%m-%d %H:%M} UTC in {held.area}",
            remedy="Choose another time, column or area, or load the month with the variables you need.",
        )
    notes = []
    there = window.rows * window.columns
    if area and held.points_held < there:
        notes.append(f"no data at {there - held.points_held:,} of {there:,} grid points of {area}")
    notes += _lines_of_absent(variable, np.array(kept), counts)
    return HourFrames(
        variable=variable,
        hours=tuple(kept),
        latitudes=window.latitudes[::-1].astype(np.float32),
        longitudes=window.longitudes.astype(np.float32),
        values=values,
        scale_values=scale_values,
        is_empty=is_empty,
        notes=tuple(notes),
        credit=credit,
        left_out=part.line if part else None,
    )


def _main_part(connection: psycopg.Connection[Any], variable: Variable, held: BoxContents) -> MainPart | None:
    """The part to draw of places far apart that have the column in the month; None: all."""
    places = places_held(connection, Month.of(held.start), variable.column) & LocationSet.of_area(held.area)
    if not places:
        return None
    ids = places.ids().astype(np.int32)
    latitudes, longitudes, filled = on_rectangle(ids, np.zeros(ids.size, dtype=np.float32))
    return main_part(latitudes, longitudes, np.isfinite(filled))


def _room_for(shape: tuple[int, int, int], folder: Path) -> FloatArray:
    """An array of this shape, in memory or in a file."""
    if np.prod(shape) <= _MOST_VALUES:
        return np.empty(shape, dtype=np.float32)
    size = 4 * int(np.prod(shape, dtype=np.int64))
    with disk_errors(f"keeping {size / 1e9:.1f} GB of hours", folder), (folder / "hours").open("w+b") as file:
        # A disk that gets full while the array is written would kill the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def survey(values: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """The number of places with a value at each hour, (k,), and values (n,) for the scale of colours."""
    counts = np.zeros(len(values), dtype=np.int64)
    sample, extremes = [], []
    per_hour = max(_SAMPLED_VALUES // len(values), _FEWEST_SAMPLED)
    for number, field in enumerate(values):
        found = field[np.isfinite(field)]
        counts[number] = found.size
        if found.size:
            extremes += [found.min(), found.max()]
            sample.append(found[:: -(-found.size // per_hour)])
    if sample:
        sample.append(np.array([min(extremes), max(extremes)], dtype=np.float32))
    return counts, np.concatenate(sample) if sample else np.zeros(0, dtype=np.float32)


def _lines_of_absent(variable: Variable, hours: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> Iterator[str]:
    """Say at which hours no place has a value, and at which fewer places than at others."""
    most = int(counts.max())
    for lacks, where in ((counts == 0, "anywhere"), ((counts > 0) & (counts < most), "at some places")):
        # Missing over land, or where the thing itself is not there, is no gap.
        if lacks.any() and (where == "anywhere" or variable.extent == "everywhere"):
            yield f"no {variable.column} {where} at {', '.join(_runs(hours, lacks))}"


def _runs(hours: npt.NDArray[np.int64], lacks: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    """The hours that lack, as runs: of every third hour, those in between are not asked for."""
    step = int(hours[1] - hours[0]) if len(hours) > 1 else 1
    missing = {int(hour) for hour in hours[lacks]}
    filled = sorted({hour + more for hour in missing for more in range(step) if hour + step in missing} | missing)
    return describe_hours(filled)
