"""What a command was asked for, in words and as JSON."""

from __future__ import annotations

import pytest

from era5_pipeline.model.grid import nearest_location
from era5_pipeline.model.places.grid_cells import Cell, cell_of
from era5_pipeline.model.places.place import AskedPlace, Place

JAKARTA = Place("Jakarta", "Indonesia", -6.215, 106.845, 8_540_121, "Asia/Jakarta", 1642911, "ID")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (JAKARTA, "Jakarta, Indonesia"),
        (Place("Paris", "United States", 33.661, -95.556, 24_782, "America/Chicago", 1, "US", "TX"), None),
        (Place("Singapore", "Singapore", 1.29, 103.85, 5_638_700, "Asia/Singapore", 2), "Singapore"),
    ],
)
def test_a_place_is_named_with_state_and_country(place: Place, expected: str | None) -> None:
    assert str(place) == (expected or "Paris, TX, United States")


def test_a_named_place_is_described_with_its_cell_and_share_of_land() -> None:
    asked = AskedPlace(JAKARTA, JAKARTA.latitude, JAKARTA.longitude, Cell(nearest_location(-6.25, 106.75), 0.62))
    assert asked.description == (
        "Jakarta, Indonesia (-6.215, 106.845): location_id 483547, latitude -6.25, longitude 106.75, "
        "62 % land, 38 % water"
    )
    assert asked.time_zone == "Asia/Jakarta"
    assert asked.name == "Jakarta, Indonesia"
    assert not asked.is_moved


@pytest.mark.parametrize(
    ("latitude", "longitude", "share", "expected"),
    [
        (-6.25, 106.75, 1.0, "location_id 483547, latitude -6.25, longitude 106.75"),
        (-6.25, 106.75, 0.4, "location_id 483547, latitude -6.25, longitude 106.75, 40 % land, 60 % water"),
        (-6.2, 106.8, 1.0, "location_id 483547, latitude -6.25, longitude 106.75 (nearest to -6.2, 106.8)"),
        (-6.2, 106.8, 0.0, "location_id 483547, latitude -6.25, longitude 106.75 (nearest to -6.2, 106.8), all water"),
    ],
)
def test_bare_coordinates_are_described_with_water_where_there_is_some(
    latitude: float, longitude: float, share: float, expected: str
) -> None:
    asked = AskedPlace(None, latitude, longitude, Cell(nearest_location(-6.25, 106.75), share))
    assert asked.description == expected
    assert asked.time_zone == "Asia/Jakarta"
    assert asked.name is None


def test_a_cell_that_is_not_the_nearest_is_called_the_nearest_land() -> None:
    point = (1.29, 103.85)
    asked = AskedPlace(None, *point, cell_of(*point, "land"))
    assert asked.is_moved
    assert "(nearest land to 1.29, 103.85)" in asked.description
    named = AskedPlace(Place("Singapore", "Singapore", *point, 1, "Asia/Singapore", 2), *point, cell_of(*point, "land"))
    assert ", the nearest land, 9" in named.description


def test_the_facts_as_json_have_the_place_or_null() -> None:
    cell = Cell(nearest_location(-6.25, 106.75), 0.62)
    named = AskedPlace(JAKARTA, JAKARTA.latitude, JAKARTA.longitude, cell).as_json()
    assert named["place"] == {
        "name": "Jakarta",
        "country": "Indonesia",
        "region": None,
        "population": 8_540_121,
        "latitude": -6.215,
        "longitude": 106.845,
        "time_zone": "Asia/Jakarta",
        "geoname_id": 1642911,
    }
    bare = AskedPlace(None, -6.25, 106.75, cell).as_json()
    expected = {"place": None, "location_id": 483547, "latitude": -6.25, "longitude": 106.75, "land_share": 0.62}
    assert bare == expected
    assert {name: value for name, value in named.items() if name != "place"} == {
        name: value for name, value in expected.items() if name != "place"
    }
