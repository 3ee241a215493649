"""Grids of the globe, the numbering of their points, shifts off them, and rectangles on them.

Converts between degrees, grid indices and `location_id`. Does not know files, or which locations a month has.

Latitude indices run south to north from 0 (90 S); longitude indices run eastward from 0, the first column east of the
antimeridian. `location_id = latitude_index * columns + longitude_index + 1`. On ERA5's grid that are 721 rows, 1,440
columns from 179.75 W to 180 E, and ids from 1 to 1,038,240. The numbering comes from the study behind this table:
latitude -30, longitude 30.25 is 346441.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    IntArray = npt.NDArray[np.int32]

# Files with rounding errors differ from the grid by less than this; float32 holds tenths of a degree to 1e-5.
TOLERANCE_DEGREES = 1e-3
# Files state degrees that are off the grid with three to six digits: those of one axis differ by so much.
_SPREAD_DEGREES = 4e-3
EARTH_RADIUS_KM = 6371.0


@dataclass(frozen=True)
class Grid:
    """A regular grid of the globe, poles included.

    `name` is whose it is, for messages; `step_degrees` the distance of its points on both axes. Columns begin one step
    east of the antimeridian, so that longitudes lie in (-180, 180].
    """

    name: str
    step_degrees: float
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if (self.rows - 1, self.columns) != (round(180 / self.step_degrees), round(360 / self.step_degrees)):
            raise ValueError(f"{self.rows} x {self.columns} points do not lie {self.step_degrees:g} degrees apart")

    def __str__(self) -> str:
        return f"{self.name}'s {self.step_degrees:g} degree grid"

    @property
    def locations(self) -> int:
        """The number of its points, and the largest `location_id`."""
        return self.rows * self.columns

    @property
    def west_degrees(self) -> float:
        """The longitude of column 0."""
        return self.step_degrees - 180.0

    @cached_property
    def decimals(self) -> int:
        """The digits after the point that write each of its degrees exactly."""
        return len(f"{self.step_degrees:.10g}".partition(".")[2])

    def latitude_indices(self, latitudes: npt.ArrayLike) -> IntArray:
        """Indices, (n,), of latitudes in degrees north; a `ValueError` names the first that is not on the grid."""
        return self._indices(latitudes, origin=-90.0, count=self.rows, name="latitude")

    def longitude_indices(self, longitudes: npt.ArrayLike) -> IntArray:
        """Indices, (n,), of longitudes in degrees east, -180 to 360; a `ValueError` as for latitudes."""
        values = np.asarray(longitudes, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            bad = ~((values >= -180.0 - TOLERANCE_DEGREES) & (values <= 360.0 + TOLERANCE_DEGREES))
        if bad.any():
            raise ValueError(f"longitude {float(values[bad][0]):g} is not a longitude in degrees")
        eastward = np.mod(values - self.west_degrees, 360.0)
        # A rounding error west of column 0 wraps to just under 360, which is column 0 too.
        eastward[eastward > 360.0 - TOLERANCE_DEGREES] = 0.0
        return self._indices(eastward, origin=0.0, count=self.columns, name="longitude", shown=values)

    def _indices(
        self,
        degrees: npt.ArrayLike,
        *,
        origin: float,
        count: int,
        name: str,
        shown: npt.NDArray[np.float64] | None = None,
    ) -> IntArray:
        values = np.asarray(degrees, dtype=np.float64)
        shown = values if shown is None else shown
        steps = (values - origin) / self.step_degrees
        with np.errstate(invalid="ignore"):
            nearest = np.rint(steps)
            is_off = ~(np.abs(steps - nearest) * self.step_degrees <= TOLERANCE_DEGREES)
            bad = is_off | ~((nearest >= 0) & (nearest < count))
        if bad.any():
            raise ValueError(f"{name} {float(shown[bad][0]):g} is not on {self}")
        return nearest.astype(np.int32)

    def nearest_indices(self, degrees: npt.ArrayLike, axis: Literal["latitude", "longitude"]) -> tuple[IntArray, float]:
        """Nearest indices, (n,), of degrees that all lie beside a grid point in the same way; and how far, in degrees.

        The distance is positive to the north and east, and rounded to 0.001. A `ValueError` says why some have no
        index.
        """
        values, step = np.asarray(degrees, dtype=np.float64), self.step_degrees
        first = values[0] - np.rint(values[0] / step) * step
        nearest = np.rint((values - first) / step)
        offsets = values - nearest * step
        if np.ptp(offsets) > _SPREAD_DEGREES:
            raise ValueError(f"its {axis}s do not all lie beside grid points in the same way")
        if not np.abs(offsets).max() < step / 2 - TOLERANCE_DEGREES:
            raise ValueError(f"its {axis}s lie half way between grid points")
        indices_of = self.latitude_indices if axis == "latitude" else self.longitude_indices
        indices = indices_of(nearest * step)
        if np.unique(indices).size != indices.size:
            raise ValueError(f"several of its {axis}s lie beside the same grid point")
        return indices, round(float(offsets.min() + offsets.max()) / 2, 3)

    def latitudes_of(self, indices: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Degrees north, float32, of latitude indices."""
        return (np.asarray(indices, dtype=np.float64) * self.step_degrees - 90.0).astype(np.float32)

    def longitudes_of(self, indices: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Degrees east in (-180, 180], float32, of longitude indices."""
        return (np.asarray(indices, dtype=np.float64) * self.step_degrees + self.west_degrees).astype(np.float32)

    def location_ids(self, latitude_index: npt.ArrayLike, longitude_index: npt.ArrayLike) -> IntArray:
        """Convert indices to `location_id`, int32; the arguments broadcast."""
        latitude = np.asarray(latitude_index, dtype=np.int32)
        longitude = np.asarray(longitude_index, dtype=np.int32)
        return latitude * np.int32(self.columns) + longitude + np.int32(1)

    def location(self, location_id: int) -> Location:
        """The point with this `location_id`."""
        if not 1 <= location_id <= self.locations:
            raise UsageError(
                f"location_id {location_id} is out of range", remedy=f"Give a number from 1 to {self.locations:,}."
            )
        row, column = divmod(location_id - 1, self.columns)
        latitude, longitude = (
            round(float(degrees), self.decimals) for degrees in (self.latitudes_of(row), self.longitudes_of(column))
        )
        return Location(location_id, latitude, longitude, grid=self)

    def nearest_location(self, latitude: float, longitude: float) -> Location:
        """The point nearest to the coordinates, in degrees; longitude in [-180, 360]."""
        if not -90.0 <= latitude <= 90.0:
            raise UsageError(f"latitude {latitude:g} is out of range", remedy="Give a latitude from -90 to 90.")
        if not -180.0 <= longitude <= 360.0:
            raise UsageError(f"longitude {longitude:g} is out of range", remedy="Give a longitude from -180 to 360.")
        latitude_index = round((latitude + 90.0) / self.step_degrees)
        longitude_index = round((longitude - self.west_degrees) / self.step_degrees) % self.columns
        return self.location(int(self.location_ids(latitude_index, longitude_index)))

    def parse_points(self, text: str) -> tuple[Location, ...]:
        """Parse `LAT/LON`, or several separated by blanks: the nearest grid points, each once, by location_id."""
        points = set()
        for part in text.split():
            try:
                latitude, longitude = (float(number) for number in part.replace(",", "/").split("/"))
            except ValueError:
                raise UsageError(
                    f"{part!r} is not a point", remedy="A point is LAT/LON in degrees, for example -6.25/106.75."
                ) from None
            points.add(self.nearest_location(latitude, longitude))
        return tuple(sorted(points, key=lambda point: point.location_id))

    def narrowest_arc(self, columns: npt.NDArray[np.integer]) -> tuple[int, int]:
        """Western end and width, in columns, of the shortest arc that contains all these columns (n,)."""
        found = np.unique(columns)
        gaps = np.diff(found, append=found[0] + self.columns)
        # The arc leaves out the widest gap; if several are equal, the last, so that a whole parallel starts at the
        # antimeridian.
        widest = len(gaps) - 1 - int(np.argmax(gaps[::-1]))
        west = int(found[(widest + 1) % len(found)])
        return west, self.columns - int(gaps[widest]) + 1

    def area_around(self, latitudes: npt.ArrayLike, longitudes: npt.ArrayLike) -> Area:
        """The smallest area with borders on the grid around degrees, each (n,); a `ValueError` if some are none."""
        rows, columns = map(self._on_both_sides, (latitudes, longitudes))
        return self.area_of(self.latitude_indices(np.clip(rows, -90.0, 90.0)), self.longitude_indices(columns))

    def area_of(self, rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer]) -> Area:
        """The smallest area around grid points with these latitude and longitude indices, each (n,), n > 0."""
        north, south = self._shown(self.latitudes_of([rows.max(), rows.min()]))
        first, width = self.narrowest_arc(columns)
        if width == self.columns:
            return Area(north, -180.0, south, 180.0, grid=self)
        west, east = self._shown(self.longitudes_of([first, (first + width - 1) % self.columns]))
        return Area(north, west, south, east, grid=self)

    def _on_both_sides(self, degrees: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The grid's degrees below and above each of these; those of grid points themselves twice."""
        degrees = np.asarray(degrees, dtype=np.float64)
        below = np.floor((degrees + TOLERANCE_DEGREES) / self.step_degrees)
        above = np.ceil((degrees - TOLERANCE_DEGREES) / self.step_degrees)
        both: npt.NDArray[np.float64] = np.concatenate([below, above]) * self.step_degrees
        return both

    def _shown(self, degrees: npt.NDArray[np.float32]) -> list[float]:
        """Degrees of the grid in float64, as they are written: 9.9 and not 9.8999996."""
        return [round(one, self.decimals) for one in degrees.tolist()]


ERA5_GRID = Grid("ERA5", step_degrees=0.25, rows=721, columns=1440)
ERA5_LAND_GRID = Grid("ERA5-Land", step_degrees=0.1, rows=1801, columns=3600)


def require_same_grid(one: Grid, other: Grid) -> Grid:
    """Return the grid of both; a `ValueError` if they are two, whose indices and ids mean other places."""
    if one != other:
        raise ValueError(f"places of {one} are none of {other}")
    return one


@dataclass(frozen=True)
class Shift:
    """How far the points of values lie from the grid points where they are stored, in degrees north and east."""

    north: float
    east: float

    @classmethod
    def from_json(cls, value: dict[str, Any] | None) -> Self | None:
        """Build the shift from the JSON of `asdict`; None from None."""
        return None if value is None else cls(value["north"], value["east"])

    def is_like(self, other: Shift | None) -> bool:
        """Return True if both are the same, to the digits that files have."""
        return other is not None and all(
            abs(own - of_other) <= _SPREAD_DEGREES / 2
            for own, of_other in ((self.north, other.north), (self.east, other.east))
        )

    def __str__(self) -> str:
        parts = ((self.north, "N", "S"), (self.east, "E", "W"))
        return " ".join(f"{abs(degrees):g} {above if degrees >= 0 else below}" for degrees, above, below in parts)

    @property
    def text(self) -> str:
        """Describe values with this shift, as the ledger and exports do."""
        return f"interpolated by the store, shifted by {self}"


def is_same_shift(one: Shift | None, other: Shift | None) -> bool:
    """Return True if both are on the grid, or are shifted alike."""
    return one is other if one is None else one.is_like(other)


def distances_km(
    latitude: float, longitude: float, latitudes: npt.ArrayLike, longitudes: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Great-circle distances in km, (n,), from one point to n others; all coordinates in degrees."""
    there, beside = (np.deg2rad(np.asarray(degrees, dtype=np.float64)) for degrees in (latitudes, longitudes))
    here = np.deg2rad(latitude)
    south_north = np.sin((there - here) / 2) ** 2
    west_east = np.sin((beside - np.deg2rad(longitude)) / 2) ** 2
    # At the antipode, rounding can exceed 1.
    haversine = np.minimum(south_north + np.cos(there) * np.cos(here) * west_east, 1.0)
    distances: npt.NDArray[np.float64] = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(haversine))
    return distances


@dataclass(frozen=True)
class Location:
    """One grid point: its `location_id` and degrees."""

    location_id: int
    latitude: float
    longitude: float
    grid: Grid = field(default=ERA5_GRID, repr=False, kw_only=True)

    def __str__(self) -> str:
        return f"{self.latitude:g}/{self.longitude:g}"


def points_text(points: Iterable[Location]) -> str:
    """Write points in the form that `parse_points` reads."""
    return " ".join(map(str, points))


@dataclass(frozen=True)
class Area:
    """A rectangle, borders included, in the CDS's order: north, west, south, east in degrees.

    If `west > east`, it crosses the antimeridian.
    """

    north: float
    west: float
    south: float
    east: float
    grid: Grid = field(default=ERA5_GRID, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not -90.0 <= self.south <= self.north <= 90.0:
            raise UsageError(
                f"area {self}: south must not be greater than north, both within -90 to 90",
                remedy="An area is NORTH/WEST/SOUTH/EAST, for example -5/106/-8/108.",
            )
        if not all(-180.0 <= degrees <= 360.0 for degrees in (self.west, self.east)):
            raise UsageError(
                f"area {self}: west and east must be within -180 to 360",
                remedy="An area is NORTH/WEST/SOUTH/EAST, for example -5/106/-8/108.",
            )
        if not (self.latitude_indices().size and self.longitude_indices().size):
            raise UsageError(
                f"area {self} contains no grid point",
                remedy=f"Grid points are multiples of {self.grid.step_degrees:g} degrees: make the area larger, or "
                "move its borders to them.",
            )

    @classmethod
    def parse(cls, text: str, grid: Grid = ERA5_GRID) -> Self:
        """Parse `NORTH/WEST/SOUTH/EAST` (or with commas), or `global`."""
        if text.strip().lower() == "global":
            return cls(90.0, -180.0, -90.0, 180.0, grid=grid)
        try:
            north, west, south, east = (float(part) for part in text.replace(",", "/").split("/"))
        except ValueError:
            raise UsageError(
                f"{text!r} is not an area",
                remedy="An area is NORTH/WEST/SOUTH/EAST, for example -5/106/-8/108, or the word global.",
            ) from None
        return cls(north, west, south, east, grid=grid)

    def __str__(self) -> str:
        return "/".join(f"{degrees:.10g}" for degrees in (self.north, self.west, self.south, self.east))

    def meets(self, other: Area) -> bool:
        """Return True if a grid point is in both areas."""
        require_same_grid(self.grid, other.grid)
        rows, columns = self.latitude_indices(), self.longitude_indices()
        return bool(np.isin(rows, other.latitude_indices()).any() and np.isin(columns, other.longitude_indices()).any())

    def latitude_indices(self) -> IntArray:
        """Grid indices of the latitudes in the area, south to north."""
        first = int(np.ceil(round((self.south + 90.0) / self.grid.step_degrees, 6)))
        last = int(np.floor(round((self.north + 90.0) / self.grid.step_degrees, 6)))
        return np.arange(first, last + 1, dtype=np.int32)

    def longitude_indices(self) -> IntArray:
        """Grid indices of the longitudes in the area, ascending (so not west to east if the area crosses 180)."""
        degrees = self.grid.longitudes_of(np.arange(self.grid.columns)).astype(np.float64)
        width = (self.east - self.west) % 360.0
        if width == 0.0 and self.east > self.west:
            width = 360.0
        offset = (degrees - self.west) % 360.0
        within = (offset <= width + TOLERANCE_DEGREES) | (offset >= 360.0 - TOLERANCE_DEGREES)
        return np.flatnonzero(within).astype(np.int32)
