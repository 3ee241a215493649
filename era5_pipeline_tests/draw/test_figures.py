"""Titles that fit, and files of every format that are the same each time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import time_machine

from era5_pipeline.draw.climate_years import climate_picture
from era5_pipeline.draw.figures import new_figure, print_credit, print_notes, require_drawable, save_figure
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.climate_answers import mekong_answer
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, usual_field

if TYPE_CHECKING:
    from pathlib import Path

BEGINNINGS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg", "PDF"])
def test_the_suffix_is_the_format_and_files_are_the_same_on_another_day(suffix: str, tmp_path: Path) -> None:
    shown = usual_field("60/-5/50/10", KINDS["k_index"])
    written = []
    for number, day in enumerate((datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 5, 5, tzinfo=UTC))):
        path = tmp_path / f"{number}" / f"map.{suffix}"
        path.parent.mkdir()
        with time_machine.travel(day, tick=False):
            save_figure(draw_map(shown, credit="a credit line").figure, path)
        written.append(path.read_bytes())
    assert written[0].startswith(BEGINNINGS[suffix.lower()])
    assert written[0] == written[1]
    assert not re.search(rb"CreationDate|ModDate|<dc:date>|202[06]-", written[0])
    assert len(written[0]) < 1_500_000


def test_letters_of_a_pdf_are_truetype(tmp_path: Path) -> None:
    field = usual_field("60/-5/50/10", KINDS["k_index"])
    save_figure(draw_map(field, credit="a credit line, 10⁶ m s⁻¹").figure, tmp_path / "map.pdf")
    save_figure(climate_picture(mekong_answer()), tmp_path / "climate.pdf")
    for path in tmp_path.iterdir():
        fonts = re.findall(rb"/Type /Font\b[^>]*/Subtype /(\w+)|/Subtype /(\w+)[^>]*/Type /Font\b", path.read_bytes())
        found = {first or second for first, second in fonts}
        assert b"TrueType" in found or b"CIDFontType2" in found, path
        assert b"Type3" not in found
        assert b"/Type3" not in path.read_bytes()


def test_another_suffix_writes_nothing(tmp_path: Path) -> None:
    shown = usual_field("60/-5/50/10", KINDS["k_index"])
    for name in ("map.jpg", "map", "map.png.gz"):
        with pytest.raises(
            UsageError, match=r"PNG, PDF or SVG files\nGive a file name that ends with \.png, \.pdf, \.svg"
        ):
            save_figure(draw_map(shown).figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [60, 100, 2000])
def test_a_long_title_is_made_to_fit(length: int) -> None:
    figure = draw_map(usual_field("60/-5/50/10", KINDS["k_index"]), title="Thunder " * (length // 8)).figure
    figure.canvas.draw()
    assert figure.texts[0].get_window_extent().x1 <= figure.get_window_extent().width
    assert float(figure.texts[0].get_fontsize()) >= 7.0
    assert figure.texts[0].get_text().endswith("\u2026") == (length == 2000)


def test_a_title_that_the_font_lacks_is_refused() -> None:
    assert require_drawable("  Größte Böe,\n Ελλάδα ", "--title") == "Größte Böe, Ελλάδα"
    with pytest.raises(UsageError, match=r"--title: the font of pictures lacks '\\u6c17' '\\u6e29'"):
        require_drawable("気温気", "--title")


@pytest.mark.parametrize("width", [5.0, 7.0, 10.0])
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_a_long_credit_is_whole_within_the_figure_and_below_the_notes(width: float, repeats: int) -> None:
    words = " ".join(["Contains modified information 2024 (partly preliminary, ERA5T: 2024-10)"] * repeats)
    figure = new_figure(width, 3.0)
    print_notes(figure, 0.6, ["a note"])
    print_credit(figure, 0.6, words)
    note, credit = figure.texts
    assert " ".join(credit.get_text().split()) == words
    of_note, of_credit = note.get_window_extent(), credit.get_window_extent()
    assert 0 <= of_credit.y0 < of_credit.y1 <= of_note.y0 + 1
    assert of_credit.x1 <= width * figure.dpi
