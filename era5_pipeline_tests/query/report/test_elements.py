"""Elements of HTML: texts and attributes are escaped, whatever they hold."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.query.report.elements import document, element, table


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


def test_texts_and_elements_stay_in_order() -> None:
    made = element("p", "Of ", element("strong", "five"), " years", element("br"), "none", class_="answer")
    assert document(made) == ('<!DOCTYPE html>\n<p class="answer">Of <strong>five</strong> years<br>none</p>\n')


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a & b", '"quoted"', "'", "]]>", "<!--"])
def test_markup_in_texts_is_text(text: str) -> None:
    read = Reader(document(element("p", text, title=text)))
    assert read.tags == ["p"]
    assert "".join(read.texts).strip() == text
    assert read.attributes == [("title", text)]


@given(st.text())
def test_any_text_can_be_written_and_holds_no_tag(text: str) -> None:
    written = document(element("p", text, title=text))
    assert Reader(written.encode("utf-8").decode("utf-8")).tags == ["p"]
    assert "\x00" not in written


def test_a_table_names_its_rows_and_columns() -> None:
    made = document(table("Highest", ("Record", "Value"), [("hottest hour", "38 °C")], scrolls=True))
    assert '<th scope="col">Record</th>' in made
    assert '<th scope="row">hottest hour</th><td>38 °C</td>' in made
    # A box that scrolls is reached by the keyboard.
    assert '<div class="scrolls" tabindex="0" role="region" aria-label="Highest">' in made
