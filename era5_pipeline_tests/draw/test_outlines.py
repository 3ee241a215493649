"""Tests of `draw/outlines`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path as Polygon

from era5_pipeline.draw.outlines import (
    WIDEST,
    Resolution,
    Window,
    borders,
    coastlines,
    land,
    read_shores,
    resolution_for,
)
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

FRACTION_OF_TURN = 1e-4  # float32 holds longitudes past 360 to 3e-5 degrees


def is_land(longitude: float, latitude: float, window: Window) -> bool:
    """Whether the last polygon of the window that is drawn at a point is land."""
    found = False
    for on_land, ring in land(*window):
        if Polygon(ring).contains_point((longitude, latitude)):
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
def test_land_and_water_of_the_globe(window: Window, longitude: float, latitude: float, expected: bool) -> None:
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


windows = st.builds(
    lambda west, width, south, height: (west, west + width, south, min(south + height, 90.0)),
    st.floats(-180.0, 360.0),
    st.floats(0.5, 360.0),
    st.floats(-90.0, 89.5),
    st.floats(0.5, 180.0),
)


@given(windows)
def test_polygons_end_at_the_window(window: Window) -> None:
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
    text = (ROOT / "docs/maps.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:up to (\d+) degrees|wider) \| (\w+) \| ([\d.]+) km \|$", text, flags=re.MULTILINE)
    assert [name for _, name, _ in rows] == list(NAMES)
    for widest, name, km in rows:
        assert WIDEST[NAMES[name]] == float(widest or 360.0)
        assert km_between_vertices(NAMES[name]) == pytest.approx(float(km), rel=0.03)
    # The shares of land are computed at intermediate resolution.
    (km,) = re.findall(r"a vertex every ([\d.]+) km", (ROOT / "docs/places.md").read_text(encoding="utf-8"))
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


def bounds(lines: list[np.ndarray]) -> np.ndarray:
    """West, east, south, north of each line, (k, 4)."""
    ends = [(*line.min(axis=0), *line.max(axis=0)) for line in lines]
    return np.array(ends).reshape(-1, 4)[:, [0, 2, 1, 3]]


def pieces(lines: list[np.ndarray]) -> np.ndarray:
    """All segments of all lines, (k, 2, 2)."""
    return np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in lines])


def test_global_coastlines_lie_on_the_globe() -> None:
    lines = coastlines(-180.0, 180.0, -90.0, 90.0)
    assert len(lines) > 100
    found = bounds(lines)
    assert found[:, 0].min() >= -180.0
    assert found[:, 1].max() <= 180.0
    # From Antarctica to the north of Greenland.
    assert found[:, 2].min() < -75.0
    assert found[:, 3].max() > 83.0


@pytest.mark.parametrize(
    ("west", "east", "south", "north"),
    [(-180.0, 180.0, -90.0, 90.0), (0.0, 360.0, -90.0, 90.0), (-60.0, 60.0, -90.0, -60.0)],
)
def test_cuts_of_polygons_are_not_drawn(west: float, east: float, south: float, north: float) -> None:
    longitudes = pieces(coastlines(west, east, south, north))[:, :, 0] % 180.0
    latitudes = pieces(coastlines(west, east, south, north))[:, :, 1]
    assert not (longitudes == 0.0).all(axis=1).any()
    assert not (latitudes == -90.0).all(axis=1).any()
    # There is also no line across the map, from one side to the other.
    assert np.abs(np.diff(pieces(coastlines(west, east, south, north))[:, :, 0])).max() < 20.0


def test_java_is_at_its_location() -> None:
    lines = coastlines(105.0, 109.0, -8.0, -5.0)
    java = max(lines, key=len)
    jakarta_bay = np.array([106.8, -6.1])
    assert np.abs(java - jakarta_bay).max(axis=1).min() < 0.1


@pytest.mark.parametrize("turn", [-360.0, 360.0])
@pytest.mark.parametrize(("lines_in", "window"), [(coastlines, (105, 109, -8, -5)), (borders, (5, 15, 45, 50))])
def test_window_shifted_by_360_degrees_has_the_same_lines(
    turn: float, lines_in: Callable[..., list[np.ndarray]], window: Window
) -> None:
    west, east, south, north = window
    here, there = lines_in(west, east, south, north), lines_in(west + turn, east + turn, south, north)
    assert len(here) == len(there) > 0
    for line, same in zip(here, there, strict=True):
        np.testing.assert_allclose(line + np.array([turn, 0.0]), same, atol=FRACTION_OF_TURN)


def test_window_across_the_antimeridian_has_both_sides() -> None:
    found = bounds(coastlines(160.0, 200.0, 60.0, 72.0))
    assert found[:, 0].min() < 165.0  # Siberia
    assert found[:, 1].max() > 195.0  # Alaska
    # Chukotka's coast continues past 180 without a gap.
    assert np.isclose(found[:, :2], 180.0).sum() >= 2


def test_open_sea_has_no_lines_and_no_borders() -> None:
    assert coastlines(-140.0, -138.0, -50.0, -48.0) == []
    assert borders(175.0, 185.0, -30.0, -20.0) == []  # across the antimeridian


@settings(deadline=None, max_examples=60)
@given(windows)
def test_lines_end_at_most_one_vertex_outside_the_window(window: Window) -> None:
    west, east, south, north = window
    lines = coastlines(*window)
    for line in lines:
        assert line.ndim == 2
        assert line.shape[1] == 2
        assert len(line) > 1
    if lines:
        found = pieces(lines)
        low, high = found.min(axis=1), found.max(axis=1)
        assert (high[:, 0] >= west - FRACTION_OF_TURN).all()
        assert (low[:, 0] <= east + FRACTION_OF_TURN).all()
        assert (high[:, 1] >= south).all()
        assert (low[:, 1] <= north).all()


@pytest.mark.parametrize("width", [2.0, 30.0, 120.0, 360.0])
def test_straight_borders_lie_on_their_parallel_or_meridian(width: float) -> None:
    # Egypt and Sudan at 22 N; Libya and Egypt at 25 E.
    for place, axis, at in (((28.0, 22.0), 1, 22.0), ((25.0, 27.0), 0, 25.0)):
        half = width / 2
        window = (place[0] - half, place[0] + half, max(place[1] - half, -90.0), min(place[1] + half, 90.0))
        found = pieces(borders(*window))
        low, high = found.min(axis=1), found.max(axis=1)
        other = 1 - axis
        here = (low[:, other] <= place[other]) & (high[:, other] >= place[other])
        here &= (np.abs(found[:, :, axis] - at) < 0.1).all(axis=1)
        assert here.any()


def test_countries_of_this_century_have_borders() -> None:
    # The north of South Sudan, and Timor-Leste's border.
    assert borders(26.0, 27.0, 9.0, 10.5)
    assert borders(124.8, 125.4, -9.6, -8.9)
