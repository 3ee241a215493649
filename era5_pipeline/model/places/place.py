"""A named place, and what a command was asked for: a place or bare coordinates, with the grid cell that stands for it.

Here: the types, and how they are described in words. Not here: finding a place by its name (`place_search`), a cell
(`grid_cells`) or a zone (`time_zones`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from era5_pipeline.model.places.grid_cells import Cell


@dataclass(frozen=True)
class Place:
    """A city of the table of places; `country` is its English name, degrees are north and east positive."""

    name: str
    country: str
    latitude: float
    longitude: float
    population: int
    time_zone: str
    geoname_id: int
    country_code: str = ""
    # The postal code of a state of the United States, such as TX; empty elsewhere.
    region: str = ""

    def __str__(self) -> str:
        region = f", {self.region}" if self.region else ""
        country = f", {self.country}" if self.country != self.name else ""
        return f"{self.name}{region}{country}"


@dataclass(frozen=True)
class AskedPlace:
    """What a command was asked for: a place by name, or bare coordinates (`place` is None), and its grid cell.

    `latitude` and `longitude` are those asked for, in degrees: of a named place, its own.
    """

    place: Place | None
    latitude: float
    longitude: float
    cell: Cell

    @property
    def name(self) -> str | None:
        """The name of the place and its country; None for bare coordinates."""
        return None if self.place is None else str(self.place)

    @cached_property
    def time_zone(self) -> str:
        """The IANA zone: of a named place from its table, of bare coordinates by their position."""
        if self.place is not None:
            return self.place.time_zone
        from era5_pipeline.model.places.time_zones import zone_of  # noqa: PLC0415  # loads 3 MB of polygons

        return zone_of(self.latitude, self.longitude)

    @property
    def is_on_grid(self) -> bool:
        """Whether the coordinates are those of the cell's grid point."""
        return (self.cell.location.latitude, self.cell.location.longitude) == (self.latitude, self.longitude)

    @property
    def is_moved(self) -> bool:
        """Whether the cell is not that of the nearest grid point, because that is mostly water."""
        from era5_pipeline.model.grid import nearest_location  # noqa: PLC0415  # imports numpy

        return self.cell.location != nearest_location(self.latitude, self.longitude)

    @property
    def description(self) -> str:
        """One line: the place asked for, the cell that stands for it, and how much of that is land."""
        asked = f"{self.latitude:g}, {self.longitude:g}"
        where = self.cell.location
        point = f"location_id {where.location_id}, latitude {where.latitude:g}, longitude {where.longitude:g}"
        nearest = "nearest land" if self.is_moved else "nearest"
        if self.place is not None:
            beside = ", the nearest land" if self.is_moved else ""
            return f"{self.name} ({asked}): {point}{beside}, {self.cell.land_words}"
        if not self.is_on_grid:
            point += f" ({nearest} to {asked})"
        return point if self.cell.land_share == 1.0 else f"{point}, {self.cell.land_words}"

    def as_json(self) -> dict[str, object]:
        """The facts of the place and its cell, for output as JSON; `place` is null for bare coordinates."""
        named = None
        if self.place is not None:
            named = {
                "name": self.place.name,
                "country": self.place.country,
                "region": self.place.region or None,
                "population": self.place.population,
                "latitude": self.place.latitude,
                "longitude": self.place.longitude,
                "time_zone": self.place.time_zone,
                "geoname_id": self.place.geoname_id,
            }
        where = self.cell.location
        return {
            "place": named,
            "location_id": where.location_id,
            "latitude": where.latitude,
            "longitude": where.longitude,
            "land_share": self.cell.land_share,
        }
