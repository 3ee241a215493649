"""A figure inside a page: unique ids, no namespaces, names for readers that do not see it, the same bytes."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from era5_pipeline.draw.climate_axes import NARROW, WIDE
from era5_pipeline.draw.climate_years import anomaly_figure, stripes_figure
from era5_pipeline.report.figures import inline_svg
from era5_pipeline_tests.climate_answers import mekong_answer


def drawn(name: str = "stripes", tips: dict[str, str] | None = None, width: float = NARROW) -> ET.Element:
    figure = stripes_figure(mekong_answer(), width)
    assert figure is not None
    return inline_svg(figure, name, "Stripes & more", "A < B", tips)


def test_ids_begin_with_the_name_and_every_reference_has_one() -> None:
    figure = anomaly_figure(mekong_answer(), WIDE)
    assert figure is not None
    root = inline_svg(figure, "bars-desk", "Bars")
    ids = [part.attrib["id"] for part in root.iter() if "id" in part.attrib]
    assert len(ids) == len(set(ids))
    assert all(one.startswith("bars-desk-") for one in ids)
    text = ET.tostring(root, encoding="unicode")
    referred = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert referred
    assert referred <= set(ids)


def test_it_has_names_and_tooltips_as_text() -> None:
    root = drawn(tips={"year-2020": "2020 <warm> & dry"})
    assert (root.tag, root.get("role"), root.get("viewBox")) == ("svg", "img", f"0 0 {NARROW * 72:g} {1.35 * 72:g}")
    assert (root[0].tag, root[0].text) == ("title", "Stripes & more")
    assert (root[1].tag, root[1].text) == ("desc", "A < B")
    assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    (stripe,) = [part for part in root.iter() if part.get("id") == "stripes-year-2020"]
    assert (stripe[0].tag, stripe[0].text) == ("title", "2020 <warm> & dry")
    text = ET.tostring(root, encoding="unicode")
    assert "2020 &lt;warm&gt; &amp; dry" in text
    # Years are text, so that they can be read aloud, searched and copied.
    assert {"2020", "2024"} <= {part.text for part in root.iter("text")}


def test_nothing_of_it_refers_outside_or_is_a_style_of_the_whole_page() -> None:
    text = ET.tostring(drawn(), encoding="unicode")
    assert "://" not in text
    assert "<style" not in text
    assert "metadata" not in text
    assert "xmlns" not in text


def test_text_has_the_colours_of_the_page() -> None:
    text = ET.tostring(drawn(), encoding="unicode")
    assert "var(--ink)" in text
    assert "#1a1a1a" not in text
