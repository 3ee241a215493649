"""Finding a city by its name: main names, other names, a country or state behind a comma, and the nearest names.

A name may be that of many cities. One is meant if it is at least `DOMINANCE` times as populous as the next with that
name: Paris is the one in France. Main names are compared first; cities that only have it among their other names count
where no city has it as its main name, or where they are more than `DOMINANCE` times as populous: is Batavia a city in
Illinois, or Jakarta? Otherwise the name is ambiguous, and its candidates are listed.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from math import cos, hypot, radians
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.places.folded_names import folded
from era5_pipeline.model.places.place_table import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.places.place import Place

# A city is meant by a name that it shares with others if it is this many times as populous as each of them.
DOMINANCE = 5
# Namesakes in one country that are nearer than this, a cell of the grid, are districts, or entered twice.
_SAME_PLACE_DEGREES = 0.25
_LONGEST_NAME = 100
_SHOWN_CANDIDATES = 10
_SHOWN_NEAREST = 5
# Of names that are like the text: at least this much, and not this much less than the likest.
_SIMILARITY = 0.7
_CLOSE = 0.08
_SHORTEST_GUESSED = 3
_COORDINATES = "Any other point: give its latitude and longitude (--lat and --lon of a command)."


@dataclass(frozen=True)
class Candidate:
    """A city that a name may mean; by its main name, or by one of its other names."""

    place: Place
    by_main_name: bool


def find_place(text: str) -> Place:
    """The city that a text names: `Jakarta`, `Saigon`, `Paris, US`, `Paris, Texas`, or GeoNames' number, `1642911`.

    Raises:
        UsageError: if no city has the name, with the nearest names; or if several have, with a list of them.
    """
    candidates = find_candidates(text)
    if not candidates:
        raise unknown_place(text)
    meant = place_meant(candidates)
    if meant is None:
        raise ambiguous_place(text, candidates)
    return meant


def find_candidates(text: str) -> list[Candidate]:
    """The cities that a text may name, those with this main name first, and the most populous first.

    Raises:
        UsageError: if the text is no name; or if what follows its comma is no country, state, or none of these cities'.
    """
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
    # A name may have a comma: `Washington, D.C.`
    if whole := _named(" ".join((name, *within))):
        return whole
    if unknown := [part for part in within if part.removeprefix("the ") not in codes_by_name()]:
        raise _unknown_country(unknown[0])
    if found:
        raise UsageError(
            f"{_shown(text)}: no such city in the table; elsewhere it has {_list(found)}", remedy=_COORDINATES
        )
    return []


def _parts(text: str) -> list[str]:
    """The folded name, and what follows it after commas.

    Raises:
        UsageError: if there is no name, or it is longer than any.
    """
    if len(text) > _LONGEST_NAME:
        raise UsageError(
            f"{_shown(text[:_LONGEST_NAME])}... is longer than the name of any place", remedy="Give the name of a city."
        )
    parts = [" ".join(folded(part).split()) for part in text.split(",")]
    if not parts[0]:
        raise UsageError("the name of the place is empty", remedy="Give the name of a city, such as Jakarta.")
    return [part for part in parts if part]


def _require_no_coordinates(text: str) -> None:
    """Raise if the text is two numbers, which are to be given by other options."""
    numbers = text.replace(",", " ").split()
    try:
        latitude, longitude = map(float, numbers)
    except ValueError:
        return
    raise UsageError(
        f"{_shown(text)} are coordinates, and no name of a place",
        remedy=f"Give latitude {latitude:g} and longitude {longitude:g} instead (--lat and --lon of a command).",
    )


def _named(name: str) -> list[Candidate]:
    """The cities with this folded name, ranked, each once."""
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
    """The codes of the country and of the state that the city is in."""
    return {place.country_code, _state_code(place)}


def place_meant(candidates: list[Candidate]) -> Place | None:
    """The city that a name means of those that have it; None if that is not clear."""
    by_main, by_other = ([one.place for one in candidates if one.by_main_name is kind] for kind in (True, False))
    first, *rest = by_main or by_other
    if rest and first.population < DOMINANCE * rest[0].population:
        return None
    if by_main and by_other and by_other[0].population > DOMINANCE * first.population:
        return None
    return first


def ambiguous_place(text: str, candidates: list[Candidate]) -> UsageError:
    """The error for a name of several cities, with a list of them, and what to add to the name."""
    ranked = sorted((one.place for one in candidates), key=_rank)
    first = ranked[0]
    name = text.split(",", maxsplit=1)[0].strip()
    there = [one for one in candidates if _state_code(one.place) == _state_code(first)]
    example = f"such as {name}, {first.region or first.country}, or" if place_meant(there) == first else "or give"
    return UsageError(
        f"{_shown(text)} is the name of {len(ranked)} cities",
        remedy=f"Add the country or state, {example} the number of one, such as {first.geoname_id}:"
        f"{_list_lines(ranked)}",
    )


def _list_lines(places: list[Place]) -> str:
    lines = [f"\n      {place.geoname_id:>9}  {describe(place)}" for place in places[:_SHOWN_CANDIDATES]]
    more = len(places) - _SHOWN_CANDIDATES
    return "".join(lines) + (f"\n      and {more} more, which era5 places lists" if more > 0 else "")


def describe(place: Place) -> str:
    """A city with its country, population and coordinates."""
    return f"{place}: population {place.population:,}, at {place.latitude:g}, {place.longitude:g}"


def _list(candidates: Iterable[Candidate]) -> str:
    places = [str(one.place) for one in candidates]
    return "; ".join(places[:_SHOWN_NEAREST]) + ("; ..." if len(places) > _SHOWN_NEAREST else "")


def unknown_place(text: str) -> UsageError:
    """The error for a text that names no city of the table, with the nearest names."""
    name = _parts(text)[0]
    if codes := codes_by_name().get(name.removeprefix("the ")):
        there = sorted((one for one in map(place_of, range(count_cities())) if _codes(one) & set(codes)), key=_rank)
        example = f"Name a city, such as {there[0]}. " if there else ""
        return UsageError(
            f"{_shown(text)} is a country or state, and not the name of a city in the table",
            remedy=f"{example}{_COORDINATES}",
        )
    near = [str(place) for place in nearest_places(text)]
    meant = f"Did you mean {_either(near)}? " if near else ""
    return UsageError(
        f"{_shown(text)} is not among the {count_cities():,} cities of the table (15,000 people or more, or capitals)",
        remedy=f"{meant}{_COORDINATES}",
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
    """The cities whose names begin with the text, or are most like it, the likest first."""
    name = _parts(text)[0]
    if len(name) < _SHORTEST_GUESSED:
        return []
    begin = [number for number, one in enumerate(main_names()) if one.startswith(name)]
    if begin:
        return sorted(map(place_of, begin), key=_rank)[:_SHOWN_NEAREST]
    return _alike(name, "\n".join(main_names())) or _alike(name, other_names())


def _alike(name: str, names: str) -> list[Place]:
    """The cities whose names, in lines as `_with_common_letters` has them, are most like this one.

    Of equally like ones the most populous come first.
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
    """The names that have so many letters in common with this one that they can be like it, with their line's number.

    `names` has lines of names with tabs between them. A similarity of difflib is never above twice the common letters,
    in any order, by the letters of both names. To ask it of each of 230,000 names would take seconds.
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
