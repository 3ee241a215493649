"""`era5 places`: the cities that a name may mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline_tests.commands import InProcess, assert_explained

if TYPE_CHECKING:
    from pathlib import Path


def test_a_city_is_listed_with_its_facts(here: InProcess, tmp_path: Path) -> None:
    printed = here.run("places", "Saigon").out
    row = next(line for line in printed.splitlines() if "Vietnam" in line)
    for fact in ("Ho Chi Minh City", "14,002,598", "10.823", "106.63", "Asia/Ho_Chi_Minh", "10.75/106.75", "% water"):
        assert fact in row
    assert "--place 'Saigon' is Ho Chi Minh City, Vietnam" in printed
    assert printed.splitlines()[-1] == "Place names: GeoNames (geonames.org), CC BY 4.0, changed: shortened"
    assert list(tmp_path.iterdir()) == []


def test_the_cell_is_that_of_the_data_set(here: InProcess) -> None:
    of_land = here.run("places", "Accra", "--dataset", "era5-land", "--json").json()
    assert isinstance(of_land, list)
    assert (of_land[0]["latitude"], of_land[0]["longitude"]) == (5.6, -0.2)
    assert "has values" in here.run("places", "Accra", "--dataset", "era5-land").out
    assert "at sea, without values" in here.run("places", "Hamilton, BM", "--dataset", "era5-land").out


def test_words_of_a_name_need_no_quotes(here: InProcess) -> None:
    assert here.run("places", "New", "York").out == here.run("places", "New York").out


def test_an_ambiguous_name_lists_all(here: InProcess) -> None:
    printed = here.run("places", "Springfield").out
    assert printed.count("Springfield") >= 9
    assert "--place 'Springfield' is ambiguous. Add the country or state, such as Springfield, MO," in printed


def test_facts_as_json(here: InProcess) -> None:
    found = here.run("places", "Paris", "--json").json()
    assert [(one["place"]["country"], one["is_meant"]) for one in found][:2] == [
        ("France", True),
        ("United States", False),
    ]
    first = found[0]
    assert (first["latitude"], first["longitude"], first["land_share"]) == (48.75, 2.25, 1.0)
    assert first["place"]["time_zone"] == "Europe/Paris"
    assert here.run("places", "Paris", "--format", "json").json() == found


def test_a_name_that_is_none_is_explained(here: InProcess) -> None:
    """By what model/test_places asserts of each kind of name."""
    printed = here.run("places", "Jakrta", code=2)
    assert_explained(printed, "'Jakrta' is not among the 34,006 cities", "Did you mean Jakarta, Indonesia?")
    assert printed.out == ""
