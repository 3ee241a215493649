"""The page: one HTML file with everything in it, that asks no network and runs no script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.query.report import page_figures
from era5_pipeline.query.report.elements import document, element
from era5_pipeline.query.report.method_section import method_section
from era5_pipeline.query.report.page_tables import records_table, trend_details, trends_table, years_table
from era5_pipeline.query.report.page_words import cautions, question, verdict, with_degrees
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

# No script, no request: a browser that reads this would refuse both.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(answer: ClimateAnswer, path: Path, title: str | None = None) -> None:
    """Write the page of an answer, atomically; the same answer gives the same bytes. `title` replaces its question.

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
    """The sections, in order; those of temperature only if there is any."""
    found = []
    if "temperature" in answer.elements:
        heading, days = page_figures.this_year(answer)
        details = trend_details(answer)
        found += [
            _section("stripes", "Year by year", page_figures.stripes(answer), page_figures.anomalies(answer)),
            _section(
                "trends", "How much it changed", *([details] if details is not None else []), trends_table(answer)
            ),
            _section("this-year", heading, days),
            _section("days", "Hot days, nights and frost", page_figures.day_counts(answer)),
        ]
    else:
        found.append(_section("trends", "How much it changed", trends_table(answer)))
    found.append(_section("seasons", "The seasons", page_figures.seasons(answer)))
    rain = page_figures.precipitation(answer)
    if rain is not None:
        found.append(_section("rain", "Precipitation", rain))
    found += [
        _section("records", "Records", records_table(answer), years_table(answer)),
        _section(
            "cell",
            "Where the numbers are from",
            element("p", with_degrees(_described(answer))),
            page_figures.cell_map(answer),
        ),
        _section("method", "How this was made", *method_section(answer)),
    ]
    return found


def _described(answer: ClimateAnswer) -> str:
    """Which points these are, as a sentence."""
    words = answer.place.description
    return f"{words[:1].upper()}{words[1:]}."


def _section(name: str, heading: str, *parts: ET.Element) -> ET.Element:
    return element("section", element("h2", heading, id=f"{name}-heading"), *parts, aria_labelledby=f"{name}-heading")
