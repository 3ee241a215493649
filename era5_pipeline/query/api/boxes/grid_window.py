"""A rectangle of the grid as the axes of an array: latitudes from north to south, longitudes from west to east."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from era5_pipeline.model import grid
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.snapshots import narrowest_arc

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class GridWindow:
    """A rectangle: grid indices of its northern and western border, and how many latitudes and longitudes it has.

    Across the antimeridian its longitudes continue past 180, so that they ascend (180.25 is 179.75 W).
    """

    north_index: int
    west_index: int
    rows: int
    columns: int

    @classmethod
    def of_area(cls, area: grid.Area) -> Self:
        """The grid points of an area."""
        latitudes = area.latitude_indices()
        west, width = narrowest_arc(area.longitude_indices())
        return cls(int(latitudes[-1]), west, latitudes.size, width)

    @property
    def latitudes(self) -> npt.NDArray[np.float64]:
        """Degrees north, (rows,), descending as in files of ERA5."""
        return grid.latitudes_of(self.north_index - np.arange(self.rows)).astype(np.float64)

    @property
    def longitudes(self) -> npt.NDArray[np.float64]:
        """Degrees east, (columns,), ascending."""
        return grid.longitudes_of(self.west_index + np.arange(self.columns)).astype(np.float64)

    def part(self, rows: range, columns: range) -> GridWindow:
        """The rectangle of these rows from the north and columns from the west; neither is empty."""
        west = (self.west_index + columns.start) % grid.N_LONGITUDES
        return GridWindow(self.north_index - rows.start, west, len(rows), len(columns))

    @property
    def locations(self) -> LocationSet:
        """The grid points."""
        rows = self.north_index - np.arange(self.rows)[:, np.newaxis]
        columns = (self.west_index + np.arange(self.columns)) % grid.N_LONGITUDES
        return LocationSet.of_ids(grid.location_ids(rows, columns).reshape(-1))

    @property
    def ids(self) -> tuple[int, int]:
        """The least and the greatest location_id that a place in it may have."""
        south = self.north_index - self.rows + 1
        first, last = self.west_index, self.west_index + self.columns - 1
        if last >= grid.N_LONGITUDES:
            first, last = 0, grid.N_LONGITUDES - 1
        return int(grid.location_ids(south, first)), int(grid.location_ids(self.north_index, last))

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of statements that read its rows: the range of its ids, and the columns of the grid within it."""
        first_id, last_id = self.ids
        return {
            "first_id": first_id,
            "last_id": last_id,
            "columns": grid.N_LONGITUDES,
            "west_index": self.west_index,
            "width": self.columns,
        }

    def positions(self, location_ids: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows from the north and columns from the west, (n,), of locations in the rectangle."""
        latitudes, longitudes = np.divmod(location_ids.astype(np.intp) - 1, grid.N_LONGITUDES)
        return self.north_index - latitudes, (longitudes - self.west_index) % grid.N_LONGITUDES
