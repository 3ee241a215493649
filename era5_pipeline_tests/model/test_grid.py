from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID, ERA5_LAND_GRID, Area, Grid, Location, Shift, is_same_shift, points_text
from era5_pipeline_tests.era5_files import location_id

latitude_numbers = st.integers(0, ERA5_GRID.rows - 1)
longitude_numbers = st.integers(0, ERA5_GRID.columns - 1)
# Degrees in quarters and off them, as users type them.
latitudes = st.integers(-9000, 9000).map(lambda n: n / 100)
longitudes = st.integers(-18000, 36000).map(lambda n: n / 100)


@st.composite
def areas(draw: st.DrawFn) -> Area:
    south, north = sorted((draw(latitudes), draw(latitudes)))
    west, east = draw(longitudes), draw(longitudes)
    try:
        return Area(north, west, south, east)
    except UsageError:
        reject()


def test_the_numbering_is_that_of_the_study() -> None:
    assert ERA5_GRID.location_ids(
        ERA5_GRID.latitude_indices([-30.0]), ERA5_GRID.longitude_indices([30.25])
    ).tolist() == [346_441]


def test_numbers_run_from_1_to_1038240_each_once() -> None:
    numbers = ERA5_GRID.location_ids(np.arange(ERA5_GRID.rows)[:, np.newaxis], np.arange(ERA5_GRID.columns))
    assert numbers.dtype == np.int32
    np.testing.assert_array_equal(numbers.reshape(-1), np.arange(1, ERA5_GRID.locations + 1))


@given(latitude_numbers, longitude_numbers, st.sampled_from([0.0, 360.0]))
def test_degrees_and_indices_convert_into_each_other(latitude: int, longitude: int, turn: float) -> None:
    north, east = float(ERA5_GRID.latitudes_of(latitude)), float(ERA5_GRID.longitudes_of(longitude))
    assert -90 <= north <= 90
    assert -180 < east <= 180
    spelled = east + turn if east + turn <= 360 else east
    assert ERA5_GRID.latitude_indices([north]).tolist() == [latitude]
    assert ERA5_GRID.longitude_indices([spelled]).tolist() == [longitude]
    assert int(ERA5_GRID.location_ids(latitude, longitude)) == location_id(north, spelled)


@pytest.mark.parametrize(("degrees", "index"), [(-180.0, 1439), (180.0, 1439), (0.0, 719), (360.0, 719), (-179.75, 0)])
def test_longitude_wraps_around_at_180_and_360_degrees(degrees: float, index: int) -> None:
    assert ERA5_GRID.longitude_indices([degrees]).tolist() == [index]


@given(latitude_numbers, longitude_numbers, st.floats(-9e-4, 9e-4))
def test_a_rounding_error_beside_the_grid_is_tolerated(latitude: int, longitude: int, error: float) -> None:
    assert ERA5_GRID.latitude_indices([float(ERA5_GRID.latitudes_of(latitude)) + error]).tolist() == [latitude]
    assert ERA5_GRID.longitude_indices([float(ERA5_GRID.longitudes_of(longitude)) + error]).tolist() == [longitude]


@pytest.mark.parametrize("degrees", [0.1, 10.125, 28.9, 47.201, math.nan, math.inf, 9.969e36, -90.25, 90.25])
def test_a_latitude_off_the_grid_is_refused_by_name(degrees: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"latitude {degrees:g} is not on")):
        ERA5_GRID.latitude_indices([10.0, degrees])


@pytest.mark.parametrize("degrees", [0.1, 10.125, -179.9])
def test_a_longitude_off_the_grid_is_refused_by_name(degrees: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"longitude {degrees:g} is not on")):
        ERA5_GRID.longitude_indices([10.0, degrees])


@pytest.mark.parametrize("degrees", [-180.25, 360.25, math.nan, math.inf, 9.969e36])
def test_an_invalid_longitude_is_refused_by_name(degrees: float) -> None:
    with pytest.raises(ValueError, match="is not a longitude in degrees"):
        ERA5_GRID.longitude_indices([degrees])


@given(
    st.integers(0, 100), st.integers(1, 9), st.floats(-0.1239, 0.1239), st.lists(st.floats(-0.0009, 0.0009), min_size=9)
)
def test_degrees_beside_the_grid_have_their_nearest_indices_and_a_shift(
    first: int, count: int, shift: float, errors: list[float]
) -> None:
    indices = np.arange(first, first + count) * 7 % ERA5_GRID.rows
    degrees = ERA5_GRID.latitudes_of(indices).astype(np.float64) + np.clip(
        shift + np.array(errors[:count]), -0.1239, 0.1239
    )
    found, measured = ERA5_GRID.nearest_indices(degrees, "latitude")
    assert found.tolist() == indices.tolist()
    assert abs(measured - shift) <= 0.002
    east = ERA5_GRID.longitudes_of(indices * 2).astype(np.float64) + shift
    found, measured = ERA5_GRID.nearest_indices(np.where(east < -180.0, east + 360.0, east), "longitude")
    assert found.tolist() == (indices * 2).tolist()
    assert abs(measured - shift) <= 0.001


@given(st.floats(0.1241, 0.1259), st.integers(1, 5))
def test_degrees_half_way_between_grid_points_have_none(shift: float, count: int) -> None:
    with pytest.raises(ValueError, match=r"half way|same way"):
        ERA5_GRID.nearest_indices(np.arange(count) * 0.25 + shift, "latitude")


@given(st.floats(-0.12, 0.12), st.floats(0.005, 0.1))
def test_degrees_beside_the_grid_in_different_ways_have_no_nearest(shift: float, more: float) -> None:
    with pytest.raises(ValueError, match=r"half way|same way|same grid point"):
        ERA5_GRID.nearest_indices([10.0 + shift, 10.25 + shift + more], "latitude")


@pytest.mark.parametrize(
    ("shift", "text"),
    [(Shift(0.1, 0.05), "0.1 N 0.05 E"), (Shift(-0.049, -0.1), "0.049 S 0.1 W"), (Shift(0.0, -0.1), "0 N 0.1 W")],
)
def test_a_shift_is_said_in_degrees(shift: Shift, text: str) -> None:
    assert str(shift) == text
    assert Shift.from_json({"north": shift.north, "east": shift.east}) == shift


def test_shifts_are_the_same_to_the_digits_of_files() -> None:
    assert is_same_shift(None, None)
    assert is_same_shift(Shift(0.1, 0.042), Shift(0.1, 0.043))
    assert not is_same_shift(Shift(0.1, 0.042), Shift(0.1, 0.052))
    assert not is_same_shift(None, Shift(0.1, 0.0))
    assert not is_same_shift(Shift(0.1, 0.0), None)


@given(st.lists(latitudes, min_size=1, max_size=5), longitudes, st.integers(0, 300))
@example(north=[0.0], west=-23.15, width=129)  # ends at -10.249999999999998
def test_the_area_around_degrees_is_the_smallest_on_the_grid(north: list[float], west: float, width: int) -> None:
    east = [min(west + width / 10 * part, 360.0) for part in (0.0, 0.5, 1.0)]
    area = ERA5_GRID.area_around(north, east)
    for degrees in (area.north, area.south, area.east, area.west):
        assert degrees % 0.25 == 0
    assert 0 <= area.north - max(north) < 0.25
    assert 0 <= min(north) - area.south < 0.25
    rounding = 1e-6  # a degree as near to the grid as this lies on it
    assert (east[0] - area.west + rounding) % 360 < 0.25 + 2 * rounding
    assert (area.east - east[-1] + rounding) % 360 < 0.25 + 2 * rounding


@given(latitudes, longitudes)
def test_the_nearest_location_is_within_half_a_step(latitude: float, longitude: float) -> None:
    found = ERA5_GRID.nearest_location(latitude, longitude)
    assert abs(found.latitude - latitude) <= 0.125 + 1e-9
    assert abs((found.longitude - longitude + 180) % 360 - 180) <= 0.125 + 1e-9
    assert found.location_id == location_id(found.latitude, found.longitude)


@pytest.mark.parametrize(("latitude", "longitude"), [(90.1, 0), (-91, 0), (math.nan, 0), (0, 361), (0, math.nan)])
def test_coordinates_out_of_range_are_refused(latitude: float, longitude: float) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        ERA5_GRID.nearest_location(latitude, longitude)


@pytest.mark.parametrize("number", [0, -1, ERA5_GRID.locations + 1])
def test_numbers_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        ERA5_GRID.location(number)


@given(areas())
def test_an_area_contains_the_grid_points_within_its_borders(area: Area) -> None:
    north = ERA5_GRID.latitudes_of(np.arange(ERA5_GRID.rows)).astype(float)
    within = (north >= area.south) & (north <= area.north)
    np.testing.assert_array_equal(area.latitude_indices(), np.flatnonzero(within))
    # Going east from the western border, a point in the area comes before the eastern border, or on it.
    width = 360.0 if area.east - area.west == 360.0 else (area.east - area.west) % 360.0
    east = ERA5_GRID.longitudes_of(np.arange(ERA5_GRID.columns)).astype(float)
    eastward = np.round((east - area.west) % 360.0, 6) % 360.0
    np.testing.assert_array_equal(area.longitude_indices(), np.flatnonzero(eastward <= width + 1e-6))


@given(areas())
@example(Area(45.2499999, -179.7500001, 10.0000001, 123.4567891))
def test_an_area_is_equal_after_a_round_trip_through_text(area: Area) -> None:
    assert Area.parse(str(area)) == area


@pytest.mark.parametrize("text", ["global", "GLOBAL", "90/-180/-90/180", "90/0/-90/360", "90,0,-90,359.75"])
def test_the_whole_globe_in_any_spelling_has_all_grid_points(text: str) -> None:
    area = Area.parse(text)
    assert area.latitude_indices().size == ERA5_GRID.rows
    assert area.longitude_indices().size == ERA5_GRID.columns


@pytest.mark.parametrize("text", ["0/180/0/-180", "0/180/0/180", "0/-180/0/-180", "0/360/0/0"])
def test_equal_west_and_east_are_one_meridian_and_not_the_whole_circle(text: str) -> None:
    assert Area.parse(text).longitude_indices().size == 1


def test_an_area_may_cross_the_antimeridian() -> None:
    found = ERA5_GRID.longitudes_of(Area.parse("10/179.5/0/-179.5").longitude_indices())
    assert sorted(found.tolist()) == [-179.75, -179.5, 179.5, 179.75, 180.0]


@pytest.mark.parametrize(
    "text",
    ["", "10/20/30", "10/20/0/x", "0/0/10/10", "91/0/0/10", "10/-181/0/10", "10/0/0/361", "nan/0/0/1", "10/nan/0/1"],
)
def test_an_invalid_area_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        Area.parse(text)
    assert "NORTH/WEST/SOUTH/EAST" in raised.value.remedy


@pytest.mark.parametrize("text", ["10.2/20/10.05/21", "10/20.05/9/20.2"])
def test_an_area_without_a_grid_point_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="contains no grid point") as raised:
        Area.parse(text)
    assert "0.25" in raised.value.remedy


def test_points_are_the_nearest_of_the_grid_each_once() -> None:
    points = ERA5_GRID.parse_points("-6.2/106.8  48.9,2.3 -6.3/106.7")
    assert points_text(points) == "-6.25/106.75 49/2.25"
    assert ERA5_GRID.parse_points(points_text(points)) == points
    assert points_text(ERA5_GRID.parse_points("0/180 0/-180")) == "0/180"
    assert ERA5_GRID.parse_points(" ") == ()


@pytest.mark.parametrize("text", ["Jakarta", "1", "1/2/3", "1/x", "1 / 2", "nan/0"])
def test_an_invalid_point_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a point\nA point is LAT/LON|latitude nan is out of range"):
        ERA5_GRID.parse_points(text)


@given(st.integers(1, ERA5_GRID.locations))
def test_a_location_is_found_by_its_number(number: int) -> None:
    point = ERA5_GRID.location(number)
    assert point == ERA5_GRID.location(number) == ERA5_GRID.nearest_location(point.latitude, point.longitude)
    assert point.location_id == number
    assert ERA5_GRID.parse_points(str(point)) == (point,)


GRIDS = (Grid("made up", 1.0, 181, 360), ERA5_LAND_GRID, ERA5_GRID)
places = st.sampled_from(GRIDS).flatmap(lambda grid: st.integers(1, grid.locations).map(lambda number: (grid, number)))
corners = st.sampled_from(GRIDS).flatmap(
    lambda grid: st.tuples(st.just(grid), *[st.integers(0, end - 1) for end in (grid.rows, grid.columns) * 2])
)


@given(places)
def test_any_grid_converts_ids_indices_and_degrees_into_each_other(place: tuple[Grid, int]) -> None:
    grid, number = place
    row, column = divmod(number - 1, grid.columns)
    found = grid.location(number)
    assert (found.location_id, found.grid) == (number, grid)
    assert int(grid.location_ids(row, column)) == number
    assert grid.latitude_indices([found.latitude]).tolist() == [row]
    for turn in (0.0, 360.0):
        if found.longitude + turn <= 360.0:
            assert grid.longitude_indices([found.longitude + turn]).tolist() == [column]
    # As the table has them, which float32 need not hold exactly.
    assert grid.latitude_indices(grid.latitudes_of([row])).tolist() == [row]
    assert grid.longitude_indices(grid.longitudes_of([column])).tolist() == [column]
    assert grid.nearest_location(found.latitude, found.longitude) == found
    assert grid.parse_points(str(found)) == (found,)


@given(places)
def test_degrees_of_any_grid_are_shown_with_its_digits(place: tuple[Grid, int]) -> None:
    grid, number = place
    found = grid.location(number)
    for degrees in (found.latitude, found.longitude):
        assert degrees == round(degrees / grid.step_degrees) / round(1 / grid.step_degrees)
        assert len(str(abs(degrees)).partition(".")[2]) <= max(grid.decimals, 1)


def test_a_tenth_of_a_degree_is_shown_as_one() -> None:
    north, east = ERA5_LAND_GRID.latitudes_of(999), ERA5_LAND_GRID.longitudes_of(1898)
    assert (float(north), float(east)) == (9.899999618530273, 9.899999618530273)
    assert str(ERA5_LAND_GRID.location(int(ERA5_LAND_GRID.location_ids(999, 1898)))) == "9.9/9.9"
    assert str(ERA5_LAND_GRID.area_around([9.918], [9.918])) == "10/9.9/9.9/10"


@given(corners)
def test_an_area_of_any_grid_has_the_points_between_its_corners(
    corner: tuple[Grid, int, int, int, int],
) -> None:
    grid, one, first, other, last = corner
    south, north = sorted((one, other))
    columns = np.arange(first, last + 1 + (grid.columns if last < first else 0)) % grid.columns
    area = Area(
        *(
            round(degrees, grid.decimals)
            for degrees in (
                float(grid.latitudes_of(north)),
                float(grid.longitudes_of(first)),
                float(grid.latitudes_of(south)),
                float(grid.longitudes_of(last)),
            )
        ),
        grid=grid,
    )
    assert area.latitude_indices().tolist() == list(range(south, north + 1))
    assert area.longitude_indices().tolist() == sorted(columns.tolist())
    assert Area.parse(str(area), grid) == area
    assert Area.parse("global", grid).meets(area)


def test_places_of_two_grids_are_not_equal_and_do_not_meet() -> None:
    one, other = (Location(1, -90.0, grid.location(1).longitude, grid=grid) for grid in GRIDS[:2])
    assert one != other
    assert Area.parse("10/0/0/10", GRIDS[0]) != Area.parse("10/0/0/10", GRIDS[1])
    with pytest.raises(ValueError, match=re.escape("places of made up's 1 degree grid are none of ERA5-Land's 0.1")):
        Area.parse("10/0/0/10", GRIDS[0]).meets(Area.parse("10/0/0/10", GRIDS[1]))


def test_points_of_a_grid_lie_at_its_step() -> None:
    with pytest.raises(ValueError, match=re.escape("721 x 1440 points do not lie 0.1 degrees apart")):
        Grid("wrong", 0.1, 721, 1440)
