"""A projection of the globe about a central meridian: degrees to metres on the map and back, and its outline.

PROJ does the arithmetic, on a sphere, as ERA5's model does. Both projections are pseudocylindrical: parallels are
straight and horizontal. The window's border in degrees is therefore the border on the map, once its sides are curved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.model.grid import EARTH_RADIUS_KM

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyproj

    from era5_pipeline.query.plots.outlines import Window

    Degrees = npt.NDArray[np.floating]
    Metres = npt.NDArray[np.float64]

ProjectionName = Literal["equal-earth", "robinson"]

_PROJ_NAMES: dict[ProjectionName, str] = {"equal-earth": "eqearth", "robinson": "robin"}
# The longest step (degrees) of a meridian that is drawn as a straight line.
LONGEST_STEP = 1.0


@dataclass(frozen=True)
class MapProjection:
    """A projection, and the part of the globe that a map in it shows.

    `centre` (degrees east) is the meridian that is straight. `window` is at most 180 degrees west and east of it; its
    longitudes are in any range, and those of results are in the same.
    """

    name: ProjectionName
    centre: float
    window: Window

    def forward(self, degrees: Degrees) -> Metres:
        """Points on the map, (n, 2), of longitudes and latitudes, (n, 2).

        Longitudes outside of the window are not wrapped into it: what leaves the map on one side does not come back on
        the other.
        """
        x, y = self._proj()(np.asarray(degrees[:, 0], dtype=np.float64) - self.centre, degrees[:, 1])
        return np.stack([x, y], axis=1)

    def inverse(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        """Longitudes and latitudes of points on the map, of any shape; NaN where the map does not show the globe."""
        east_of_centre, latitudes = self._proj()(x, y, inverse=True, errcheck=False)
        longitudes = east_of_centre + self.centre
        west, east, south, north = self.window
        # Rounding must not cut points of the border off.
        near = 1e-6
        with np.errstate(invalid="ignore"):
            shown = (longitudes >= west - near) & (longitudes <= east + near)
            shown &= (latitudes >= south - near) & (latitudes <= north + near)
        return np.where(shown, longitudes, np.nan), np.where(shown, latitudes, np.nan)

    @property
    def outline(self) -> Metres:
        """The closed border of the window on the map, (n, 2), from the south-west to the south-east on."""
        west, east, south, north = self.window
        corners = np.array([(west, south), (east, south), (east, north), (west, north), (west, south)])
        return self.forward(densified(corners))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, east, south and north end of the map, in metres."""
        (west, south), (east, north) = self.outline.min(axis=0), self.outline.max(axis=0)
        return float(west), float(east), float(south), float(north)

    def _proj(self) -> pyproj.Proj:
        import pyproj  # noqa: PLC0415  # a map in plate carree does without

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
