"""A figure as an SVG element of an HTML page: small, named, with tooltips, and in the colours of the page.

Makes the element from a figure that is drawn elsewhere; the page is in `report`.

Text stays text, in the page's font. Colours of text and bands become variables such as `var(--ink)`, which the page
sets for light and dark. All ids begin with the name of the figure, so that a page can hold several.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import matplotlib as mpl

from era5_pipeline.draw.climate_axes import BAND, EXTREMES
from era5_pipeline.maps.fields import FAINT, INK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font-family: [^;]+;? ?")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")
# Colours of the drawing, and their names in the page.
PAGE_COLOURS = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    "#ffffff": "var(--paper)",
    BAND: "var(--band)",
    EXTREMES: "var(--extremes)",
}


def inline_svg(
    figure: Figure, name: str, title: str, description: str = "", tips: Mapping[str, str] | None = None
) -> ET.Element:
    """The figure as an `svg` element, with a title for screen readers.

    `name` begins all of its ids. `tips` are tooltips, by the gid of their parts of the figure.
    """
    root = _parsed(figure)
    for parent in root.iter():
        for child in [child for child in parent if child.tag in {"metadata", "style"}]:
            parent.remove(child)
    for part in root.iter():
        tip = (tips or {}).get(part.get("id", ""))
        _rename(part, name)
        if tip is not None:
            part.insert(0, _text("title", tip))
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("class", "drawn")
    root.set("aria-labelledby", f"{name}-title" + (f" {name}-description" if description else ""))
    if description:
        root.insert(0, _text("desc", description, id=f"{name}-description"))
    root.insert(0, _text("title", title, id=f"{name}-title"))
    return root


def _parsed(figure: Figure) -> ET.Element:
    """The figure's SVG without namespaces, which HTML does not have."""
    file = io.StringIO()
    # Transparent: the page's background shows through.
    figure.patch.set_alpha(0.0)
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314  # written a few lines above
    for part in root.iter():
        part.tag = part.tag.removeprefix(_SVG)
        if _HREF in part.attrib:
            part.set("href", part.attrib.pop(_HREF))
        part.tail = None
        if part.tag != "text":
            part.text = None
    return root


def _rename(part: ET.Element, name: str) -> None:
    """Begin ids and references to them with `name`, name colours as the page does, and shorten numbers."""
    for key, value in part.attrib.items():
        if key == "id":
            part.set(key, f"{name}-{value}")
        elif key == "href":
            part.set(key, f"#{name}-{value.removeprefix('#')}")
        else:
            part.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", _coloured(value)))
        if key in {"d", "transform", "x", "y", "width", "height"}:
            short = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", part.attrib[key])
            part.set(key, " ".join(_NO_TURN.sub("", short).split()))
        if key == "style":
            part.set(key, _FONT.sub("", part.attrib[key]))


def _coloured(value: str) -> str:
    for colour, variable in PAGE_COLOURS.items():
        value = value.replace(colour, variable)
    return value


def _text(tag: str, text: str, **attributes: str) -> ET.Element:
    made = ET.Element(tag, attributes)
    made.text = text
    return made
