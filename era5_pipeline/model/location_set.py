"""Sets of locations, such as those of a part of a month, and rectangles of the grid as the axes of an array.

Set arithmetic on `location_id`, and describing a set as a rectangle. For degrees and numbering see `grid`.

A set is stored as runs of consecutive ids. Ids run along latitudes, so a rectangle has one run per latitude, the
globe a single one, and scattered points one each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from era5_pipeline.model.grid import ERA5_GRID, Area, Grid, require_same_grid

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from era5_pipeline.model.grid import Location

    Mask = npt.NDArray[np.bool_]

# Larger sets of points are described by their count alone.
_NAMED_POINTS = 3


@dataclass(frozen=True)
class Rectangle:
    """Grid rows `first_row` to `last_row`, columns `first_column` to `last_column`."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int
    grid: Grid = field(repr=False, kw_only=True)

    @property
    def first_id(self) -> int:
        """The smallest location_id."""
        return int(self.grid.location_ids(self.first_row, self.first_column))

    @property
    def last_id(self) -> int:
        """The largest location_id."""
        return int(self.grid.location_ids(self.last_row, self.last_column))

    @property
    def is_run(self) -> bool:
        """True if the rectangle holds every id between its smallest and its largest."""
        is_whole_rows = (self.first_column, self.last_column) == (0, self.grid.columns - 1)
        return is_whole_rows or self.first_row == self.last_row


@dataclass(frozen=True)
class LocationSet:
    """A set of `location_id` of one grid as ascending runs (first, end) that neither overlap nor touch.

    `end` is exclusive. Sets of two grids have nothing to do with each other: a `ValueError`.
    """

    runs: tuple[tuple[int, int], ...] = ()
    grid: Grid = field(default=ERA5_GRID, repr=False, kw_only=True)

    @classmethod
    def of_ids(cls, ids: npt.ArrayLike, grid: Grid = ERA5_GRID) -> Self:
        """Build a set from ids (n,), in any order."""
        ids = np.asarray(ids, dtype=np.int64)
        # numpy finds the distinct ones of a million in 0.6 s (numpy 2.4), and sees that they ascend in 0.4 ms.
        return cls._of_ascending(ids if (ids[1:] > ids[:-1]).all() else np.unique(ids), grid)

    @classmethod
    def of_coverage(cls, coverage: Mask, grid: Grid = ERA5_GRID) -> Self:
        """Build a set from a mask, (rows, columns) of the grid by latitude and longitude index."""
        return cls._of_mask(coverage.reshape(-1), grid)

    @classmethod
    def of_area(cls, area: Area) -> Self:
        """The grid points of a rectangle."""
        rows, columns = np.sort(area.latitude_indices()), np.sort(area.longitude_indices())
        return cls.of_ids(area.grid.location_ids(rows[:, np.newaxis], columns[np.newaxis, :]).reshape(-1), area.grid)

    @classmethod
    def of_location(cls, location: Location) -> Self:
        """One grid point."""
        return cls(((location.location_id, location.location_id + 1),), grid=location.grid)

    @classmethod
    def of_runs(cls, runs: Iterable[Iterable[int]], grid: Grid = ERA5_GRID) -> Self:
        """Build a set from runs (first, end), as stored in JSON."""
        return cls(tuple((int(first), int(end)) for first, end in runs), grid=grid)

    @classmethod
    def of_ranges(cls, ranges: Iterable[Any] | None, grid: Grid = ERA5_GRID) -> Self:
        """Build a set from the ranges of an int4multirange, as psycopg reads it; None is an empty one."""
        return cls(tuple((one.lower, one.upper) for one in ranges or ()), grid=grid)

    @classmethod
    def whole(cls, grid: Grid = ERA5_GRID) -> Self:
        """All points of the grid."""
        return cls(((1, grid.locations + 1),), grid=grid)

    @classmethod
    def _of_mask(cls, mask: Mask, grid: Grid) -> Self:
        return cls._of_ascending(np.flatnonzero(mask) + 1, grid)

    @classmethod
    def _of_ascending(cls, ids: npt.NDArray[np.int64], grid: Grid) -> Self:
        """Build a set from ascending, unique ids."""
        if not ids.size:
            return cls(grid=grid)
        borders = np.flatnonzero(np.diff(ids) != 1)
        firsts = ids[np.concatenate(([0], borders + 1))]
        ends = ids[np.concatenate((borders, [ids.size - 1]))] + 1
        return cls(tuple(zip(firsts.tolist(), ends.tolist(), strict=True)), grid=grid)

    def __len__(self) -> int:
        return sum(end - first for first, end in self.runs)

    @property
    def multirange(self) -> str:
        """The set as PostgreSQL writes an int4multirange."""
        return "{" + ",".join(f"[{first},{end})" for first, end in self.runs) + "}"

    def __contains__(self, location_id: int) -> bool:
        return any(first <= location_id < end for first, end in self.runs)

    def __and__(self, other: Self) -> Self:
        grid = require_same_grid(self.grid, other.grid)
        return self._of_mask(self._mask & other._mask, grid)

    def __or__(self, other: Self) -> Self:
        grid = require_same_grid(self.grid, other.grid)
        return self._of_mask(self._mask | other._mask, grid)

    def __sub__(self, other: Self) -> Self:
        grid = require_same_grid(self.grid, other.grid)
        return self._of_mask(self._mask & ~other._mask, grid)

    def is_subset_of(self, other: Self) -> bool:
        """Return True if `other` holds every location of this set."""
        require_same_grid(self.grid, other.grid)
        return not (self._mask & ~other._mask).any()

    def overlaps(self, other: Self) -> bool:
        """Return True if the sets have a location in common."""
        require_same_grid(self.grid, other.grid)
        return bool((self._mask & other._mask).any())

    @property
    def first_id(self) -> int:
        """The smallest location_id; the set must not be empty."""
        return self.runs[0][0]

    @property
    def last_id(self) -> int:
        """The largest location_id; the set must not be empty."""
        return self.runs[-1][1] - 1

    def count_between(self, first_id: int, last_id: int) -> int:
        """Count the locations with a location_id from `first_id` to `last_id`."""
        return int(np.count_nonzero(self._mask[first_id - 1 : last_id]))

    def ids(self) -> npt.NDArray[np.int64]:
        """The ids, (n,) ascending."""
        return np.flatnonzero(self._mask) + 1

    @cached_property
    def _mask(self) -> Mask:
        """A mask of the ids in the set, one place for each point of the grid; id 1 is at position 0."""
        mask = np.zeros(self.grid.locations, dtype=np.bool_)
        for first, end in self.runs:
            mask[first - 1 : end - 1] = True
        return mask

    @cached_property
    def rectangles(self) -> tuple[Rectangle, ...]:
        """Split the set into disjoint rectangles, joining adjacent latitudes with the same longitudes."""
        rows = _columns_by_row(self.runs, self.grid.columns)
        done: list[Rectangle] = []
        growing: dict[tuple[int, int], Rectangle] = {}
        for row in sorted(rows):
            continued = growing if row - 1 in rows else {}
            here = {
                span: replace(continued[span], last_row=row)
                if span in continued
                else Rectangle(row, row, *span, grid=self.grid)
                for span in rows[row]
            }
            done += [one for span, one in growing.items() if span not in continued or span not in here]
            growing = here
        return tuple(sorted([*done, *growing.values()], key=lambda one: one.first_id))

    @cached_property
    def hull(self) -> Area:
        """The smallest rectangle, in degrees, around the set, which must not be empty."""
        mask = self._mask.reshape(-1, self.grid.columns)
        return self.grid.area_of(np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0)))

    @property
    def is_rectangle(self) -> bool:
        """True if the set holds every grid point of its hull."""
        return bool(self.runs) and len(self) == self.hull.latitude_indices().size * self.hull.longitude_indices().size

    def __str__(self) -> str:
        if not self.runs:
            return "no location"
        if len(self) <= _NAMED_POINTS and not (self.is_rectangle and len(self) > 1):
            return ", ".join(str(self.grid.location(one)) for one in self.ids().tolist())
        if len(self) == self.grid.locations:
            return "global"
        return str(self.hull) if self.is_rectangle else f"{len(self):,} places within {self.hull}"


@dataclass(frozen=True)
class GridWindow:
    """A rectangle of the grid: indices of its northern and western border, and its numbers of rows and columns.

    Across the antimeridian the longitudes continue past 180, so that they ascend (180.25 is 179.75 W).
    """

    north_index: int
    west_index: int
    rows: int
    columns: int
    grid: Grid = field(repr=False, kw_only=True)

    @classmethod
    def of_area(cls, area: Area) -> Self:
        """The grid points of an area."""
        latitudes = area.latitude_indices()
        west, width = area.grid.narrowest_arc(area.longitude_indices())
        return cls(int(latitudes[-1]), west, latitudes.size, width, grid=area.grid)

    @classmethod
    def of_location(cls, location: Location) -> Self:
        """One grid point."""
        return cls(*divmod(location.location_id - 1, location.grid.columns), 1, 1, grid=location.grid)

    @property
    def latitudes(self) -> npt.NDArray[np.float64]:
        """Degrees north, (rows,), descending as in files of ERA5."""
        return self._exact(self.grid.latitudes_of(self.north_index - np.arange(self.rows)))

    @property
    def longitudes(self) -> npt.NDArray[np.float64]:
        """Degrees east, (columns,), ascending."""
        return self._exact(self.grid.longitudes_of(self.west_index + np.arange(self.columns)))

    def _exact(self, degrees: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """The degrees as users write them, 9.9, and not those of float32, 9.8999996: labels are selected by them."""
        return np.asarray(np.round(degrees.astype(np.float64), self.grid.decimals), dtype=np.float64)

    def part(self, rows: range, columns: range) -> GridWindow:
        """The rectangle of these rows, counted from the north, and columns, from the west; neither may be empty."""
        west = (self.west_index + columns.start) % self.grid.columns
        return GridWindow(self.north_index - rows.start, west, len(rows), len(columns), grid=self.grid)

    @property
    def locations(self) -> LocationSet:
        """The grid points."""
        rows = self.north_index - np.arange(self.rows)[:, np.newaxis]
        columns = (self.west_index + np.arange(self.columns)) % self.grid.columns
        return LocationSet.of_ids(self.grid.location_ids(rows, columns).reshape(-1), self.grid)

    @property
    def ids(self) -> tuple[int, int]:
        """The lowest and the highest location_id that a place in the rectangle can have."""
        south = self.north_index - self.rows + 1
        first, last = self.west_index, self.west_index + self.columns - 1
        if last >= self.grid.columns:
            first, last = 0, self.grid.columns - 1
        lowest, highest = self.grid.location_ids([south, self.north_index], [first, last]).tolist()
        return lowest, highest

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters for statements that read its rows: the range of its ids, and its columns of the grid."""
        first_id, last_id = self.ids
        return {
            "first_id": first_id,
            "last_id": last_id,
            "columns": self.grid.columns,
            "west_index": self.west_index,
            "width": self.columns,
        }

    def positions(self, location_ids: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows from the north and columns from the west, (n,), of locations in the rectangle."""
        latitudes, longitudes = np.divmod(location_ids.astype(np.intp) - 1, self.grid.columns)
        return self.north_index - latitudes, (longitudes - self.west_index) % self.grid.columns


def _columns_by_row(runs: tuple[tuple[int, int], ...], columns: int) -> dict[int, list[tuple[int, int]]]:
    """Split runs at the ends of rows of so many columns; return the column ranges (first, last) of each grid row."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for first, end in runs:
        position = first - 1
        while position < end - 1:
            row, column = divmod(position, columns)
            last = min(end - 1 - row * columns, columns) - 1
            rows.setdefault(row, []).append((column, last))
            position = (row + 1) * columns
    return rows
