"""Tests of `draw/locator`."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from era5_pipeline.draw.locator import is_region
from era5_pipeline.draw.maps import draw_map
from era5_pipeline_tests.draw.variables_of_each_kind import field_of


@pytest.mark.parametrize("area", ["24/102/8/110", "10/90/-10/120", "-12/175/-22/-175", "81/10/76/34"])
def test_a_region_has_its_box_on_the_world(area: str) -> None:
    drawn = draw_map(field_of(area))
    axes, bar, world = drawn.figure.axes
    west, east, south, north = drawn.projection.window
    boxes = [patch for patch in world.patches if isinstance(patch, Rectangle)]
    middle = (west + east) / 2
    assert len(boxes) == (2 if area == "-12/175/-22/-175" else 1)
    for box in boxes:
        (x, y), (wide, tall) = box.get_xy(), (box.get_width(), box.get_height())
        assert (x + wide / 2 - middle + 180.0) % 360.0 - 180.0 == pytest.approx(0.0, abs=1e-6)
        assert y - 1e-6 <= south < north <= y + tall + 1e-6
        assert wide >= east - west
    shown, beside, place = (one.get_window_extent() for one in (axes, bar, world))
    assert place.width == pytest.approx(2 * place.height)
    if beside.width > beside.height:  # below the map, from its left end to its right
        assert (beside.x0, place.x1) == pytest.approx((shown.x0, shown.x1))
        assert beside.x1 < place.x0
        assert place.y1 < shown.y0
    else:  # right of it, from its lower end to its upper
        assert (place.y0, beside.y1) == pytest.approx((shown.y0, shown.y1))
        assert place.y1 < beside.y0
        assert place.x0 > shown.x1
    assert place.x1 <= drawn.figure.get_window_extent().x1


def test_a_large_part_of_the_globe_needs_no_locator() -> None:
    assert is_region((5.0, 32.0, 57.0, 72.0))
    assert is_region((-30.0, 60.0, 80.0, 90.0))  # near the pole, where longitudes are close together
    assert not is_region((-180.0, 180.0, -90.0, -60.0))
    assert not is_region((-20.0, 60.0, -40.0, 40.0))
