"""Tests of `report/html`."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.report.html import page_environment
from era5_pipeline_tests.report.test_page import Page

PAGES = page_environment()
PARAGRAPH = PAGES.from_string('<p title="{{ text }}">{{ text }}</p>')


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a & b", '"quoted"', "'", "]]>", "<!--"])
def test_markup_in_texts_is_text(text: str) -> None:
    read = Page(PARAGRAPH.render(text=text))
    assert read.text == text
    assert read.elements == [("p", {"title": text})]


@given(st.text())
def test_any_text_can_be_written_and_holds_no_tag(text: str) -> None:
    written = PARAGRAPH.render(text=text)
    assert [tag for tag, _ in Page(written.encode("utf-8").decode("utf-8")).elements] == ["p"]
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
