"""Degrees to metres and back: against the published formulas, and round trips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.query.plots.projections.map_projection import MapProjection, ProjectionName, densified

RADIUS = 6_371_000.0
GLOBE = (-180.0, 180.0, -90.0, 90.0)
NAMES: tuple[ProjectionName, ...] = ("equal-earth", "robinson")


def globe(name: ProjectionName, centre: float = 0.0) -> MapProjection:
    return MapProjection(name, centre, (centre - 180.0, centre + 180.0, -90.0, 90.0))


def equal_earth(longitude: float, latitude: float) -> tuple[float, float]:
    """The formula of Savric, Patterson and Jenny (2018)."""
    a1, a2, a3, a4 = 1.340264, -0.081106, 0.000893, 0.003796
    t = np.arcsin(np.sqrt(3) / 2 * np.sin(np.deg2rad(latitude)))
    x = 2 * np.sqrt(3) * np.deg2rad(longitude) * np.cos(t) / (3 * (9 * a4 * t**8 + 7 * a3 * t**6 + 3 * a2 * t**2 + a1))
    y = a4 * t**9 + a3 * t**7 + a2 * t**3 + a1 * t
    return RADIUS * float(x), RADIUS * float(y)


@pytest.mark.parametrize("longitude", [-180.0, -73.5, 0.0, 106.75, 180.0])
@pytest.mark.parametrize("latitude", [-89.9, -45.0, 0.0, 6.25, 66.5, 90.0])
def test_equal_earth_is_the_published_formula(longitude: float, latitude: float) -> None:
    (found,) = globe("equal-earth").forward(np.array([(longitude, latitude)]))
    np.testing.assert_allclose(found, equal_earth(longitude, latitude), atol=1.0)


# Robinson's table (1974): length of the parallel and distance from the equator.
@pytest.mark.parametrize(("latitude", "length", "distance"), [(0, 1, 0), (30, 0.9600, 0.3720), (60, 0.7986, 0.7346)])
def test_robinson_is_the_published_table(latitude: float, length: float, distance: float) -> None:
    (found,) = globe("robinson").forward(np.array([(180.0, latitude)]))
    expected = RADIUS * 0.8487 * np.pi * length, RADIUS * 1.3523 * distance
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1.0)


@given(
    name=st.sampled_from(NAMES),
    centre=st.floats(-180, 360),
    east=st.floats(-179.9, 179.9),
    latitude=st.floats(-89.5, 89.5),
)
def test_what_is_drawn_at_a_point_is_that_point(
    name: ProjectionName, centre: float, east: float, latitude: float
) -> None:
    projection = globe(name, centre)
    ((x, y),) = projection.forward(np.array([(centre + east, latitude)]))
    longitude, back = projection.inverse(np.array([x]), np.array([y]))
    np.testing.assert_allclose([longitude[0], back[0]], [centre + east, latitude], atol=1e-4)


@given(
    name=st.sampled_from(NAMES),
    centre=st.sampled_from([-150.0, 0.0, 10.0, 205.0]),
    x=st.floats(-1.8e7, 1.8e7),
    y=st.floats(-8.7e6, 8.7e6),
)
def test_a_point_of_the_plane_is_on_the_globe_exactly_if_it_is_within_the_outline(
    name: ProjectionName, centre: float, x: float, y: float
) -> None:
    projection = globe(name, centre)
    west, east, south, north = projection.bounds
    # On the straight edges at the poles any x is within.
    x, y = float(np.clip(x, west, east)), float(np.clip(y, 0.999 * south, 0.999 * north))
    ((longitude,), (latitude,)) = projection.inverse(np.array([x]), np.array([y]))
    edge = projection.outline
    right = edge[(edge[:, 0] > 0)]
    order = np.argsort(right[:, 1])
    limit = float(np.interp(y, right[order, 1], right[order, 0]))
    if abs(x) < limit - 3000.0:
        assert centre - 180.0 <= longitude <= centre + 180.0
        assert -90.0 <= latitude <= 90.0
    elif abs(x) > limit + 3000.0:
        assert np.isnan(longitude)
        assert np.isnan(latitude)


def test_a_line_that_leaves_on_the_right_does_not_come_back_on_the_left() -> None:
    projection = globe("equal-earth", 150.0)
    line = projection.forward(np.column_stack([np.linspace(320.0, 340.0, 21), np.full(21, 10.0)]))
    assert (np.diff(line[:, 0]) > 0).all()


def test_equal_earth_keeps_areas() -> None:
    """A cell of one degree covers on the map what it covers on the sphere."""
    projection = globe("equal-earth")
    for south, west in ((-89.0, -180.0), (-40.0, 30.0), (0.0, 179.0), (59.0, -100.0), (88.0, 12.0)):
        corners = [(west, south), (west + 1, south), (west + 1, south + 1), (west, south + 1), (west, south)]
        ring = projection.forward(np.array(corners))
        x, y = ring.T
        drawn = 0.5 * float(np.abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])))
        sphere = RADIUS**2 * np.deg2rad(1.0) * float(np.diff(np.sin(np.deg2rad([south, south + 1])))[0])
        assert drawn == pytest.approx(sphere, rel=2e-3)


def test_long_steps_get_points_in_between_and_keep_their_ends() -> None:
    line = densified(np.array([(10.0, 0.0), (10.0, 10.0), (10.5, 10.0), (10.5, 8.5)]))
    assert np.abs(np.diff(line, axis=0)).max() <= 1.0
    for point in ((10.0, 0.0), (10.0, 3.0), (10.0, 10.0), (10.5, 10.0), (10.5, 8.5)):
        assert np.abs(line - point).sum(axis=1).min() < 1e-9
