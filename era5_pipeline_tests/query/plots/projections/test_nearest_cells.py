"""Values of pixels, compared with PROJ's own forward projection of grid points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyproj
import pytest

from era5_pipeline.model import grid
from era5_pipeline.query.plots.projections.nearest_cells import NearestCells, pixel_centres
from era5_pipeline.query.plots.projections.projection_choice import choose_projection

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.plots.projections.map_projection import MapProjection, ProjectionName

LATITUDES = grid.latitudes_of(np.arange(grid.N_LATITUDES))
LONGITUDES = grid.longitudes_of(np.arange(grid.N_LONGITUDES))
GLOBE = (-180.0, 180.0, -90.0, 90.0)
HEIGHT, WIDTH = 964, 1980
PROJ = {"equal-earth": "eqearth", "robinson": "robin"}


def chosen(name: ProjectionName, centre: float | None) -> MapProjection:
    found = choose_projection(name, GLOBE, GLOBE, centre)
    assert found is not None
    return found


def cells_of(projection: MapProjection) -> NearestCells:
    west, east, south, north = projection.bounds
    x, y = pixel_centres(west, east, WIDTH), pixel_centres(north, south, HEIGHT)
    return NearestCells.find(projection, LATITUDES, LONGITUDES, x, y)


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
    shown = np.zeros(grid.N_LATITUDES * grid.N_LONGITUDES, dtype=bool)
    shown[cells.index[cells.index >= 0]] = True
    rows = shown.reshape(grid.N_LATITUDES, grid.N_LONGITUDES).mean(axis=1)
    assert (rows[np.abs(LATITUDES) <= 60.0] > 0.995).all()


def test_cells_outside_of_a_small_grid_have_no_value() -> None:
    projection = chosen("equal-earth", None)
    west, east, south, north = projection.bounds
    x, y = pixel_centres(west, east, 720), pixel_centres(north, south, 350)
    some = slice(400, 441), slice(100, 181)
    cells = NearestCells.find(projection, LATITUDES[some[0]], LONGITUDES[some[1]], x, y)
    longitude, latitude = (cells.pixels_of(field[some]) for field in fields())
    assert np.nanmin(latitude) == pytest.approx(10.0, abs=0.5)
    assert np.nanmax(latitude) == pytest.approx(20.0, abs=0.5)
    assert np.nanmin(longitude) == pytest.approx(-154.75, abs=0.5)
    assert np.nanmax(longitude) == pytest.approx(-134.75, abs=0.5)
    # 20 of 360 degrees, 10 in the low latitudes of 180.
    assert 0.002 < np.isfinite(latitude).mean() < 0.006


def test_plate_carree_has_the_nearest_cell_too() -> None:
    x, y = np.array([9.9, 10.1, 10.13, 200.1]), np.array([-89.95, 45.1])
    index = NearestCells.find(None, LATITUDES, LONGITUDES, x, y).index
    longitude, latitude = (field.ravel()[index] for field in fields())
    np.testing.assert_array_equal(longitude[0], [10.0, 10.0, 10.25, -160.0])
    np.testing.assert_array_equal(latitude[:, 0], [-90.0, 45.0])
