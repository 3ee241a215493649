"""Tests of `draw/projections`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.draw.projections import (
    MapProjection,
    NearestCells,
    ProjectionName,
    choose_projection,
    densified,
    pixel_centres,
)
from era5_pipeline.model import grid
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.draw.outlines import Window
    from era5_pipeline.draw.projections import ProjectionChoice

RADIUS = 6_371_000.0
GLOBE = (-180.0, 180.0, -90.0, 90.0)
NAMES: tuple[ProjectionName, ...] = ("equal-earth", "robinson")


def globe(name: ProjectionName, centre: float = 0.0) -> MapProjection:
    return MapProjection(name, centre, (centre - 180.0, centre + 180.0, -90.0, 90.0))


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


def test_long_steps_get_points_in_between_and_keep_their_ends() -> None:
    line = densified(np.array([(10.0, 0.0), (10.0, 10.0), (10.5, 10.0), (10.5, 8.5)]))
    assert np.abs(np.diff(line, axis=0)).max() <= 1.0
    for point in ((10.0, 0.0), (10.0, 3.0), (10.0, 10.0), (10.5, 10.0), (10.5, 8.5)):
        assert np.abs(line - point).sum(axis=1).min() < 1e-9


PACIFIC = (100.0, 300.0, -60.0, 60.0)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (GLOBE, "equal-earth"),
        (PACIFIC, "equal-earth"),
        ((-180.0, 180.0, 0.0, 90.0), "equal-earth"),
        ((-180.0, 180.0, -30.0, 30.0), "plate-carree"),  # a band
        ((-90.0, 90.0, -90.0, 90.0), "plate-carree"),  # half the globe
        ((-11.0, 3.0, 49.0, 61.0), "plate-carree"),
        ((9.875, 34.125, 75.875, 81.125), "polar-stereographic"),  # Svalbard
        ((169.875, 210.125, 74.875, 85.125), "polar-stereographic"),  # across the date line
        ((-180.0, 180.0, -90.0, -59.875), "polar-stereographic"),
        ((19.875, 31.125, 59.875, 70.125), "polar-stereographic"),
        ((3.875, 32.125, 56.875, 72.125), "plate-carree"),  # Scandinavia begins before 60 degrees
    ],
)
def test_the_globe_is_drawn_in_equal_earth_and_regions_as_they_were(window: Window, name: str) -> None:
    assert choose_projection("auto", window, GLOBE).name == name


@pytest.mark.parametrize(
    ("choice", "centre", "window", "expected"),
    [
        ("robinson", None, GLOBE, (-180.0, 180.0)),
        ("robinson", 150.0, GLOBE, (-30.0, 330.0)),
        ("equal-earth", None, PACIFIC, (100.0, 300.0)),  # its own middle: it is not cut
        ("equal-earth", -160.0, PACIFIC, (-260.0, -60.0)),  # the same meridian, a turn away
        ("equal-earth", 0.0, PACIFIC, (-180.0, 180.0)),  # it does not fit: all longitudes
        ("equal-earth", None, (-11.0, 3.0, 49.0, 61.0), (-11.0, 3.0)),
    ],
)
def test_longitudes_are_those_within_half_a_turn_of_the_centre(
    choice: ProjectionChoice, centre: float | None, window: Window, expected: tuple[float, float]
) -> None:
    found = choose_projection(choice, window, window, centre)
    assert found.window[:2] == expected
    assert found.window[2:] == window[2:]


def test_a_meridian_is_in_the_middle_of_plate_carree_if_it_has_all_longitudes() -> None:
    assert choose_projection("plate-carree", GLOBE, GLOBE, 150.0).window == (-30.0, 330.0, -90.0, 90.0)
    band = (-180.0, 100.0, -60.0, 60.0)
    assert choose_projection("plate-carree", band, band, 150.0).window == band


def test_a_degree_of_latitude_is_longer_in_plate_carree_by_what_it_is_in_the_middle() -> None:
    for (south, north), times in (((-10.0, 10.0), 1.0), ((55.0, 65.0), 2.0), ((80.0, 90.0), 4.0)):
        window = (10.0, 30.0, south, north)
        shape = MapProjection("plate-carree", 20.0, window).shape
        assert shape == pytest.approx(20.0 / (north - south) / times)


def polar(window: Window, centre: float | None = None) -> MapProjection:
    return choose_projection("polar-stereographic", window, window, centre)


def stereographic(longitude: float, latitude: float, centre: float, pole: int) -> tuple[float, float]:
    """Snyder (1987), 21-5 to 21-12: conformal, true at the pole, on the sphere."""
    distance = 2 * RADIUS * np.tan(np.deg2rad(90.0 - pole * latitude) / 2)
    angle = np.deg2rad(longitude - centre)
    return float(distance * np.sin(angle)), float(-pole * distance * np.cos(angle))


@given(pole=st.sampled_from([1, -1]), east=st.floats(-179.9, 179.9), from_pole=st.floats(0.5, 29.5))
def test_polar_stereographic_is_the_published_formula_and_its_inverse(pole: int, east: float, from_pole: float) -> None:
    projection = polar((-20.0, 340.0, 60.0, 90.0) if pole > 0 else (-20.0, 340.0, -90.0, -60.0))
    point = projection.centre + east, pole * (90.0 - from_pole)
    ((x, y),) = projection.forward(np.array([point]))
    np.testing.assert_allclose((x, y), stereographic(*point, projection.centre, pole), atol=1.0)
    longitude, latitude = projection.inverse(np.array([x]), np.array([y]))
    np.testing.assert_allclose([longitude[0], latitude[0]], point, atol=1e-4)


def test_a_polar_map_of_all_longitudes_is_a_disc_to_the_pole_and_another_is_a_sector() -> None:
    disc = polar((-180.0, 180.0, 70.0, 80.0), -40.0)
    assert disc.window == (-220.0, 140.0, 70.0, 90.0)
    distances = np.hypot(*disc.outline.T)
    np.testing.assert_allclose(distances, distances[0])
    sector = polar((160.0, 210.0, -80.0, -70.0))
    assert sector.window == (160.0, 210.0, -80.0, -70.0)
    assert np.ptp(np.hypot(*sector.outline.T)) > 1e6
    ((longitude,), (latitude,)) = sector.inverse(*sector.forward(np.array([(150.0, -75.0)])).T[:, :1])
    assert np.isnan([longitude, latitude]).all()


def test_a_narrow_polar_area_is_shown_with_its_surroundings() -> None:
    """A wedge at the pole would be as thin as a line."""
    found = choose_projection("auto", (0.0, 2.0, 85.0, 90.0), (-3.0, 5.0, 85.0, 90.0))
    west, east, south, north = found.bounds
    assert 0.4 < (east - west) / (north - south) < 1.0
    assert (found.window[0] + found.window[1]) / 2 == 1.0


def test_polar_stereographic_of_both_sides_of_the_equator_is_an_error() -> None:
    with pytest.raises(UsageError, match="one side of the equator") as refused:
        polar((-20.0, 20.0, -10.0, 80.0))
    assert "--area" in refused.value.remedy
    # A cell at the equator reaches to the other side.
    assert polar((-180.0, 180.0, -0.125, 90.0)).is_disc


LATITUDES = grid.ERA5_GRID.latitudes_of(np.arange(grid.ERA5_GRID.rows))
LONGITUDES = grid.ERA5_GRID.longitudes_of(np.arange(grid.ERA5_GRID.columns))
HEIGHT, WIDTH = 964, 1980
PROJ = {"equal-earth": "eqearth", "robinson": "robin"}


def chosen(name: ProjectionName, centre: float | None) -> MapProjection:
    return choose_projection(name, GLOBE, GLOBE, centre)


def cells_of(projection: MapProjection) -> NearestCells:
    west, east, south, north = projection.bounds
    x, y = pixel_centres(west, east, WIDTH), pixel_centres(north, south, HEIGHT)
    return NearestCells.find(projection, LATITUDES, LONGITUDES, x, y, grid.ERA5_GRID)


def fields() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    longitude, latitude = np.meshgrid(LONGITUDES, LATITUDES)
    return longitude, latitude


@pytest.mark.parametrize("name", ["equal-earth", "robinson"])
@pytest.mark.parametrize("centre", [None, 150.0, -97.3])
def test_the_pixel_where_proj_puts_a_grid_point_has_its_value(name: ProjectionName, centre: float | None) -> None:
    projection = chosen(name, centre)
    cells = cells_of(projection)
    longitude, latitude = (cells.pixels_of(field) for field in fields())
    assert 0.75 < np.isfinite(latitude).mean() < 0.95  # the rest is outside of the outline
    # Without the options of the program: PROJ's own central meridian, and longitudes that it wraps itself.
    proj = pyproj.Proj(f"+proj={PROJ[name]} +R=6371000 +lon_0={centre or 0.0}")
    west, east, south, north = projection.bounds
    points = np.random.default_rng(1).choice(np.flatnonzero(np.abs(fields()[1].ravel()) < 89.0), 20_000)
    asked_longitude, asked_latitude = (field.ravel()[points] for field in fields())
    x, y = proj(asked_longitude, asked_latitude)
    columns = ((np.asarray(x) - west) / (east - west) * WIDTH).astype(int)
    rows = ((north - np.asarray(y)) / (north - south) * HEIGHT).astype(int)
    inside = np.abs((asked_longitude - (centre or 0.0) + 180.0) % 360.0 - 180.0) < 179.0
    off = np.abs((longitude[rows, columns] - asked_longitude + 180.0) % 360.0 - 180.0)[inside]
    up = np.abs(latitude[rows, columns] - asked_latitude)[inside]
    # A pixel is at most 0.19 degrees wide at the equator, and nearer the poles it holds several cells.
    tropics = np.abs(asked_latitude[inside]) < 30.0
    assert off[tropics].max() <= 0.25
    assert up[tropics].max() <= 0.25
    assert (off[tropics] == 0.0).mean() > 0.5
    high = np.abs(asked_latitude[inside]) > 75.0
    assert off.max() <= 3.0
    assert up[~high].max() <= 0.5
    assert up.max() <= 1.5


@pytest.mark.parametrize("name", ["equal-earth", "robinson"])
def test_poles_and_both_sides_of_the_antimeridian(name: ProjectionName) -> None:
    cells = cells_of(chosen(name, None))
    longitude, latitude = (cells.pixels_of(field) for field in fields())
    # Where areas are true, the last two degrees before a pole are as high as a pixel.
    assert np.nanmin(latitude[0]) >= 87.5
    assert np.nanmax(latitude[-1]) <= -87.5
    np.testing.assert_array_equal(latitude[0], -latitude[-1])
    for row in (300, 482, 700):
        there = np.flatnonzero(np.isfinite(longitude[row]))
        left, right = longitude[row, there[0]], longitude[row, there[-1]]
        # The column at 180 degrees is cut in half: one half on each side.
        assert left in {180.0, -179.75}
        assert right in {180.0, 179.75}
        assert np.isfinite(longitude[row, there[0] : there[-1] + 1]).all()
    middle = longitude[482, WIDTH // 2 - 1 : WIDTH // 2 + 1]
    assert set(np.abs(middle)) <= {0.0, 0.25}


def test_no_cell_is_lost_below_60_degrees() -> None:
    cells = cells_of(chosen("equal-earth", None))
    shown = np.zeros(grid.ERA5_GRID.rows * grid.ERA5_GRID.columns, dtype=bool)
    shown[cells.index[cells.index >= 0]] = True
    rows = shown.reshape(grid.ERA5_GRID.rows, grid.ERA5_GRID.columns).mean(axis=1)
    assert (rows[np.abs(LATITUDES) <= 60.0] > 0.995).all()


def test_cells_outside_of_a_small_grid_have_no_value() -> None:
    projection = chosen("equal-earth", None)
    west, east, south, north = projection.bounds
    x, y = pixel_centres(west, east, 720), pixel_centres(north, south, 350)
    some = slice(400, 441), slice(100, 181)
    cells = NearestCells.find(projection, LATITUDES[some[0]], LONGITUDES[some[1]], x, y, grid.ERA5_GRID)
    longitude, latitude = (cells.pixels_of(field[some]) for field in fields())
    assert np.nanmin(latitude) == pytest.approx(10.0, abs=0.5)
    assert np.nanmax(latitude) == pytest.approx(20.0, abs=0.5)
    assert np.nanmin(longitude) == pytest.approx(-154.75, abs=0.5)
    assert np.nanmax(longitude) == pytest.approx(-134.75, abs=0.5)
    # 20 of 360 degrees, 10 in the low latitudes of 180.
    assert 0.002 < np.isfinite(latitude).mean() < 0.006


def test_plate_carree_has_the_nearest_cell_too() -> None:
    x, y = np.array([9.9, 10.1, 10.13, 200.1]), np.array([-89.95, 45.1])
    projection = choose_projection("plate-carree", GLOBE, GLOBE, 150.0)
    index = NearestCells.find(projection, LATITUDES, LONGITUDES, x, y, grid.ERA5_GRID).index
    longitude, latitude = (field.ravel()[index] for field in fields())
    np.testing.assert_array_equal(longitude[0], [10.0, 10.0, 10.25, -160.0])
    np.testing.assert_array_equal(latitude[:, 0], [-90.0, 45.0])
