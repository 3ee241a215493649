"""A field to draw, with what is missing, the time that it covers, and words for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.maps.fields import unit_text, variable_title
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area, latitude_indices, location_ids, longitude_indices
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.read.fields import line_of_absent, no_rows, on_rectangle, only_null
from era5_pipeline.read.held import NO_LEDGER, describe_months, months_held
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.ledger import multirange

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.maps.cells import CellValues
    from era5_pipeline.maps.fields import FieldMap, FloatArray
    from era5_pipeline.maps.question import MapStatistic
    from era5_pipeline.model.variables import Variable

# --- Lines that name what is missing on a map of several hours: locations, hours, months, years, summaries ---


_SUMMARIES = "Compute them from the hours: era5 db summaries."


def describe_missing(
    variable: Variable, location_ids: npt.NDArray[np.int32], area: Area | None, wanted: LocationSet, kind: str
) -> list[str]:
    """Describe which locations of the area (without one: of `wanted`) are not drawn; empty if all are."""
    if variable.extent != "everywhere":
        return []  # undefined over land, or where there is no cloud, ice or the like: no gap
    return line_of_absent(variable, LocationSet.of_ids(location_ids), area, wanted, kind)


def lines_of_short(cells: CellValues, is_enough: npt.NDArray[np.bool_], expected: int, when: str) -> list[str]:
    """Say how many locations are missing hours, and the range of hours that they have; empty if all have enough."""
    if is_enough.all():
        return []
    hours = cells.hours[~is_enough]
    return [
        f"{hours.size:,} of {is_enough.size:,} locations have only {_between(hours)} of {expected:,} hours of {when}"
    ]


def lines_of_few_years(years: npt.NDArray[np.int64], needed: int, most: int, which: str) -> tuple[list[str], list[str]]:
    """Say how many locations have too few complete years, and how few the others have."""
    absent, remarks = [], []
    if (years < needed).any():
        count = int((years < needed).sum())
        absent.append(f"{count:,} of {years.size:,} locations have fewer than {needed} {which}")
    fewer = years[(years >= needed) & (years < most)]
    if fewer.size:
        remarks.append(f"{fewer.size:,} of {years.size:,} locations have only {_between(fewer)} {which}")
    return absent, remarks


def lines_without_summaries(
    connection: psycopg.Connection[Any], months: Sequence[Month], area: Area | None
) -> list[str]:
    """Name those of these months for which the table holds hours but no summaries."""
    lacking = _without_summaries(connection, months, area)
    if not lacking:
        return []
    return [f"no monthly summaries of {describe_months(lacking)}, whose hours are there: era5 db summaries makes them"]


def no_summaries(
    connection: psycopg.Connection[Any],
    variable: Variable,
    months: Sequence[Month],
    area: Area | None,
    when: str,
) -> NoDataError:
    """The error for months (at least one) without a value in the summaries; `when` names them in words."""
    lacking = _without_summaries(connection, months, area)
    if lacking:
        return NoDataError(
            f"{when}: the table holds the hours of {describe_months(lacking)}, and no monthly summaries",
            remedy=_SUMMARIES,
        )
    held = months_held(connection, LocationSet.of_area(area) if area else None)
    there = [month for month in months if month in held]
    if there:
        return only_null(connection, variable, there, area, f"in {when}")
    return no_rows(connection, months[0].start, months[-1].end, area, when, "that time")


def _without_summaries(connection: psycopg.Connection[Any], months: Sequence[Month], area: Area | None) -> list[Month]:
    parameters = {
        "months": [month.start.date() for month in months],
        "location_ids": multirange(LocationSet.of_area(area)) if area else None,
    }
    try:
        rows = connection.execute(read_sql("months_without_summaries"), parameters).fetchall()
    except NO_LEDGER:
        return []
    return [Month(day.year, day.month) for (day,) in rows]


def _between(numbers: npt.NDArray[np.integer[Any]]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# --- A field to draw, with what is missing, the time that it covers, and words for the terminal ---


_WORDS: dict[MapStatistic, str] = {"mean": "mean", "min": "lowest hour", "max": "highest hour", "sum": "total"}


@dataclass(frozen=True, eq=False)
class MapReading:
    """A field, from data with `start <= time < end` (aware).

    `absent` says which locations are grey, and why; `remarks` what else to know about the values. `summary` says what
    was read, in the words of a terminal: `mean of 2023-07-15 (UTC)`; `table_unit` is the unit of the values there.
    `left_out` names distant locations that are not on the map.
    """

    field: FieldMap
    absent: tuple[str, ...]
    remarks: tuple[str, ...]
    start: datetime
    end: datetime
    summary: str
    table_unit: str
    left_out: str | None = None

    @property
    def locations(self) -> LocationSet:
        """The locations that have a value on the map."""
        rows, columns = np.nonzero(np.isfinite(self.field.values))
        degrees_east = (self.field.longitudes + 180.0) % 360.0 - 180.0
        of_rows, of_columns = latitude_indices(self.field.latitudes), longitude_indices(degrees_east)
        return LocationSet.of_ids(location_ids(of_rows[rows], of_columns[columns]))

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing."""
        return [*self.absent, *self.remarks]

    @property
    def notes(self) -> list[str]:
        """The same lines, worded for a figure."""
        return [
            *(f"Grey: no data; {line}" for line in self.absent),
            *(f"{line[0].upper()}{line[1:]}" for line in (*self.remarks, *([self.left_out] if self.left_out else []))),
        ]

    @property
    def counted(self) -> str:
        """The number of locations with a value, and the lowest and highest value, with their unit."""
        values = self.field.values[np.isfinite(self.field.values)]
        low, high = float(values.min()), float(values.max())
        if self.field.is_difference:
            # Differences are small compared with the values that the variable's rounding is meant for.
            digits = 2 if max(-low, high) >= 0.1 else 4
            texts = [f"{round(value, digits) + 0.0:+.{digits}f}" for value in (low, high)]
        else:
            texts = [self.field.variable.rounded(value) for value in (low, high)]
        return f"{values.size:,} locations, {texts[0]} to {texts[1]} {self.table_unit}"


@dataclass(frozen=True, eq=False)
class PlacedCells:
    """Values on a rectangle of the grid, arranged as in a `FieldMap`."""

    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, location_ids: npt.NDArray[np.int32], values: npt.NDArray[np.float64]) -> PlacedCells:
        """Arrange values (k,) of locations (k,), k > 0."""
        return cls(*on_rectangle(location_ids, values.astype(np.float32)))


def statistic_words(statistic: MapStatistic) -> str:
    """The wording of a statistic in figures."""
    return _WORDS[statistic]


def title_words(variable: Variable) -> str:
    """The name of a variable in figures."""
    return variable_title(variable)


def unit_words(variable: Variable, statistic: MapStatistic, period: str) -> str:
    """The unit of a statistic for a colour bar: `mm in the day`; for a total's mean or extreme, `mm in an hour`."""
    unit = unit_text(variable.unit)
    if statistic == "sum":
        return f"{unit} in the {period}"
    return f"{unit} in an hour" if variable.step_type == "accum" else unit


# --- Places far apart: the part that one map can show ---


# A map that is filled more than this shows its places. July of the demonstration fills 0.4 %: a field of 64 cells in
# Qatar and one cell on the Mekong.
_FILLED = 0.05
# Places belong together unless an empty block of this many cells (five degrees) separates them.
_BLOCK = 20
_SHOWN_PARTS = 4


@dataclass(frozen=True)
class MainPart:
    """The rows and columns of a map to draw, their area, and a line that names what is left out."""

    rows: slice
    columns: slice
    area: Area
    line: str | None


def main_part(
    latitudes: npt.NDArray[np.float32], longitudes: npt.NDArray[np.float32], has_value: npt.NDArray[np.bool_]
) -> MainPart | None:
    """The part of a map (n, m) with the most places, if a map of all would make them invisible; None: draw all.

    Latitudes (n,) and longitudes (m,) ascend, as in a `FieldMap`.
    """
    rows, columns = np.nonzero(has_value)
    if not rows.size or rows.size >= _FILLED * has_value.size:
        return None
    labels = _labels(rows, columns)
    counts = np.bincount(labels)
    order = np.argsort(-counts, kind="stable")

    def area(part: int) -> Area:
        where = labels == part
        south, north = (float(latitudes[end(rows[where])]) for end in (np.min, np.max))
        west, east = ((float(longitudes[end(columns[where])]) + 180.0) % 360.0 - 180.0 for end in (np.min, np.max))
        return Area(north, west, south, east)

    first, others = int(order[0]), order[1:]
    named = [f"--area {area(int(part))}" for part in others[:_SHOWN_PARTS]]
    more = f" and {len(others) - _SHOWN_PARTS:,} more" if len(others) > _SHOWN_PARTS else ""
    where = labels == first
    return MainPart(
        rows=slice(int(rows[where].min()), int(rows[where].max()) + 1),
        columns=slice(int(columns[where].min()), int(columns[where].max()) + 1),
        area=area(first),
        line=f"the map shows {counts[first]:,} of {rows.size:,} places, those of {area(first)}; the others are far "
        f"away: {', '.join(named)}{more}"
        if named
        else None,
    )


def _labels(rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """The number, from 0, of the part that each place (k,) belongs to."""
    from scipy import ndimage  # noqa: PLC0415  # slow to import, and few maps need it

    blocks = np.zeros((int(rows.max()) // _BLOCK + 1, int(columns.max()) // _BLOCK + 1), dtype=np.bool_)
    blocks[rows // _BLOCK, columns // _BLOCK] = True
    labels, _ = ndimage.label(blocks, structure=np.ones((3, 3)))
    found: npt.NDArray[np.int32] = labels[rows // _BLOCK, columns // _BLOCK].astype(np.int32) - np.int32(1)
    return found
