"""The part of a map that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.maps.fields import main_part
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.read.fields import placed

if TYPE_CHECKING:
    from era5_pipeline.maps.fields import MainPart


QATAR, MEKONG, FIJI = "26.5/50.5/24.5/52", "10.75/106.25/10.75/106.25", "-16/179/-18/-179"


def part_of(*areas: str) -> MainPart | None:
    # Not np.unique, which takes a second for the globe.
    is_asked = np.zeros(ERA5_GRID.locations + 1, dtype=bool)
    for area in areas:
        is_asked[LocationSet.of_area(Area.parse(area)).ids()] = True
    ids = np.flatnonzero(is_asked).astype(np.int32)
    window, values = placed(ids, np.ones(ids.size, dtype=np.float32), ERA5_GRID)
    found = main_part(window, np.isfinite(values))
    if found:
        shown = values[found.rows, found.columns]
        assert shown.shape == (found.area.latitude_indices().size, found.area.longitude_indices().size)
        assert float(window.latitudes[::-1][found.rows][0]) == found.area.south
    return found


def test_of_places_far_apart_the_part_with_most_is_drawn_and_the_others_are_named() -> None:
    found = part_of(QATAR, MEKONG)
    assert found is not None
    assert str(found.area) == QATAR
    assert found.line == (f"the map shows 63 of 64 places, those of {QATAR}; the others are far away: --area {MEKONG}")


def test_a_part_may_cross_the_antimeridian() -> None:
    found = part_of(FIJI, MEKONG)
    assert found is not None
    assert str(found.area) == FIJI


def test_no_more_than_four_other_parts_are_named() -> None:
    found = part_of(
        QATAR,
        *(f"{latitude}/{longitude}/{latitude}/{longitude}" for latitude in (-30, 0) for longitude in (-60, 10, 120)),
    )
    assert found is not None
    assert found.line is not None
    assert found.line.count("--area") == 4
    assert found.line.endswith(" and 2 more")


@pytest.mark.parametrize("areas", [("global",), (QATAR,), (MEKONG,), (QATAR, "24/52/20/58"), ("global", MEKONG)])
def test_places_that_one_map_shows_are_all_drawn(areas: tuple[str, ...]) -> None:
    assert part_of(*areas) is None


def test_a_sparse_net_of_stations_is_one_part() -> None:
    stations = [
        f"{latitude}/{longitude}/{latitude}/{longitude}"
        for latitude in range(40, 56, 4)
        for longitude in range(0, 20, 4)
    ]
    found = part_of(*stations)
    assert found is not None
    assert (str(found.area), found.line) == ("52/0/40/16", None)


def test_without_any_value_there_is_no_part() -> None:
    assert main_part(GridWindow(2, 0, 3, 4, grid=ERA5_GRID), np.zeros((3, 4), dtype=bool)) is None


def test_one_part_among_places_without_values_is_drawn_alone() -> None:
    ids = LocationSet.of_area(Area.parse("30/40/0/90")).ids().astype(np.int32)
    window, values = placed(ids, np.ones(ids.size, dtype=np.float32), ERA5_GRID)
    has_value = np.zeros(values.shape, dtype=bool)
    has_value[98:107, 42:49] = True
    found = main_part(window, has_value)
    assert found is not None
    assert (str(found.area), found.line) == (QATAR, None)
