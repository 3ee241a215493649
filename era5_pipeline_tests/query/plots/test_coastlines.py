from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.query.plots.coastlines import coastlines

FRACTION_OF_TURN = 1e-4  # float32 holds longitudes past 360 to 3e-5 degrees


def bounds(lines: list[np.ndarray]) -> np.ndarray:
    """West, east, south, north of each line, (k, 4)."""
    ends = [(*line.min(axis=0), *line.max(axis=0)) for line in lines]
    return np.array(ends).reshape(-1, 4)[:, [0, 2, 1, 3]]


def pieces(lines: list[np.ndarray]) -> np.ndarray:
    """All segments of all lines, (k, 2, 2)."""
    return np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in lines])


def test_global_coastlines_take_less_than_a_second() -> None:
    begin = time.perf_counter()
    lines = coastlines(-180.0, 180.0, -90.0, 90.0)
    assert time.perf_counter() - begin < 1.0
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
def test_window_shifted_by_360_degrees_has_the_same_lines(turn: float) -> None:
    here = coastlines(105.0, 109.0, -8.0, -5.0)
    there = coastlines(105.0 + turn, 109.0 + turn, -8.0, -5.0)
    assert len(here) == len(there)
    for line, same in zip(here, there, strict=True):
        np.testing.assert_allclose(line + np.array([turn, 0.0]), same, atol=FRACTION_OF_TURN)


def test_window_across_the_antimeridian_has_both_sides() -> None:
    found = bounds(coastlines(160.0, 200.0, 60.0, 72.0))
    assert found[:, 0].min() < 165.0  # Siberia
    assert found[:, 1].max() > 195.0  # Alaska
    # Chukotka's coast continues past 180 without a gap.
    assert np.isclose(found[:, :2], 180.0).sum() >= 2


def test_smaller_window_has_higher_resolution() -> None:
    def spacing(width: float) -> float:
        """The mean distance of vertices, in degrees, around Iceland."""
        found = pieces(coastlines(-19.0 - width / 2, -19.0 + width / 2, 63.0, 67.0))
        middle = np.abs(found[:, 0, 0] + 19.0) < 5.0
        return float(np.linalg.norm(np.diff(found[middle], axis=1), axis=-1).mean())

    assert spacing(12.0) < spacing(100.0) / 2 < spacing(300.0) / 4


def test_open_sea_has_no_lines() -> None:
    assert coastlines(-140.0, -138.0, -50.0, -48.0) == []


@settings(deadline=None, max_examples=60)
@given(
    west=st.floats(-180.0, 360.0),
    width=st.floats(0.5, 360.0),
    south=st.floats(-90.0, 89.5),
    height=st.floats(0.5, 180.0),
)
def test_lines_end_at_most_one_vertex_outside_the_window(
    west: float, width: float, south: float, height: float
) -> None:
    east, north = west + width, min(south + height, 90.0)
    lines = coastlines(west, east, south, north)
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
