"""Polygons that are clipped to a window."""

from __future__ import annotations

import re
from pathlib import Path as FilePath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path

from era5_pipeline.query.plots.coastlines import land
from era5_pipeline.query.plots.outlines import WIDEST, Resolution, Window, read_shores, resolution_for

PROJECT = FilePath(__file__).parents[3]
FRACTION_OF_TURN = 1e-4  # float32 holds longitudes past 360 to 3e-5 degrees


def is_land(longitude: float, latitude: float, window: tuple[float, float, float, float]) -> bool:
    """Whether the last polygon of the window that is drawn at a point is land."""
    found = False
    for on_land, ring in land(*window):
        if Path(ring).contains_point((longitude, latitude)):
            found = on_land
    return found


GLOBE = (-180.0, 180.0, -90.0, 90.0)


@pytest.mark.parametrize("window", [GLOBE, (0.0, 360.0, -90.0, 90.0)])
@pytest.mark.parametrize(
    ("longitude", "latitude", "expected"),
    [
        (102.0, 62.0, True),  # Siberia
        (50.3, 41.9, False),  # the Caspian Sea
        (178.0, 66.5, True),  # Chukotka, at the antimeridian
        (20.0, -82.0, True),  # Antarctica
        (20.0, -50.0, False),
        (115.0, 0.5, True),  # Borneo
        (140.0, 20.0, False),
    ],
)
def test_land_and_water_of_the_globe(
    window: tuple[float, float, float, float], longitude: float, latitude: float, expected: bool
) -> None:
    assert is_land(longitude, latitude, window) is expected


def test_land_and_water_of_small_windows() -> None:
    java = (106.0, 107.5, -7.5, -5.5)
    assert is_land(106.8, -6.6, java)
    assert not is_land(106.8, -5.8, java)
    geneva = (6.0, 7.0, 46.0, 47.0)
    assert is_land(6.8, 46.8, geneva)
    assert not is_land(6.55, 46.44, geneva)
    # A window that lies within land, and whose corners no vertex is near.
    assert is_land(100.1, 60.1, (100.0, 100.2, 60.0, 60.2))


@given(
    west=st.floats(-180.0, 360.0),
    width=st.floats(0.5, 360.0),
    south=st.floats(-90.0, 89.5),
    height=st.floats(0.5, 180.0),
)
def test_polygons_end_at_the_window(west: float, width: float, south: float, height: float) -> None:
    window = (west, west + width, south, min(south + height, 90.0))
    for _, ring in land(*window):
        assert (ring >= np.array([window[0], window[2]]) - FRACTION_OF_TURN).all()
        assert (ring <= np.array([window[1], window[3]]) + FRACTION_OF_TURN).all()


def test_a_smaller_window_has_a_finer_resolution() -> None:
    widths = (2.0, 4.0, 4.5, 8.0, 8.5, 50.0, 120.0, 360.0)
    assert [resolution_for((0.0, width, 0.0, 1.0)) for width in widths] == ["f", "f", "h", "h", "i", "i", "l", "c"]
    assert resolution_for((0.0, 1.0, -90.0, 90.0)) == "l"
    # As long as 4 degrees of latitude.
    assert resolution_for((5.0, 12.9, 59.0, 61.0)) == "f"


def km_between_vertices(resolution: Resolution) -> float:
    """The median distance (km) of the successive vertices of all shorelines."""
    outlines = read_shores(resolution).outlines
    middle = np.deg2rad((outlines.vertices[1:, 1] + outlines.vertices[:-1, 1]) / 2)
    east, north = np.diff(outlines.vertices, axis=0).T
    km = 111.2 * np.hypot(east * np.cos(middle), north)
    is_shore = outlines.is_drawn[:-1].copy()
    is_shore[outlines.first[1:-1] - 1] = False  # from one polygon to the next
    return float(np.median(km[is_shore]))


NAMES: dict[str, Resolution] = {"full": "f", "high": "h", "intermediate": "i", "low": "l", "crude": "c"}


def test_vertices_are_as_close_as_the_documentation_says() -> None:
    text = (PROJECT / "docs/maps.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:up to (\d+) degrees|wider) \| (\w+) \| ([\d.]+) km \|$", text, flags=re.MULTILINE)
    assert [name for _, name, _ in rows] == list(NAMES)
    for widest, name, km in rows:
        assert WIDEST[NAMES[name]] == float(widest or 360.0)
        assert km_between_vertices(NAMES[name]) == pytest.approx(float(km), rel=0.03)
    # The shares of land are computed at intermediate resolution.
    (km,) = re.findall(r"a vertex every ([\d.]+) km", (PROJECT / "docs/places.md").read_text(encoding="utf-8"))
    assert km_between_vertices("i") == pytest.approx(float(km), rel=0.03)


def test_a_close_map_has_islands_of_200_m() -> None:
    def islands(window: Window) -> list[tuple[float, float]]:
        """The extents, from west to east and from south to north (km), of the land in the skerries off Norway."""
        rings = [ring for is_land, ring in land(*window) if is_land]
        inside = [ring for ring in rings if 5.0 <= ring[:, 0].min() <= 5.5 and 61.0 <= ring[:, 1].min() <= 61.5]
        return [tuple(np.ptp(ring, axis=0) * 111.2 * (np.cos(np.deg2rad(61.25)), 1.0)) for ring in inside]

    close, far = islands((4.5, 6.5, 60.5, 61.5)), islands((-15.0, 25.0, 50.0, 72.0))
    assert len(close) > 5 * len(far) > 0
    assert min(max(island) for island in close) < 0.4
