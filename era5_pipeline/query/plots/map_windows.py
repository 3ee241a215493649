"""The window of a map: which degrees it shows, and how large it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES
from era5_pipeline.query.plots.colour_scales import widened

if TYPE_CHECKING:
    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots.outlines import Window

# Inches.
_MAP_WIDEST, _MAP_TALLEST = 9.0, 6.5
# Degrees: a single point is shown with its surroundings.
_SMALLEST_WINDOW = 2.0
# Limits of the map's shape: width to height, and height of a degree of latitude to width of one of longitude.
_WIDEST_RATIO = 2.6
_HIGHEST_STRETCH = 4.0


def cells_window(field: FieldMap) -> Window:
    """The area that the cells of a field cover."""
    half = STEP_DEGREES / 2
    west, east = float(field.longitudes[0]) - half, float(field.longitudes[-1]) + half
    south, north = (
        max(float(field.latitudes[0]) - half, -90.0),
        min(float(field.latitudes[-1]) + half, 90.0),
    )
    if len(field.longitudes) == N_LONGITUDES:
        # From one antimeridian to the other, not from half a cell east of it.
        west, east = west - half, east - half
    return west, east, south, north


def map_window(field: FieldMap) -> Window:
    """The area to draw: the cells, widened for a very small or very long area."""
    west, east, south, north = cells_window(field)
    stretch = _stretch(south, north)
    tall = max(north - south, _SMALLEST_WINDOW, (east - west) / stretch / _WIDEST_RATIO)
    south, north = widened(south, north, tall)
    # The window ends at the poles.
    south, north = max(south - max(north - 90.0, 0.0), -90.0), min(north + max(-90.0 - south, 0.0), 90.0)
    wide = min(max(east - west, _SMALLEST_WINDOW * stretch, tall * stretch / _WIDEST_RATIO), 360.0)
    west, east = widened(west, east, wide)
    return west, east, south, north


def _stretch(south: float, north: float) -> float:
    """Length of a degree of latitude on the map, as a multiple of one of longitude."""
    return min(1.0 / max(float(np.cos(np.deg2rad((south + north) / 2))), 1e-6), _HIGHEST_STRETCH)


def map_size(window: Window) -> tuple[float, float]:
    """Width and height of the map, in inches."""
    west, east, south, north = window
    ratio = (east - west) / ((north - south) * _stretch(south, north))
    if ratio * _MAP_TALLEST >= _MAP_WIDEST:
        return _MAP_WIDEST, _MAP_WIDEST / ratio
    return _MAP_TALLEST * ratio, _MAP_TALLEST
