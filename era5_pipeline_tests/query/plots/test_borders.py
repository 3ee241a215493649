"""Borders of countries: where they are, in windows of every size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from era5_pipeline.query.plots import borders as module
from era5_pipeline.query.plots.borders import borders


@pytest.mark.parametrize("width", [2.0, 30.0, 120.0, 360.0])
def test_straight_borders_lie_on_their_parallel_or_meridian(width: float) -> None:
    # Egypt and Sudan at 22 N; Libya and Egypt at 25 E.
    for place, axis, at in (((28.0, 22.0), 1, 22.0), ((25.0, 27.0), 0, 25.0)):
        half = width / 2
        window = (place[0] - half, place[0] + half, max(place[1] - half, -90.0), min(place[1] + half, 90.0))
        pieces = np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in borders(*window)])
        low, high = pieces.min(axis=1), pieces.max(axis=1)
        other = 1 - axis
        here = (low[:, other] <= place[other]) & (high[:, other] >= place[other])
        here &= (np.abs(pieces[:, :, axis] - at) < 0.1).all(axis=1)
        assert here.any()


def test_countries_of_this_century_have_borders() -> None:
    # The north of South Sudan, and Timor-Leste's border.
    assert borders(26.0, 27.0, 9.0, 10.5)
    assert borders(124.8, 125.4, -9.6, -8.9)


def test_the_file_is_small() -> None:
    assert Path(module.__file__).with_name("borders.npz").stat().st_size < 80_000


def test_window_across_the_antimeridian_and_the_sea_have_none() -> None:
    assert borders(175.0, 185.0, -30.0, -20.0) == []


def test_a_window_turned_by_360_degrees_has_the_same_borders() -> None:
    here, there = borders(5.0, 15.0, 45.0, 50.0), borders(365.0, 375.0, 45.0, 50.0)
    assert len(here) == len(there) > 3
    np.testing.assert_allclose(np.concatenate(here) + np.array([360.0, 0.0]), np.concatenate(there), atol=1e-4)
