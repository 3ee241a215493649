"""The table of places as a whole: its size, and that every line of it can be used."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from era5_pipeline.model.places.folded_names import folded
from era5_pipeline.model.places.place_table import (
    ATTRIBUTION,
    CITIES,
    COUNTRIES,
    FOLDER,
    OTHER_NAMES,
    codes_by_name,
    count_cities,
    country_names,
    main_names,
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


def test_the_files_are_small() -> None:
    assert sum((FOLDER / name).stat().st_size for name in (CITIES, OTHER_NAMES, COUNTRIES)) < 2_500_000


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
        *("code,code_3,name", "NO,NOR,Norway", "US-NY,,New York"),
    ]


def test_the_source_is_named_in_the_notice() -> None:
    assert ATTRIBUTION in (ROOT / "NOTICE").read_text(encoding="utf-8")
