"""Values read from the table: those of one variable in a window of the grid, and the hours of one location."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.location_set import GridWindow, LocationSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Field:
    """Values of one variable in a window of the grid.

    `values` (n, m) float32 are in `unit`, from south to north and west to east, NaN where missing. `time` is their
    hour; None for several hours.
    """

    variable: Variable
    window: GridWindow
    values: FloatArray
    unit: str
    time: datetime | None = None

    @property
    def latitudes(self) -> FloatArray:
        """Degrees north in float32, (n,), ascending."""
        north = self.window.north_index
        return self.window.grid.latitudes_of(np.arange(north - self.window.rows + 1, north + 1))

    @property
    def longitudes(self) -> FloatArray:
        """Degrees east in float32, (m,), ascending: continued past 180 across the antimeridian (180.25 is 179.75 W)."""
        return self.window.grid.longitudes_of(self.window.west_index + np.arange(self.window.columns))

    @property
    def locations(self) -> LocationSet:
        """The locations that have a value."""
        rows, columns = np.nonzero(np.isfinite(self.values))
        south, grid = self.window.north_index - self.window.rows + 1, self.window.grid
        ids = grid.location_ids(rows + south, (columns + self.window.west_index) % grid.columns)
        return LocationSet.of_ids(ids, grid)


@dataclass(frozen=True, eq=False)
class Series:
    """One location's rows: `times` (n,) ascending, in UTC, and `values` (n,) of each column.

    Values are float32 in the table's units; NULL is NaN. Hours without a row are left out.
    """

    times: npt.NDArray[np.datetime64]
    values: Mapping[str, npt.NDArray[np.float32]]


def hour_field(
    time: datetime, variable: Variable, location_ids: npt.NDArray[np.int32], values: FloatArray, grid: Grid
) -> Field:
    """Arrange values (k,) of an hour, in the table's unit, at locations (k,), in any order, k > 0."""
    window, filled = placed(location_ids, values, grid)
    return Field(variable, window, filled, variable.unit, time.astimezone(UTC))


def placed(
    location_ids: npt.NDArray[np.int32], values: npt.NDArray[np.floating], grid: Grid
) -> tuple[GridWindow, FloatArray]:
    """The smallest window around locations (k,) of a grid, in any order, k > 0; their values as those of a `Field`."""
    rows, columns = np.divmod(location_ids - 1, grid.columns)
    south, north = int(rows.min()), int(rows.max())
    west, width = grid.narrowest_arc(columns)
    filled = np.full((north - south + 1, width), np.nan, dtype=np.float32)
    filled[rows - south, (columns - west) % grid.columns] = values
    return GridWindow(north, west, *filled.shape, grid=grid), filled
