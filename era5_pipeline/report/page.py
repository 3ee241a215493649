"""The page: one self-contained HTML file, without network access or scripts; its tables and words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.climate.answer import Trend
from era5_pipeline.climate.words import decimals_of, p_text
from era5_pipeline.draw.climate_axes import signed
from era5_pipeline.maps.fields import unit_text
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.places import ATTRIBUTION
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.report import figures
from era5_pipeline.report.html import (
    cautions,
    document,
    element,
    interval_words,
    question,
    table,
    trend_cell,
    value_with_unit,
    verdict,
    with_degrees,
)
from era5_pipeline.report.sql import statements
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree import ElementTree as ET

    from era5_pipeline.climate.answer import ClimateAnswer, Provenance, Record, YearlyQuantity

# --- The tables of the page: trends, records, and the numbers of every year ---


def trends_table(answer: ClimateAnswer) -> ET.Element:
    """The trends of all quantities: over the whole record, and since 1979 if that differs."""
    found = [trends for trends in answer.trends if isinstance(trends.whole, Trend)]
    if not found:
        reasons = dict.fromkeys(trends.whole.reason for trends in answer.trends if not isinstance(trends.whole, Trend))
        return element("p", f"There is no trend: {with_degrees('; '.join(reasons))}.", class_="nothing")
    has_since = any(
        isinstance(one.since_1979, Trend) and isinstance(one.whole, Trend) and one.since_1979.years != one.whole.years
        for one in found
    )
    rows = [
        (
            _named(one.quantity),
            trend_cell(one.quantity, one.whole),
            *((trend_cell(one.quantity, one.since_1979),) if has_since else ()),
        )
        for one in answer.trends
    ]
    caption = "Change per decade, least squares"
    if not answer.provenance.notice:
        caption += "; an interval that leaves out zero is significant"
    headings = ("Each year's", "per decade (95 % interval)", *(("since 1979",) if has_since else ()))
    return table(caption, headings, rows)


def trend_details(answer: ClimateAnswer) -> ET.Element | None:
    """How the trend of the mean temperature was computed, and what other methods give; None without a trend."""
    trend = answer.trend_of("mean_temperature") if "temperature" in answer.elements else None
    if not isinstance(trend, Trend):
        return None
    decimals = decimals_of(trend, 3)
    robust = f"{signed(trend.theil_sen_low, decimals)} to {signed(trend.theil_sen_high, decimals)}"
    return element(
        "p",
        f"Over {trend.count} complete years, {trend.years.first} to {trend.years.last}: "
        f"{signed(trend.slope, decimals)} °C per decade by ordinary least squares, 95 % interval "
        f"{interval_words(trend, decimals)}, widened for the autocorrelation of the years ({trend.lag1:.2f}, so that "
        f"they count as {trend.effective_count:.1f}). Theil-Sen's slope: {signed(trend.theil_sen, decimals)} "
        f"({robust}). Kendall's tau: {signed(trend.kendall_tau)} (p {p_text(trend.kendall_p)}).",
    )


def records_table(answer: ClimateAnswer) -> ET.Element:
    """The records with their dates."""
    rows = [
        (_capital(record.what), value_with_unit(record.value, record.unit, record.decimals), _when(record))
        for record in answer.records
    ]
    return table(f"Times are in {answer.days.offset_name}", ("Record", "Value", "When"), rows, class_="records")


def years_table(answer: ClimateAnswer) -> ET.Element:
    """The numbers of every year, collapsed; incomplete years are marked."""
    quantities = answer.quantities
    rows = []
    for year, values in answer.yearly.iterrows():
        complete = all(bool(values[f"{element_}_complete"]) for element_ in answer.elements)
        cells = [_number(quantity, float(values[quantity.name])) for quantity in quantities]
        rows.append((f"{year}" if complete else f"{year}*", *cells))
    headings = ("Year", *(_named(quantity) for quantity in quantities))
    made = table(
        "An asterisk: hours are missing, in at least one variable", headings, rows, class_="numbers", scrolls=True
    )
    return element("details", element("summary", f"The numbers of all {len(rows)} years"), made)


def _named(quantity: YearlyQuantity) -> str:
    unit = "" if quantity.unit == "days" else f", {unit_text(quantity.unit)}"
    return f"{_capital(quantity.label)}{unit}"


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _number(quantity: YearlyQuantity, value: float) -> str:
    return quantity.rounded(value).replace("-", "\u2212" if value == value else "\u2013")  # noqa: PLR0124  # NaN


def _when(record: Record) -> str:
    if not record.others:
        return record.when
    return f"{record.when}, and {record.others:,} more"


# --- How the page was made: ERA5, its months and versions, what is missing, the SQL, and the credits ---


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
    """Months and hours, their sources, their versions of ERA5, and the preliminary share."""
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
    """Names with their numbers of months, `cds (12), files (65)`; a single name without."""
    if len(months) == 1:
        return next(iter(months))
    return ", ".join(f"{name} ({count:,} months)" for name, count in sorted(months.items()))


def _list(lines: tuple[str, ...]) -> ET.Element:
    return element("ul", *(element("li", with_degrees(f"{line[:1].upper()}{line[1:]}")) for line in lines))


def _credits(answer: ClimateAnswer) -> ET.Element:
    """The credits that the licences require."""
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


# --- The page: one self-contained HTML file, without network access or scripts ---


# No scripts, no requests: a browser that reads this policy refuses both.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(answer: ClimateAnswer, path: Path, title: str | None = None) -> None:
    """Write the page of an answer, atomically; the same answer gives the same bytes. `title` replaces the heading.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    text = report_page(answer, title)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def report_page(answer: ClimateAnswer, title: str | None = None) -> str:
    """The page as text."""
    title = title or question(answer)
    what = "ERA5"
    if answer.provenance.notice:
        what = answer.provenance.notice.partition(":")[0]
        title = f"{what}: {title}"
    short, sentence = verdict(answer)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", **{"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        element("title", title),
        element("meta", name="description", content=f"{short} {sentence}"),
        element("style", Path(__file__).with_name("page.css").read_text(encoding="utf-8")),
    )
    top = element(
        "header",
        element("p", f"{what}, {answer.first:%Y-%m-%d} to {answer.last:%Y-%m-%d}", class_="place"),
        element("h1", title),
        element("p", element("strong", short), f" {sentence}", class_="answer"),
        *(element("p", caution, class_="caution", role="note") for caution in cautions(answer)),
    )
    main = element("main", top, *_sections(answer))
    footer = element("footer", element("p", f"{answer.provenance.credit}."))
    return document(element("html", head, element("body", main, footer), lang="en"))


def _sections(answer: ClimateAnswer) -> list[ET.Element]:
    """The sections, in order; those on temperature only if there is any."""
    found = []
    if "temperature" in answer.elements:
        heading, days = figures.this_year(answer)
        details = trend_details(answer)
        found += [
            _section("stripes", "Year by year", figures.stripes(answer), figures.anomalies(answer)),
            _section(
                "trends", "How much it changed", *([details] if details is not None else []), trends_table(answer)
            ),
            _section("this-year", heading, days),
            _section("days", "Hot days, nights and frost", figures.day_counts(answer)),
        ]
    else:
        found.append(_section("trends", "How much it changed", trends_table(answer)))
    found.append(_section("seasons", "The seasons", figures.seasons(answer)))
    rain = figures.precipitation(answer)
    if rain is not None:
        found.append(_section("rain", "Precipitation", rain))
    found += [
        _section("records", "Records", records_table(answer), years_table(answer)),
        _section(
            "cell",
            "Where the numbers are from",
            element("p", with_degrees(_described(answer))),
            figures.cell_map(answer),
        ),
        _section("method", "How this was made", *method_section(answer)),
    ]
    return found


def _described(answer: ClimateAnswer) -> str:
    """A sentence that says which grid points these are."""
    words = answer.place.description
    return f"{words[:1].upper()}{words[1:]}."


def _section(name: str, heading: str, *parts: ET.Element) -> ET.Element:
    return element("section", element("h2", heading, id=f"{name}-heading"), *parts, aria_labelledby=f"{name}-heading")
