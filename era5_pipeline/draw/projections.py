"""Projections of the globe: the choice for a map, degrees to metres and back, and the cell of each pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.model.grid import EARTH_RADIUS_KM, N_LONGITUDES, STEP_DEGREES

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyproj

    from era5_pipeline.draw.outlines import Window

    Degrees = npt.NDArray[np.floating]
    Metres = npt.NDArray[np.float64]
    FloatArray = npt.NDArray[np.floating]

# --- A projection of the globe about a central meridian: degrees to metres on the map and back, and its outline ---
#
# PROJ does the arithmetic, on a sphere, as ERA5's model does. Both projections are pseudocylindrical: parallels are
# straight and horizontal. The window's border in degrees is therefore the border on the map, once its sides are
# curved.


ProjectionName = Literal["equal-earth", "robinson"]

_PROJ_NAMES: dict[ProjectionName, str] = {"equal-earth": "eqearth", "robinson": "robin"}
# The longest step (degrees) of a meridian that is drawn as a straight line.
LONGEST_STEP = 1.0


@dataclass(frozen=True)
class MapProjection:
    """A projection, and the part of the globe that its map shows.

    `centre` (degrees east) is the straight meridian. `window` is at most 180 degrees west and east of it; its
    longitudes may be in any range, and results are in the same.
    """

    name: ProjectionName
    centre: float
    window: Window

    def forward(self, degrees: Degrees) -> Metres:
        """Points on the map, (n, 2), of longitudes and latitudes, (n, 2).

        Longitudes outside the window are not wrapped into it: what leaves the map on one side does not come back on the
        other.
        """
        x, y = self._proj()(np.asarray(degrees[:, 0], dtype=np.float64) - self.centre, degrees[:, 1])
        return np.stack([x, y], axis=1)

    def inverse(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        """Longitudes and latitudes of points on the map, of any shape; NaN where the map does not show the globe."""
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
        corners = np.array([(west, south), (east, south), (east, north), (west, north), (west, south)])
        return self.forward(densified(corners))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, east, south and north end of the map, in metres."""
        (west, south), (east, north) = self.outline.min(axis=0), self.outline.max(axis=0)
        return float(west), float(east), float(south), float(north)

    def _proj(self) -> pyproj.Proj:
        import pyproj  # noqa: PLC0415  # not needed for plate carree

        # `over`: longitudes beyond 180 degrees are not wrapped.
        return pyproj.Proj(proj=_PROJ_NAMES[self.name], R=1000.0 * EARTH_RADIUS_KM, over=True)


def densified(line: Degrees) -> Metres:
    """A line with points added where a step is long, so that it follows the curves of meridians; (n, 2) to (m, 2)."""
    steps = np.abs(np.diff(line, axis=0)).max(axis=1) / LONGEST_STEP
    pieces = np.maximum(np.ceil(steps), 1.0).astype(np.int64)
    if pieces.max(initial=1) == 1:
        return line.astype(np.float64)
    place = np.concatenate([np.arange(count) / count + number for number, count in enumerate(pieces)] + [[len(pieces)]])
    number = np.arange(len(line))
    return np.stack([np.interp(place, number, line[:, axis]) for axis in (0, 1)], axis=1)


# --- The choice of projection and central meridian: as requested, or by the shape of the area ---


ProjectionChoice = Literal["auto", "plate-carree", "equal-earth", "robinson"]

# Wider than half the globe, and at least this high (degrees): plate carree shows more of a narrow band.
_WIDEST_FLAT = 180.0
_LOWEST_GLOBE = 90.0


def choose_projection(
    choice: ProjectionChoice, cells: Window, widened: Window, centre: float | None = None
) -> MapProjection | None:
    """The projection for a map of these cells (degrees); None for plate carree.

    `auto` is Equal Earth for an area wider than 180 degrees and at least 90 high, otherwise plate carree. If a smaller
    area is projected all the same, the map shows `widened`. `centre` is the central meridian (degrees east), by default
    that of the window.
    """
    west, east, south, north = cells
    is_globe = east - west > _WIDEST_FLAT and north - south >= _LOWEST_GLOBE
    if choice == "auto":
        choice = "equal-earth" if is_globe else "plate-carree"
    if choice == "plate-carree":
        return None
    window = cells if is_globe else widened
    west, east, south, north = window
    if centre is None:
        centre = (west + east) / 2
    return MapProjection(choice, centre, centred_window(window, centre))


def centred_window(window: Window, centre: float) -> Window:
    """The window shifted by whole turns to within 180 degrees of a meridian; all longitudes if it does not fit."""
    west, east, south, north = window
    shift = 360.0 * round((centre - (west + east) / 2) / 360.0)
    west, east = west + shift, east + shift
    if west < centre - 180.0 or east > centre + 180.0:
        west, east = centre - 180.0, centre + 180.0
    return west, east, south, north


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
        cls, projection: MapProjection | None, latitudes: FloatArray, longitudes: FloatArray, x: Metres, y: Metres
    ) -> NearestCells:
        """Find the cells of a grid, latitudes (n,) and longitudes (m,) ascending, at columns x (w,) and rows y (h,).

        x and y are coordinates of the map: metres, or degrees in plate carree (None).
        """
        index = np.full((len(y), len(x)), -1, dtype=np.int32)
        # In bands: the coordinates of all pixels would take 32 bytes each.
        for first in range(0, len(y), 256):
            band = slice(first, first + 256)
            there, up = np.meshgrid(x, y[band])
            if projection is not None:
                there, up = projection.inverse(there, up)
            shown = np.isfinite(there)
            row = np.rint((up[shown] - float(latitudes[0])) / STEP_DEGREES).astype(np.int32)
            column = np.rint((there[shown] - float(longitudes[0])) / STEP_DEGREES).astype(np.int32) % N_LONGITUDES
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
