"""Which cells are marked: evenly spaced, and only where the condition holds."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.draw.map_parts import stipple_points
from era5_pipeline_tests.draw.variables_of_each_kind import field_of

GLOBE = field_of("global")
MARKED = np.random.default_rng(3).random(GLOBE.values.shape) < 0.4


@given(st.floats(0.1, 20.0))
def test_only_cells_are_marked_where_it_holds(spacing: float) -> None:
    points = stipple_points(dataclasses.replace(GLOBE, stippled=MARKED), spacing)
    rows = np.rint((points[:, 1] + 90.0) / 0.25).astype(int)
    columns = np.rint((points[:, 0] + 179.75) / 0.25).astype(int)
    assert MARKED[rows, columns].all()


def test_marks_are_as_dense_at_60_degrees_as_at_the_equator() -> None:
    points = stipple_points(dataclasses.replace(GLOBE, stippled=np.ones_like(MARKED)), 2.0)
    near = [np.abs(points[:, 1] - latitude) < 5.0 for latitude in (0.0, 60.0, 80.0)]
    equator, sixty, eighty = (int(band.sum()) for band in near)
    assert abs(sixty / equator - 0.5) < 0.05
    assert abs(eighty / equator - np.cos(np.deg2rad(80.0))) < 0.05
    assert abs(equator - 10 / 2 * 180) < 200


def test_a_field_without_a_condition_has_no_marks() -> None:
    assert len(stipple_points(GLOBE, 2.0)) == 0
