"""Sets of locations: arithmetic as Python's sets have it, rectangles, and names."""

from __future__ import annotations

from itertools import pairwise
from operator import and_, or_, sub

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.grid import ERA5_GRID, ERA5_LAND_GRID, Area, Grid
from era5_pipeline.model.location_set import GridWindow, LocationSet

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


MADE_UP = Grid("made up", 1.0, 181, 360)
OTHERS = (MADE_UP, ERA5_LAND_GRID)


@st.composite
def windows(draw: st.DrawFn) -> GridWindow:
    """Rectangles of other grids, many of them across the antimeridian, some all around."""
    grid = draw(st.sampled_from(OTHERS))
    rows, columns = draw(st.integers(1, 8)), draw(st.one_of(st.integers(1, 12), st.just(grid.columns)))
    north = draw(st.integers(rows - 1, grid.rows - 1))
    west = draw(st.one_of(st.integers(0, grid.columns - 1), st.integers(grid.columns - 12, grid.columns - 1)))
    return GridWindow(north, 0 if columns == grid.columns else west, rows, columns, grid=grid)


@given(windows(), windows())
def test_sets_of_any_grid_have_the_arithmetic_of_sets(one: GridWindow, other: GridWindow) -> None:
    left, right = one.locations, other.locations
    if one.grid != other.grid:
        for combine in (or_, and_, sub, LocationSet.overlaps, LocationSet.is_subset_of):
            with pytest.raises(ValueError, match="degree grid are none of"):
                combine(left, right)
        assert left != right
        return
    own, others = set(left.ids().tolist()), set(right.ids().tolist())
    assert set((left | right).ids().tolist()) == own | others
    assert set((left & right).ids().tolist()) == own & others
    assert set((left - right).ids().tolist()) == own - others
    assert left.overlaps(right) == bool(own & others)
    assert {(left | right).grid, (left & right).grid, (left - right).grid, (left - left).grid} == {one.grid}


@given(windows())
def test_windows_areas_rectangles_and_sets_of_any_grid_are_the_same_places(window: GridWindow) -> None:
    grid, locations = window.grid, window.locations
    assert len(locations) == window.rows * window.columns
    assert GridWindow.of_area(locations.hull) == window
    assert LocationSet.of_area(locations.hull) == locations
    assert LocationSet.of_ids(locations.ids()[::-1], grid) == locations
    assert LocationSet.of_runs(locations.runs, grid) == locations
    assert locations.is_rectangle
    rectangles = locations.rectangles
    assert {one.grid for one in rectangles} == {grid}
    assert sum((r.last_row - r.first_row + 1) * (r.last_column - r.first_column + 1) for r in rectangles) == len(
        locations
    )
    assert (rectangles[0].first_id, rectangles[-1].last_id) == (locations.first_id, locations.last_id)
    rows, columns = window.positions(locations.ids())
    assert sorted(zip(rows.tolist(), columns.tolist(), strict=True)) == [
        (row, column) for row in range(window.rows) for column in range(window.columns)
    ]
    assert window.parameters["columns"] == grid.columns
    first, last = window.ids
    assert first <= locations.first_id <= locations.last_id <= last
    part = window.part(range(window.rows - 1, window.rows), range(window.columns - 1, window.columns))
    assert part.locations == LocationSet.of_location(grid.location(int(part.locations.ids()[0])))
    assert GridWindow.of_location(grid.location(part.locations.first_id)) == part


@pytest.mark.parametrize("grid", OTHERS)
def test_the_whole_of_any_grid_is_global(grid: Grid) -> None:
    whole = LocationSet.of_area(Area.parse("global", grid))
    assert whole == LocationSet.whole(grid)
    assert (str(whole), len(whole)) == ("global", grid.rows * grid.columns)
    assert LocationSet.of_coverage(np.ones((grid.rows, grid.columns), dtype=np.bool_), grid) == whole


def test_names_have_the_digits_of_the_grid() -> None:
    area = Area.parse("10/9.9/9.9/10", ERA5_LAND_GRID)
    assert str(LocationSet.of_area(area)) == "10/9.9/9.9/10"
    assert str(LocationSet.of_location(ERA5_LAND_GRID.nearest_location(9.9, 9.9))) == "9.9/9.9"
