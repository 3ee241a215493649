"""HTML as a tree of elements, so that every text is escaped when the tree is written.

Here: making elements and writing a document. Not here: which elements a page has (`report_page`), or its figures
(`climate_plots.inline_svg`, which gives elements too).
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterable

Child = str | ET.Element

# They would turn the text of the page that follows, too.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def element(tag: str, *children: Child, **attributes: str) -> ET.Element:
    """An element with texts and elements in it; `class_` is the attribute class, `aria_label` is aria-label."""
    made = ET.Element(tag, {name.rstrip("_").replace("_", "-"): drawable(text) for name, text in attributes.items()})
    return extend(made, children)


def extend(parent: ET.Element, children: Iterable[Child]) -> ET.Element:
    """Add texts and elements at the end of an element, and return it."""
    for child in children:
        if isinstance(child, ET.Element):
            parent.append(child)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + drawable(child)
        else:
            parent.text = (parent.text or "") + drawable(child)
    return parent


def drawable(text: str) -> str:
    """The text without control characters, lone surrogates and marks of direction, which no page may hold."""
    return "".join(one if one == "\n" or not _is_banned(one) else "\ufffd" for one in text)


def _is_banned(one: str) -> bool:
    return unicodedata.category(one) in {"Cc", "Cs"} or one in _DIRECTIONS


def table(
    caption: str, headings: Iterable[str], rows: Iterable[Iterable[Child]], *, class_: str = "", scrolls: bool = False
) -> ET.Element:
    """A table whose first column names its rows; one that `scrolls` is in a box of its own, if it is too wide."""
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    body = element("tbody")
    for row in rows:
        first, *others = row
        body.append(element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in others)))
    attributes = {"class_": class_} if class_ else {}
    made = element("table", element("caption", caption), element("thead", head), body, **attributes)
    # A box that scrolls must be reachable by the keyboard.
    return element("div", made, class_="scrolls", tabindex="0", role="region", aria_label=caption) if scrolls else made


def document(root: ET.Element) -> str:
    """The whole document as text: HTML5."""
    return "<!DOCTYPE html>\n" + ET.tostring(root, encoding="unicode", method="html") + "\n"
