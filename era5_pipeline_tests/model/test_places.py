"""Tests of `model/places`."""

from __future__ import annotations

import difflib
import gzip
import json
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

import pytest

from era5_pipeline.model import places
from era5_pipeline.model.cells import Cell, cell_of
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.places import (
    ATTRIBUTION,
    CITIES,
    COUNTRIES,
    OTHER_NAMES,
    AskedPlace,
    Place,
    codes_by_name,
    count_cities,
    country_names,
    find_candidates,
    find_place,
    folded,
    main_names,
    nearest_places,
    other_names,
    place_of,
    with_geoname_id,
    with_main_name,
    with_other_name,
)
from era5_pipeline_tests import make_places
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("São Paulo", "sao paulo"),
        ("REYKJAVÍK", "reykjavik"),
        ("N\u2019Djamena", "ndjamena"),
        ("Łódź", "lodz"),
        ("Tromsø", "tromso"),
        ("Diyarbak\u0131r", "diyarbakir"),
        ("İzmir", "izmir"),
        ("Gießen", "giessen"),
        ("Saint-Denis", "saint denis"),
        ("Washington, D.C.", "washington, dc"),
        ("서울", "서울"),
        ("東京", "東京"),
    ],
)
def test_names_are_compared_without_case_accents_and_punctuation(name: str, expected: str) -> None:
    assert folded(name) == expected
    assert folded(expected) == expected


def test_many_names_are_folded_at_once() -> None:
    assert folded("Zürich\nKöln\tBonn\n") == "zurich\nkoln\tbonn\n"


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
    asked = AskedPlace(
        JAKARTA, JAKARTA.latitude, JAKARTA.longitude, Cell(ERA5_GRID.nearest_location(-6.25, 106.75), 0.62)
    )
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
    asked = AskedPlace(None, latitude, longitude, Cell(ERA5_GRID.nearest_location(-6.25, 106.75), share))
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
    cell = Cell(ERA5_GRID.nearest_location(-6.25, 106.75), 0.62)
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


def test_every_city_can_be_used() -> None:
    places = [place_of(number) for number in range(count_cities())]
    assert len(places) == len(main_names()) == 34_006
    assert len({place.geoname_id for place in places}) == len(places)
    assert {place.time_zone for place in places} <= available_timezones()
    assert all(-90 <= place.latitude <= 90 and -180 <= place.longitude <= 180 for place in places)
    assert all(place.name and place.country and place.population >= 0 for place in places)
    states = {place.region for place in places if place.country_code == "US"}
    # 50 states and the capital's district.
    assert len(states) == 51
    assert {f"US-{state}" for state in states} <= country_names().keys()
    assert not any(place.region for place in places if place.country_code != "US")
    assert [folded(place.name) for place in places] == main_names()


def test_a_line_is_found_by_each_of_its_names() -> None:
    (number,) = with_other_name("saigon")
    assert place_of(number).name == "Ho Chi Minh City"
    assert with_main_name("ho chi minh city") == [number]
    names = set(other_names().split("\n")[number].split("\t"))
    assert {"saigon", "hcmc", "胡志明市"} <= names
    assert all(number in with_other_name(name) for name in names)


def test_first_and_last_lines_and_parts_of_names_are_told_apart() -> None:
    lines = other_names().split("\n")
    assert len(lines) == count_cities()
    for line in (0, len(lines) - 1):
        name = lines[line].split("\t")[0]
        assert not name or line in with_other_name(name)
    assert with_other_name("aigo") == []
    assert with_other_name("") == []
    assert with_main_name("") == []


def test_a_line_is_found_by_its_number_at_geonames() -> None:
    (number,) = with_geoname_id(1642911)
    assert place_of(number).name == "Jakarta"
    assert with_geoname_id(911) == []


def test_countries_are_known_by_codes_and_names() -> None:
    known = codes_by_name()
    assert known["fr"] == known["fra"] == known["france"] == ("FR",)
    assert known["uk"] == known["gb"] == known["united kingdom"] == ("GB",)
    assert known["netherlands"] == ("NL",)
    assert known["tx"] == known["texas"] == ("US-TX",)
    assert set(known["georgia"]) == {"GE", "US-GA"}


def test_the_table_is_made_of_the_packages_files(tmp_path: Path) -> None:
    city = {
        "geonameid": 7,
        "name": "Tromsø",
        "latitude": 69.6489,
        "longitude": 18.95508,
        "countrycode": "NO",
        "population": 41915,
        "timezone": "Europe/Oslo",
        "admin1code": "19",
        # The name itself, a transliteration by machine, and two spellings of one name.
        "alternatenames": ["Tromsø", "te lu mu sai", "Tromso", "Romsa", "ROMSA", "特罗姆瑟", ""],
    }
    town = city | {"geonameid": 8, "countrycode": "US", "admin1code": "NY", "name": "Troms", "alternatenames": []}
    files = {
        "cities15000": {"8": town, "7": city},
        "countries": {"NO": {"iso": "NO", "iso3": "NOR", "name": "Norway"}},
        "us_states": {"NY": {"name": "New York"}},
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    make_places.main(tmp_path, tmp_path)
    assert gzip.decompress((tmp_path / CITIES).read_bytes()).decode().split("\n") == [
        "Tromsø\tNO\t\t69.649\t18.955\t41915\tEurope/Oslo\t7",
        "Troms\tUS\tNY\t69.649\t18.955\t41915\tEurope/Oslo\t8",
    ]
    assert gzip.decompress((tmp_path / OTHER_NAMES).read_bytes()).decode().split("\n") == ["romsa\t特罗姆瑟", ""]
    assert (tmp_path / COUNTRIES).read_text(encoding="utf-8").splitlines() == [
        *("code,code_3,name", "NO,NOR,Norway", "US-NY,,New York")
    ]


def test_the_source_is_named_in_the_notice() -> None:
    assert ATTRIBUTION in (ROOT / "NOTICE").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Jakarta", "Jakarta, Indonesia"),
        ("  jakarta ", "Jakarta, Indonesia"),
        ("Saigon", "Ho Chi Minh City, Vietnam"),
        ("New York", "New York City, NY, United States"),
        ("NYC", "New York City, NY, United States"),
        ("Munchen", "Munich, Germany"),
        ("München", "Munich, Germany"),
        ("Reykjavik", "Reykjavík, Iceland"),
        ("ndjamena", "N'Djamena, Chad"),
        ("Den Haag", "The Hague, The Netherlands"),
        ("東京", "Tokyo, Japan"),
        ("Москва", "Moscow, Russia"),
        ("Singapore", "Singapore"),
        # The dominant one of several.
        ("Paris", "Paris, France"),
        ("London", "London, United Kingdom"),
        ("Athens", "Athens, Greece"),
        ("Geneva", "Geneva, Switzerland"),
        # With country, state, or both; by code or by name.
        ("Paris, US", "Paris, TX, United States"),
        ("paris, tx, us", "Paris, TX, United States"),
        ("Paris, Texas", "Paris, TX, United States"),
        ("Paris, USA", "Paris, TX, United States"),
        ("Springfield, IL", "Springfield, IL, United States"),
        ("London, CA", "London, Canada"),
        ("Ontario, CA", "Ontario, CA, United States"),
        ("Barcelona, Spain", "Barcelona, Spain"),
        ("York, UK", "York, United Kingdom"),
        ("Amsterdam, the Netherlands", "Amsterdam, The Netherlands"),
        ("Saigon, Vietnam", "Ho Chi Minh City, Vietnam"),
        ("Washington, D.C.", "Washington, DC, United States"),
        # GeoNames' number.
        ("1642911", "Jakarta, Indonesia"),
    ],
)
def test_a_city_is_found(text: str, expected: str) -> None:
    assert str(find_place(text)) == expected


def test_a_place_has_its_facts() -> None:
    place = find_place("Jakarta")
    assert (place.latitude, place.longitude) == pytest.approx((-6.2146, 106.8451), abs=0.0006)
    assert (place.population, place.time_zone, place.geoname_id) == (8_540_121, "Asia/Jakarta", 1642911)
    assert (place.country_code, place.region) == ("ID", "")


@pytest.mark.parametrize(
    ("text", "count", "listed", "example"),
    [
        ("Springfield", 9, "Springfield, MA, United States: population 154,341", "Springfield, MO"),
        ("Barcelona", 2, "Barcelona, Venezuela: population 815,141", "Barcelona, Spain"),
        # A capital that was called so, and two small cities that are.
        ("Batavia", 3, "Jakarta, Indonesia: population 8,540,121", "Batavia, Indonesia"),
        ("St. Petersburg", 2, "St. Petersburg, FL, United States: population 257,083", "St. Petersburg, Russia"),
        ("Mexico", 2, "Mexico City, Mexico: population 12,294,193", "Mexico, Mexico"),
    ],
)
def test_an_ambiguous_name_lists_its_candidates(text: str, count: int, listed: str, example: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_place(text)
    assert caught.value.message == f"'{text}' is the name of {count} cities"
    first, *lines = caught.value.remedy.splitlines()
    assert len(lines) == count
    assert any(listed in line for line in lines)
    assert f"such as {example}, or" in first
    # The command in the remedy works.
    find_place(example)
    number = lines[0].split()[0]
    assert str(find_place(number).geoname_id) == number


def test_many_candidates_are_counted() -> None:
    with pytest.raises(UsageError) as caught:
        find_place("Victoria")
    assert caught.value.remedy.endswith("more, which era5 places lists")
    assert len(find_candidates("Victoria")) > 10


def test_candidates_have_main_names_first_and_then_the_most_populous() -> None:
    found = find_candidates("Batavia")
    assert [str(one.place) for one in found] == [
        *("Batavia, IL, United States", "Batavia, NY, United States"),
        "Jakarta, Indonesia",
    ]
    assert [one.by_main_name for one in found] == [True, True, False]


def test_a_city_that_was_entered_twice_is_one() -> None:
    # Kashan and Kāshān, at the same place.
    assert [one.place.name for one in find_candidates("Kashan") if one.place.population == 304_487] == ["Kashan"]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("Jakrta", "Jakarta, Indonesia"),
        ("Pariss", "Paris, France"),
        ("Reykjavk", "Reykjavík, Iceland"),
        ("Ho Chi", "Ho Chi Minh City, Vietnam"),
        ("Jak\narta", "Jakarta, Indonesia"),
    ],
)
def test_a_misspelt_name_gives_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_place(text)
    assert caught.value.message.startswith(f"{text!r} is not among the 34,006 cities of the table")
    assert caught.value.remedy.startswith(f"Did you mean {nearest}")
    assert "--lat and --lon" in caught.value.remedy
    assert str(nearest_places(text)[0]) == nearest
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["", "   ", ",", ", US", "---", "'"])
def test_an_empty_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the name of the place is empty"):
        find_place(text)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("Paris, Germany", "'Paris, Germany': the table has no such city; elsewhere it has Paris, France", "--lat"),
        ("Paris, Grmany", "'grmany' is neither a country nor a state", "Did you mean Germany?"),
        ("London, Ontario", "'ontario' is neither a country nor a state", "its code"),
        ("Indonesia", "'Indonesia' is a country or state", "Name a city, such as Jakarta, Indonesia."),
        ("Antarctica", "'Antarctica' is a country or state", "Any other point: give its latitude and longitude"),
        ("-6.2, 106.8", "'-6.2, 106.8' is a pair of coordinates", "Give latitude -6.2 and longitude 106.8 instead"),
        ("99", "'99' is not among", "--lat"),
        ("Robert'); DROP TABLE weather; --", '"Robert\'); DROP TABLE weather; --" is not among', "--lat"),
        ("\udcff", "'\\udcff' is not among", "--lat"),
        ("x" * 5000, "is longer than the name of any place", "the name of a city"),
    ],
)
def test_other_texts_are_refused_with_a_reason(text: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_place(text)
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("name", ["jakrta", "reykjavk", "pariss", "new yrok", "aaaaa", "xqzwvk nowhere", "東亰"])
def test_comparing_only_names_with_common_letters_finds_what_comparing_all_does(name: str) -> None:
    names = "\n".join(main_names())
    found = places._with_common_letters(name, names)
    assert all(names.split("\n")[line] == one for line, one in found[:100])
    alike, of_all = (
        difflib.get_close_matches(name, dict.fromkeys(among), n=5, cutoff=0.7)
        for among in ([one for _, one in found], main_names())
    )
    assert alike == of_all
    # Few are left to compare, which is what makes an unknown name quick.
    assert len(found) < len(main_names()) / 10


def test_names_of_several_in_a_line_keep_the_number_of_their_line() -> None:
    names = "batavia\tjakarta\n\nparis\tlutetia\njakata"
    assert places._with_common_letters("jakarta", names) == [(0, "jakarta"), (3, "jakata")]
    assert places._with_common_letters("jakarta", "") == []
