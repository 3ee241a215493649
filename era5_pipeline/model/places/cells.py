"""The grid cell of a place: the nearest grid point, or the nearest one that is on land, and the cell's share of land.

A cell is the square of 0.25 degrees around its grid point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from era5_pipeline.model.grid import Location, nearest_location

CellChoice = Literal["nearest", "land"]


@dataclass(frozen=True)
class Cell:
    """A grid point, and how much of its cell is land, 0 to 1."""

    location: Location
    land_share: float

    @property
    def description(self) -> str:
        """Location, degrees, and how much of the cell is land or sea, in words."""
        where = self.location
        degrees = f"latitude {where.latitude:g}, longitude {where.longitude:g}"
        return f"location_id {where.location_id}, {degrees}, {land_words(self.land_share)}"


def land_words(share: float) -> str:
    """How much of a cell is land or sea: `all land`, `all sea` or `62 % land, 38 % sea`."""
    if share in (0.0, 1.0):
        return "all land" if share else "all sea"
    percent = min(max(round(share * 100), 1), 99)
    return f"{percent} % land, {100 - percent} % sea"


def cell_of(latitude: float, longitude: float, choice: CellChoice = "nearest") -> Cell:
    """The cell of a point in degrees; longitude in [-180, 360].

    Raises:
        UsageError: if a coordinate is out of range.
    """
    return Cell(nearest_location(latitude, longitude), 1.0)
