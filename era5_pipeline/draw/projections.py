"""Projections of the globe: the choice for a map, degrees to metres and back, and the cell of each pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import EARTH_RADIUS_KM, ERA5_GRID

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyproj

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.model.grid import Grid

    Degrees = npt.NDArray[np.floating]
    Metres = npt.NDArray[np.float64]
    FloatArray = npt.NDArray[np.floating]

# --- A projection of the globe about a central meridian: degrees to places on the map and back, and its outline ---
#
# PROJ does the arithmetic, on a sphere, as ERA5's model does. Equal Earth and Robinson are pseudocylindrical: parallels
# are straight and horizontal. In polar stereographic they are circles about the pole, and meridians are straight. In
# all of them the window's border in degrees is the border on the map, once its sides are curved. A map in plate carree
# has degrees in place of metres.


ProjectionName = Literal["plate-carree", "equal-earth", "robinson", "polar-stereographic"]

_PROJ_NAMES: dict[ProjectionName, str] = {
    "equal-earth": "eqearth",
    "robinson": "robin",
    "polar-stereographic": "stere",
}
# The longest step (degrees) of a meridian that is drawn as a straight line.
LONGEST_STEP = 1.0
# The most that a degree of latitude is longer than one of longitude in plate carree.
_HIGHEST_STRETCH = 4.0


@dataclass(frozen=True)
class MapProjection:
    """A projection, and the part of the globe that its map shows.

    `centre` (degrees east) is the meridian that is straight and vertical: in the north, polar stereographic has it
    below the pole, in the south above. `window` is at most 180 degrees west and east of it; its longitudes may be in
    any range, and results are in the same.
    """

    name: ProjectionName
    centre: float
    window: Window

    @property
    def has_degrees(self) -> bool:
        """Return True for plate carree, in which meridians and parallels are straight and a cell is a rectangle."""
        return self.name == "plate-carree"

    @property
    def pole(self) -> int:
        """The pole that is the middle of polar stereographic: 1 north, -1 south; 0 in the other projections."""
        if self.name != "polar-stereographic":
            return 0
        return 1 if self.window[2] + self.window[3] > 0.0 else -1

    @property
    def edge(self) -> float:
        """The latitude of the window's border along which its meridians are labelled, the longest in polar maps."""
        return self.window[3] if self.pole < 0 else self.window[2]

    @property
    def is_disc(self) -> bool:
        """Return True for a polar map of all longitudes, which is a disc without a border from pole to edge."""
        return self.pole != 0 and self.window[1] - self.window[0] >= 360.0

    def forward(self, degrees: Degrees) -> Metres:
        """Points on the map, (n, 2), of longitudes and latitudes, (n, 2).

        Longitudes outside the window are not wrapped into it: what leaves the map on one side does not come back on the
        other.
        """
        if self.has_degrees:
            return degrees.astype(np.float64)
        x, y = self._proj()(np.asarray(degrees[:, 0], dtype=np.float64) - self.centre, degrees[:, 1])
        return np.stack([x, y], axis=1)

    def inverse(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        """Longitudes and latitudes of points on the map, of any shape; NaN where the map does not show the globe."""
        longitudes, latitudes = x, y
        if not self.has_degrees:
            east_of_centre, latitudes = self._proj()(x, y, inverse=True, errcheck=False)
            longitudes = east_of_centre + self.centre
        west, east, south, north = self.window
        # Rounding must not cut off points on the border.
        near = 1e-6
        with np.errstate(invalid="ignore"):
            shown = (longitudes >= west - near) & (longitudes <= east + near)
            shown &= (latitudes >= south - near) & (latitudes <= north + near)
        return np.where(shown, longitudes, np.nan), np.where(shown, latitudes, np.nan)

    @property
    def outline(self) -> Metres:
        """The closed border of the window on the map, (n, 2), starting from the south-west towards the south-east."""
        west, east, south, north = self.window
        if self.is_disc:
            return self.forward(densified(np.array([(west, self.edge), (east, self.edge)])))
        corners = np.array([(west, south), (east, south), (east, north), (west, north), (west, south)])
        return self.forward(densified(corners))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, east, south and north end of the map."""
        (west, south), (east, north) = self.outline.min(axis=0), self.outline.max(axis=0)
        return float(west), float(east), float(south), float(north)

    @property
    def shape(self) -> float:
        """Width of the map to its height; plate carree is true in the middle, unless that is near a pole."""
        west, east, south, north = self.bounds
        return (east - west) / ((north - south) * (stretch(south, north) if self.has_degrees else 1.0))

    @property
    def degrees_across(self) -> float:
        """The width of the map in degrees."""
        west, east, _, _ = self.bounds
        return east - west if self.has_degrees else float(np.rad2deg((east - west) / (1000.0 * EARTH_RADIUS_KM)))

    def _proj(self) -> pyproj.Proj:
        import pyproj  # noqa: PLC0415  # not needed for plate carree

        # `over`: longitudes beyond 180 degrees are not wrapped.
        middle: dict[str, Any] = {"lat_0": 90.0 * self.pole} if self.pole else {}
        return pyproj.Proj(proj=_PROJ_NAMES[self.name], R=1000.0 * EARTH_RADIUS_KM, over=True, **middle)


def stretch(south: float, north: float) -> float:
    """The length of a degree of latitude in plate carree, as a multiple of one of longitude."""
    return min(1.0 / max(float(np.cos(np.deg2rad((south + north) / 2))), 1e-6), _HIGHEST_STRETCH)


def densified(line: Degrees) -> Metres:
    """A line with points added where a step is long, so that it follows the curves of meridians; (n, 2) to (m, 2)."""
    steps = np.abs(np.diff(line, axis=0)).max(axis=1) / LONGEST_STEP
    pieces = np.maximum(np.ceil(steps), 1.0).astype(np.int64)
    if pieces.max(initial=1) == 1:
        return line.astype(np.float64)
    place = np.concatenate([np.arange(count) / count + number for number, count in enumerate(pieces)] + [[len(pieces)]])
    number = np.arange(len(line))
    return np.stack([np.interp(place, number, line[:, axis]) for axis in (0, 1)], axis=1)


ProjectionChoice = Literal["auto", "plate-carree", "equal-earth", "robinson", "polar-stereographic"]

# Wider than half the globe, and at least this high (degrees): plate carree shows more of a narrow band.
_WIDEST_FLAT = 180.0
_LOWEST_GLOBE = 90.0
# Grid points beyond this latitude are polar. A cell reaches half a step further.
_POLAR = 60.0
# A wider polar area (degrees) is not shown with its surroundings: it is a sector that no other shape fits better.
_WIDEST_SECTOR_WIDENED = 90.0
# The width of the narrowest polar map at its edge, as a share of its height.
_NARROWEST_SECTOR = 0.5


def choose_projection(
    choice: ProjectionChoice, cells: Window, widened: Window, centre: float | None = None, grid: Grid = ERA5_GRID
) -> MapProjection:
    """The projection for a map of these cells of the grid (degrees).

    `auto` is Equal Earth for an area wider than 180 degrees and at least 90 high, polar stereographic for one that is
    entirely beyond 60 degrees north or south, otherwise plate carree. Of a smaller area the map shows `widened`.
    `centre` is the central meridian (degrees east), by default that of the window; in plate carree it rotates a map of
    all longitudes.
    """
    west, east, south, north = cells
    half = grid.step_degrees / 2
    is_globe = east - west > _WIDEST_FLAT and north - south >= _LOWEST_GLOBE
    if choice == "auto":
        is_polar = max(south, -north) >= _POLAR - half
        choice = "equal-earth" if is_globe else "polar-stereographic" if is_polar else "plate-carree"
    is_polar = choice == "polar-stereographic"
    whole = cells if is_globe and choice != "plate-carree" else widened
    window = _polar_window(cells, widened, half) if is_polar else whole
    west, east, south, north = window
    if centre is None or (choice == "plate-carree" and east - west < 360.0):
        centre = (west + east) / 2
    # By whole turns to within 180 degrees of the meridian; all longitudes if it does not fit there.
    shift = 360.0 * round((centre - (west + east) / 2) / 360.0)
    west, east = west + shift, east + shift
    if west < centre - 180.0 or east > centre + 180.0:
        west, east = centre - 180.0, centre + 180.0
    if is_polar and east - west >= 360.0:  # with all longitudes, it reaches the pole
        south, north = (south, 90.0) if south + north > 0.0 else (-90.0, north)
    return MapProjection(choice, centre, (west, east, south, north))


def _polar_window(cells: Window, widened: Window, half: float) -> Window:
    """The window of a polar map: that of the cells, with the surroundings of a small or narrow area.

    `half` is half the size of a cell, by which those at the equator are on both sides of it.
    """
    west, east, south, north = cells
    if south < -half and north > half:
        raise UsageError(
            "--projection polar-stereographic shows one side of the equator, and this area is on both",
            remedy="Give an area such as --area 90/-180/60/180 or --area -60/-180/-90/180, or another projection.",
        )
    if east - west > _WIDEST_SECTOR_WIDENED:
        return cells
    west, east, south, north = widened
    narrow = max(float(np.cos(np.deg2rad(min(abs(south), abs(north))))), 1e-6)
    extra = max(min(_NARROWEST_SECTOR * (north - south) / narrow, 360.0) - (east - west), 0.0) / 2
    return west - extra, east + extra, south, north


# --- The grid cell that each pixel of a projected map shows: the one with the nearest centre in degrees ---
#
# Values are not interpolated, so a pixel has exactly the value of a cell. The cells are found once, and then serve any
# field of the same grid (`NearestCells.pixels_of`).


@dataclass(frozen=True, eq=False)
class NearestCells:
    """For each pixel of a map, (height, width) from the north-west: the index of its cell in the flat field, or -1."""

    index: npt.NDArray[np.int32]

    @classmethod
    def find(
        cls, projection: MapProjection, latitudes: FloatArray, longitudes: FloatArray, x: Metres, y: Metres, grid: Grid
    ) -> NearestCells:
        """Find cells of the grid, latitudes (n,) and longitudes (m,) ascending, at columns x (w,) and rows y (h,)."""
        index = np.full((len(y), len(x)), -1, dtype=np.int32)
        # In bands: the coordinates of all pixels would take 32 bytes each.
        for first in range(0, len(y), 256):
            band = slice(first, first + 256)
            there, up = projection.inverse(*np.meshgrid(x, y[band]))
            shown = np.isfinite(there)
            row = np.rint((up[shown] - float(latitudes[0])) / grid.step_degrees).astype(np.int32)
            column = np.rint((there[shown] - float(longitudes[0])) / grid.step_degrees).astype(np.int32) % grid.columns
            held = (row >= 0) & (row < len(latitudes)) & (column < len(longitudes))
            index[band][shown] = np.where(held, row * len(longitudes) + column, -1)
        return cls(index)

    def pixels_of(self, values: FloatArray) -> FloatArray:
        """The values of the pixels, (height, width), from a field (n, m); NaN where there is no cell."""
        pixels: FloatArray = values.ravel()[self.index]
        pixels[self.index < 0] = np.nan
        return pixels


def pixel_centres(low: float, high: float, count: int) -> Metres:
    """The coordinates, (count,), of the middles of `count` pixels between two ends."""
    numbers = np.arange(count, dtype=np.float64)
    return low + (numbers + 0.5) * ((high - low) / count)
