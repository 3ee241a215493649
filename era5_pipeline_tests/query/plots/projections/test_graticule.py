"""Meridians and parallels, and their labels."""

from __future__ import annotations

import numpy as np
import pytest

from era5_pipeline.query.plots.projections.graticule import Graticule
from era5_pipeline.query.plots.projections.projection_choice import choose_projection


def graticule_of(window: tuple[float, float, float, float], centre: float | None = None) -> Graticule:
    projection = choose_projection("equal-earth", window, window, centre)
    assert projection is not None
    return Graticule.of(projection, 2.2e6)


def texts(graticule: Graticule, side: str) -> list[str]:
    return [label.text for label in graticule.labels if label.side == side]


def test_the_globe_has_labels_at_round_degrees() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0))
    assert texts(found, "left") == ["60°S", "30°S", "0°", "30°N", "60°N"]
    assert texts(found, "below") == ["120°W", "60°W", "0°", "60°E", "120°E"]
    assert len(found.lines) == 11 + 5


def test_labels_are_those_of_the_meridians_about_any_centre() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0), 150.0)
    assert texts(found, "below") == ["0°", "60°E", "120°E", "180°", "120°W", "60°W"]
    # Left to right, below the map.
    places = [label.x for label in found.labels if label.side == "below"]
    assert places == sorted(places)
    assert len({label.y for label in found.labels if label.side == "below"}) == 1


def test_a_meridian_is_curved_and_a_parallel_is_straight() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0))
    meridian, parallel = found.lines[0], found.lines[-1]
    assert np.ptp(meridian[:, 0]) > 5e6
    assert len(meridian) > 150
    assert np.ptp(parallel[:, 1]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("window", [(-11.0, 3.0, 49.0, 61.0), (106.0, 108.0, -7.25, -5.25), (0.0, 200.0, -10.0, 85.0)])
def test_any_window_has_a_few_lines_of_each(window: tuple[float, float, float, float]) -> None:
    found = graticule_of(window)
    assert 2 <= len(texts(found, "left")) <= 9
    assert 2 <= len(found.lines) <= 22
