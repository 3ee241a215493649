"""Shores, land and borders in a projection: on the map, curved, and not across it."""

from __future__ import annotations

import numpy as np
import pytest

from era5_pipeline.query.plots.projections.map_projection import MapProjection
from era5_pipeline.query.plots.projections.projected_shapes import (
    projected_borders,
    projected_coastlines,
    projected_land,
)

CENTRES = [0.0, 25.0, 150.0, -97.3]


def globe(centre: float) -> MapProjection:
    return MapProjection("equal-earth", centre, (centre - 180.0, centre + 180.0, -90.0, 90.0))


@pytest.mark.parametrize("centre", CENTRES)
def test_no_line_runs_across_the_map(centre: float) -> None:
    for lines in (projected_coastlines(globe(centre)), projected_borders(globe(centre))):
        assert len(lines) > 50
        longest = max(float(np.hypot(*np.diff(line, axis=0).T).max()) for line in lines)
        # The 49th parallel is a border of a thousand kilometres without a vertex, and Russia's coast has none longer.
        assert longest < 250_000.0


@pytest.mark.parametrize("centre", CENTRES)
def test_land_is_within_the_outline_and_covers_what_land_covers(centre: float) -> None:
    projection = globe(centre)
    west, east, south, north = projection.bounds
    area = 0.0
    for is_land, ring in projected_land(projection):
        assert ring[:, 0].min() >= west - 1.0
        assert ring[:, 0].max() <= east + 1.0
        assert south - 1.0 <= ring[:, 1].min() <= ring[:, 1].max() <= north + 1.0
        x, y = ring.T
        size = 0.5 * abs(float(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])))
        area += size if is_land else -size
    # Land is 29 % of the globe; the coarse shorelines leave small islands out, and have ice shelves.
    assert area / (4 * np.pi * 6_371_000.0**2) == pytest.approx(0.29, abs=0.01)
