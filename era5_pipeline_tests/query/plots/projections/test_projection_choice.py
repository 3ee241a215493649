"""Which maps are drawn in a projection, and about which meridian."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.query.plots.projections.projection_choice import choose_projection

if TYPE_CHECKING:
    from era5_pipeline.query.plots.outlines import Window
    from era5_pipeline.query.plots.projections.projection_choice import ProjectionChoice

GLOBE = (-180.0, 180.0, -90.0, 90.0)
PACIFIC = (100.0, 300.0, -60.0, 60.0)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (GLOBE, "equal-earth"),
        (PACIFIC, "equal-earth"),
        ((-180.0, 180.0, 0.0, 90.0), "equal-earth"),
        ((-180.0, 180.0, -30.0, 30.0), None),  # a band
        ((-90.0, 90.0, -90.0, 90.0), None),  # half the globe
        ((-11.0, 3.0, 49.0, 61.0), None),
    ],
)
def test_the_globe_is_drawn_in_equal_earth_and_regions_as_they_were(window: Window, name: str | None) -> None:
    found = choose_projection("auto", window, GLOBE)
    assert (found and found.name) == name


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
    assert found is not None
    assert found.window[:2] == expected
    assert found.window[2:] == window[2:]


def test_a_small_area_is_shown_with_its_surroundings() -> None:
    found = choose_projection("robinson", (10.0, 10.25, 50.0, 50.25), (9.0, 11.0, 49.0, 51.0))
    assert found is not None
    assert found.window == (9.0, 11.0, 49.0, 51.0)


def test_plate_carree_is_no_projection() -> None:
    assert choose_projection("plate-carree", GLOBE, GLOBE, 150.0) is None
