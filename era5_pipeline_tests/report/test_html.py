"""Tests of `report/html`."""

from __future__ import annotations

from html.parser import HTMLParser

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.report.html import page_environment

PAGES = page_environment()
PARAGRAPH = PAGES.from_string('<p title="{{ text }}">{{ text }}</p>')


class Reader(HTMLParser):
    """What a browser would make of a document: its tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a & b", '"quoted"', "'", "]]>", "<!--"])
def test_markup_in_texts_is_text(text: str) -> None:
    read = Reader(PARAGRAPH.render(text=text))
    assert read.tags == ["p"]
    assert "".join(read.texts).strip() == text
    assert read.attributes == [("title", text)]


@given(st.text())
def test_any_text_can_be_written_and_holds_no_tag(text: str) -> None:
    written = PARAGRAPH.render(text=text)
    assert Reader(written.encode("utf-8").decode("utf-8")).tags == ["p"]
    assert "\x00" not in written


def test_what_a_template_lacks_is_an_error_and_no_empty_text() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'txt' is undefined"):
        PAGES.from_string("<p>{{ txt }}</p>").render(text="")


def test_a_table_names_its_rows_and_columns() -> None:
    made = PAGES.from_string(
        '{% from "parts.html" import rows, table %}'
        '{% call table("Highest", ["Record", "Value"], scrolls=true) %}{{ rows(found) }}{% endcall %}'
    ).render(found=[("hottest <hour>", "38 °C")])
    assert '<th scope="col">Record</th>' in made
    assert '<th scope="row">hottest &lt;hour&gt;</th><td>38 °C</td>' in made
    # A box that scrolls is reached by the keyboard.
    assert '<div class="scrolls" tabindex="0" role="region" aria-label="Highest">' in made
