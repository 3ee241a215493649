"""Which grid cell each pixel of a projected map shows: that whose centre is nearest in degrees.

Values are not interpolated, so that a pixel has exactly the value of a cell. The cells are found once, and then give
the picture of any field of the same grid (`NearestCells.pixels_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.plots.projections.map_projection import MapProjection, Metres

    FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class NearestCells:
    """For each pixel of a map, (height, width) from the north-west: the place of its cell in the flat field, or -1."""

    index: npt.NDArray[np.int32]

    @classmethod
    def find(
        cls, projection: MapProjection | None, latitudes: FloatArray, longitudes: FloatArray, x: Metres, y: Metres
    ) -> NearestCells:
        """The cells of a grid with latitudes (n,) and longitudes (m,), ascending, at columns x (w,) and rows y (h,).

        Both are coordinates of the map: metres, or degrees in plate carree (None).
        """
        index = np.full((len(y), len(x)), -1, dtype=np.int32)
        # A band at a time: the coordinates of all pixels would take 32 bytes of each.
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
        """The values of the pixels, (height, width), of a field (n, m); NaN where there is no cell."""
        pixels: FloatArray = values.ravel()[self.index]
        pixels[self.index < 0] = np.nan
        return pixels


def pixel_centres(low: float, high: float, count: int) -> Metres:
    """The coordinates, (count,), of the middles of so many pixels between two ends."""
    numbers = np.arange(count, dtype=np.float64)
    return low + (numbers + 0.5) * ((high - low) / count)
