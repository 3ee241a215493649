"""The common parts of the server's pages: the frame, the style of `era5 report`, and texts with code in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.query import report
from era5_pipeline.query.report.elements import document, element

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    from era5_pipeline.query.report.elements import Child

HTML_TYPE = "text/html; charset=utf-8"
# No script, nothing from a network; a form asks this server only.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
_STYLE = Path(report.__file__).with_name("page.css")


def framed(title: str, *children: Child) -> bytes:
    """A page with this title and these parts, as UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _STYLE.read_text(encoding="utf-8")),
    )
    links = element("p", element("a", "Start", href="/"), " · ", element("a", "Routes", href="/docs"))
    main = element("main", element("h1", title), *children)
    page = element("html", head, element("body", main, element("footer", links)), lang="en")
    return document(page).encode("utf-8", "replace")


def paragraphs(text: str) -> list[ET.Element]:
    """The paragraphs of a docstring, with what is in backticks as code."""
    return [with_code("p", " ".join(part.split())) for part in text.strip().split("\n\n") if part.strip()]


def with_code(tag: str, text: str) -> ET.Element:
    """An element of this text, in which what is in backticks is code."""
    pieces = text.split("`")
    return element(tag, *(element("code", piece) if index % 2 else piece for index, piece in enumerate(pieces)))
