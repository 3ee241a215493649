"""Finding a city by its name: which one is meant, and what is said where none is."""

from __future__ import annotations

import difflib

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.places import place_search
from era5_pipeline.model.places.place_search import find_candidates, find_place, nearest_places
from era5_pipeline.model.places.place_table import main_names


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
    # What the remedy proposes works.
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
        ("Paris, Germany", "'Paris, Germany': no such city in the table; elsewhere it has Paris, France", "--lat"),
        ("Paris, Grmany", "'grmany' is neither a country nor a state", "Did you mean Germany?"),
        ("London, Ontario", "'ontario' is neither a country nor a state", "its code"),
        ("Indonesia", "'Indonesia' is a country or state", "Name a city, such as Jakarta, Indonesia."),
        ("Antarctica", "'Antarctica' is a country or state", "Any other point: give its latitude and longitude"),
        ("-6.2, 106.8", "'-6.2, 106.8' are coordinates", "Give latitude -6.2 and longitude 106.8 instead"),
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
    found = place_search._with_common_letters(name, names)
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
    assert place_search._with_common_letters("jakarta", names) == [(0, "jakarta"), (3, "jakata")]
    assert place_search._with_common_letters("jakarta", "") == []
