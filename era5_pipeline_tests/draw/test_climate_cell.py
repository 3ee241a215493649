"""The cell on a map: in the middle, also at the date line and at the poles."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from era5_pipeline.draw.climate_axes import NARROW
from era5_pipeline.draw.climate_cell import cell_bounds, cell_figure
from era5_pipeline.model.grid import ERA5_GRID

PLACES = {
    "Jakarta": (-6.25, 106.75),
    "date line": (-17.0, 180.0),
    "north pole": (90.0, 0.0),
    "south pole": (-90.0, 12.5),
    "Greenwich": (51.5, 0.0),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_cell_is_in_the_map_and_the_place_on_earth(place: str) -> None:
    latitude, longitude = PLACES[place]
    bounds = cell_bounds(ERA5_GRID.nearest_location(latitude, longitude))
    figure = cell_figure(bounds, (latitude, longitude), NARROW)
    near, earth = figure.axes
    west, east = near.get_xlim()
    south, north = near.get_ylim()
    assert west < bounds[0] < bounds[1] < east
    assert -90.0 <= south <= bounds[2] < bounds[3] <= north <= 90.0
    assert (west + east) / 2 == pytest.approx(longitude)
    outline = [patch for patch in near.patches if isinstance(patch, Rectangle)][-1]
    assert outline.get_bbox().bounds == pytest.approx((bounds[0], bounds[2], 0.25, bounds[3] - bounds[2]))
    mark = np.asarray(earth.lines[0].get_xydata())[0]
    assert mark[0] == pytest.approx((longitude + 180) % 360 - 180, abs=1e-9)
    assert abs(mark[1] - latitude) <= 0.125


def test_the_earth_stands_below_the_map_from_edge_to_edge() -> None:
    near, earth = (
        axes.get_position()
        for axes in cell_figure(cell_bounds(ERA5_GRID.nearest_location(50.0, 10.0)), None, NARROW).axes
    )
    assert (earth.x0, earth.x1) == pytest.approx((near.x0, near.x1))


def test_a_point_beyond_the_date_line_is_drawn_beside_its_cell() -> None:
    figure = cell_figure(cell_bounds(ERA5_GRID.nearest_location(-17.0, 180.0)), (-17.02, -179.95), NARROW)
    (dot,) = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert np.asarray(dot.get_xdata())[0] == pytest.approx(180.05)


def test_a_large_area_fits() -> None:
    bounds = (-10.0, 40.0, 30.0, 60.0)
    near = cell_figure(bounds, None, NARROW).axes[0]
    (west, east), (south, north) = near.get_xlim(), near.get_ylim()
    assert west < bounds[0] < bounds[1] < east
    assert south < bounds[2] < bounds[3] < north
    globe = cell_figure((-180.0, 180.0, -90.0, 90.0), None, NARROW).axes[0]
    assert globe.get_ylim() == (-90.0, 90.0)
