"""Sets of locations: arithmetic as Python's sets have it, rectangles, and names."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import LocationSet

GLOBAL = LocationSet.of_area(Area.parse("global"))
# Near each other, across the ends of rows, and at both ends of the grid, so that runs meet and rows end.
IDS = st.one_of(
    st.integers(1, 12),
    st.integers(ERA5_GRID.columns - 4, ERA5_GRID.columns + 6),
    st.integers(5 * ERA5_GRID.columns - 4, 5 * ERA5_GRID.columns + 6),
    st.integers(ERA5_GRID.locations - 5, ERA5_GRID.locations),
)
SETS = st.sets(IDS, max_size=25)


def make(ids: set[int]) -> LocationSet:
    return LocationSet.of_ids(sorted(ids))


@given(SETS, SETS)
def test_arithmetic_is_that_of_sets(left: set[int], right: set[int]) -> None:
    one, other = make(left), make(right)
    assert set((one & other).ids().tolist()) == left & right
    assert set((one | other).ids().tolist()) == left | right
    assert set((one - other).ids().tolist()) == left - right
    assert one.overlaps(other) == bool(left & right)
    assert one.is_subset_of(other) == (left <= right)
    assert len(one) == len(left)
    assert all((number in one) == (number in left) for number in left | right)
    assert (one == other) == (left == right)


@given(SETS)
def test_runs_are_as_few_as_possible(ids: set[int]) -> None:
    runs = make(ids).runs
    assert all(first < end for first, end in runs)
    assert all(end < first for (_, end), (first, _) in pairwise(runs))
    assert LocationSet.of_runs(list(map(list, runs))) == make(ids)


@given(SETS)
def test_rectangles_hold_each_location_once(ids: set[int]) -> None:
    found = [
        row * ERA5_GRID.columns + column + 1
        for one in make(ids).rectangles
        for row in range(one.first_row, one.last_row + 1)
        for column in range(one.first_column, one.last_column + 1)
    ]
    assert sorted(found) == sorted(ids)


@given(SETS.filter(bool))
def test_the_hull_holds_the_set(ids: set[int]) -> None:
    locations = make(ids)
    assert locations.is_subset_of(LocationSet.of_area(locations.hull))


@pytest.mark.parametrize(
    ("area", "rectangles"),
    [("14.75/41/12.5/43", 1), ("global", 1), ("10/170/5/-170", 2), ("0/5/0/5", 1), ("90/-179.75/90/180", 1)],
)
def test_an_area_is_few_rectangles_and_its_own_hull(area: str, rectangles: int) -> None:
    locations = LocationSet.of_area(Area.parse(area))
    assert len(locations.rectangles) == rectangles
    assert locations.is_rectangle
    assert LocationSet.of_area(locations.hull) == locations


def test_names() -> None:
    gulf = LocationSet.of_area(Area.parse("14.75/41/12.5/43"))
    assert str(gulf) == "14.75/41/12.5/43"
    assert str(GLOBAL) == "global"
    assert str(LocationSet.of_ids([ERA5_GRID.nearest_location(51.5, 0).location_id])) == "51.5/0"
    assert str(gulf - LocationSet.of_area(Area.parse("14/42/14/42"))) == "89 places within 14.75/41/12.5/43"
    assert str(LocationSet()) == "no location"


def test_a_coverage_of_the_grid_becomes_a_set() -> None:
    coverage = np.zeros((721, ERA5_GRID.columns), dtype=np.bool_)
    coverage[480, 719] = True
    assert LocationSet.of_coverage(coverage).runs == ((480 * 1440 + 720, 480 * 1440 + 721),)
    assert len(GLOBAL) == ERA5_GRID.locations
    assert GLOBAL.runs == ((1, ERA5_GRID.locations + 1),)


def test_a_set_is_written_as_postgresql_does() -> None:
    assert LocationSet.of_ids([9, 1, 2, 3]).multirange == "{[1,4),[9,10)}"
    assert LocationSet().multirange == "{}"
