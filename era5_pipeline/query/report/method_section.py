"""How the page was made: what ERA5 is, which months and versions, what is missing, the SQL, and whom to credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.places.place_table import ATTRIBUTION
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.query.report.elements import element
from era5_pipeline.query.report.page_words import with_degrees
from era5_pipeline.query.report.report_sql import statements

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree import ElementTree as ET

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer, Provenance

_VERSIONS = {"unknown": "not stated in the files", "mixed": "partly final"}
_CC_BY = "https://creativecommons.org/licenses/by/4.0/"


def method_section(answer: ClimateAnswer) -> list[ET.Element]:
    """The paragraphs and lists of the section."""
    provenance = answer.provenance
    place = answer.place
    parts = [
        element("h3", "What ERA5 is"),
        element("p", with_degrees(answer.what_era5_is)),
        element("h3", "Which numbers these are"),
        element(
            "p",
            f"Of {place.description}, from {answer.first:%Y-%m-%d %H:%M} to {answer.last:%Y-%m-%d %H:%M} UTC.",
        ),
        element("p", _counts(provenance)),
        _list(provenance.lines),
        element("h3", "What to know"),
        _list(answer.notes),
        element("h3", "The SQL that gives the numbers"),
        element("p", "From the table ", element("code", "weather"), " of the warehouse:"),
    ]
    for what, statement in statements(answer):
        parts += [element("p", f"{what}:"), element("pre", element("code", statement), tabindex="0")]
    parts += [element("h3", "Sources and licences"), _credits(answer)]
    parts.append(element("p", f"Made by era5-pipeline {__version__}."))
    return parts


def _counts(provenance: Provenance) -> str:
    """Months and hours, where they came from, which version of ERA5 they are, and how much of it is preliminary."""
    words = [f"{provenance.months:,} months, {provenance.hours:,} hours"]
    if provenance.sources:
        words.append(f"loaded from {_counted(provenance.sources)}")
    if provenance.versions:
        named = {_VERSIONS.get(version, version): count for version, count in provenance.versions.items()}
        words.append(f"version {_counted(named)}")
    if provenance.version_words:
        words.append(provenance.version_words)
    return f"{'; '.join(words)}."


def _counted(months: Mapping[str, int]) -> str:
    """Names with their numbers of months, `cds (12), files (65)`; a single one without."""
    if len(months) == 1:
        return next(iter(months))
    return ", ".join(f"{name} ({count:,} months)" for name, count in sorted(months.items()))


def _list(lines: tuple[str, ...]) -> ET.Element:
    return element("ul", *(element("li", with_degrees(f"{line[:1].upper()}{line[1:]}")) for line in lines))


def _credits(answer: ClimateAnswer) -> ET.Element:
    """Whom the licences ask to name."""
    found = [element("li", f"{answer.provenance.credit}.")]
    sources = answer.provenance.sources
    if not sources or any(not source_kind(name).is_generated for name in sources):
        found.append(
            element(
                "li",
                "ERA5 is under ",
                _link(_CC_BY, "CC BY 4.0"),
                ". Neither the European Commission nor ECMWF is responsible for any use that may be made of the "
                "Copernicus information or data it contains. Hersbach, H. et al. (2023): ERA5 hourly data on single "
                "levels from 1940 to present, Copernicus Climate Change Service (C3S) Climate Data Store, ",
                _link("https://doi.org/10.24381/cds.adbb2d47", "doi:10.24381/cds.adbb2d47"),
                ".",
            )
        )
    if answer.place.name:
        found.append(element("li", f"{ATTRIBUTION}."))
    elif answer.place.zone:
        found.append(
            element(
                "li",
                "Time zones: polygons by OpenStreetMap contributors, ",
                _link("https://opendatacommons.org/licenses/odbl/", "ODbL"),
                ".",
            )
        )
    found += [
        element(
            "li",
            "Coastlines: GSHHG (LGPL). Borders: Natural Earth (public domain), drawn where control changes on the "
            "ground, whoever claims what.",
        ),
        element("li", "Warming stripes: after an idea of Ed Hawkins, University of Reading (CC BY 4.0)."),
    ]
    return element("ul", *found)


def _link(address: str, words: str) -> ET.Element:
    return element("a", words, href=address)
