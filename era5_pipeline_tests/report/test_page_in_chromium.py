"""The page, and that of the routes, in Chromium, without network and JavaScript, as seen at phone and desk width."""

from __future__ import annotations

import io
import os
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.report.page import write_page
from era5_pipeline.serving.application import make_app
from era5_pipeline.serving.route_page import route_page
from era5_pipeline_tests.climate.tamar import tamar_hours
from era5_pipeline_tests.climate_answers import answer_of, made_hours, mekong_answer, tamar_answer, tamar_years

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Seen = Callable[[str, tuple[int, int]], tuple[Page, list[str]]]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# A folder for screenshots; unset: none are made.
SCREENSHOTS = os.environ.get("ERA5_SCREENSHOTS")
# Where to write the README's picture; unset: it is not written.
PICTURE = os.environ.get("ERA5_REPORT_PICTURE")
PHONE, DESK = (360, 800), (1280, 900)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        expect.set_options(timeout=120_000)  # on a busy machine a page takes more than 5 s
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real pages of five years and of thirty, and one of a long name and 85 years."""
    folder = tmp_path_factory.mktemp("pages")
    answers = {
        "mekong": mekong_answer(),
        "tamar": tamar_answer(tamar_years()),
        "long": answer_of(
            made_hours(range(1940, 2025), without=[1962]),
            name="Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch, United Kingdom",
            at=(53.25, -4.25),
        ),
    }
    for name, answer in answers.items():
        write_page(answer, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in answers}


def opened(browser: Browser, path: Path, size: tuple[int, int], *, dark: bool = False) -> tuple[Page, list[str]]:
    """The page in a browser without network and scripts, and the addresses that it asked for."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        java_script_enabled=False,
        offline=True,
        color_scheme="dark" if dark else "light",
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    return page, asked


@pytest.fixture(scope="module")
def seen(browser: Browser, pages: dict[str, Path]) -> Seen:
    """As `opened`, of a name and a size, each of them once, for tests that change nothing on it but scroll."""
    return cache(lambda name, size: opened(browser, pages[name], size))


def see(page: Page, name: str) -> None:
    """Keep a screenshot of the whole page, where a folder for them is named."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", ["mekong", "tamar", "long"])
def test_everything_is_seen_without_network_and_scripts(
    seen: Seen, pages: dict[str, Path], name: str, size: tuple[int, int]
) -> None:
    page, asked = seen(name, size)
    see(page, f"report-{name}-{size[0]}")
    assert asked == [pages[name].as_uri()]
    answer = {"mekong": "No answer yet.", "tamar": "Not clearly.", "long": "Yes."}[name]
    expect(page.locator(".answer strong")).to_have_text(answer)
    expect(page.locator(".answer")).to_be_visible()
    if name == "mekong":
        expect(page.get_by_text("Five complete years are not a climate")).to_be_visible()
    # One of each pair of pictures is shown, and fills its column: 6 of them, and the map.
    shown = page.locator("svg.drawn:visible")
    assert shown.count() == 7
    for number in range(shown.count()):
        box = shown.nth(number).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["width"] > 0.85 * min(size[0], 416)
        assert box["height"] > 60
    assert page.locator(f".{'phone' if size == PHONE else 'desk'}:visible").count() == 6
    # No scrolling sideways: the body is as wide as the window.
    for part in ("body", "main", "footer"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= size[0]
    page.keyboard.press("End")
    page.mouse.wheel(400, 0)
    top = page.locator("h1").bounding_box()
    assert top is not None
    assert top["x"] >= 0


# For each visible picture: its texts, and the rectangle of each. Asked for at once: one by one, each of several
# hundred texts takes a few messages. The page's own scripts stay off.
TEXTS_OF_PICTURES = """
    () => [...document.querySelectorAll("svg.drawn")]
        .filter(picture => picture.getBoundingClientRect().width > 0)
        .map(picture => [...picture.querySelectorAll("text")]
            .map(text => [text.textContent, text.getBoundingClientRect().toJSON()])
            .filter(([words, box]) => words.trim() && box.width > 0))
"""


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_letters_in_pictures_are_large_enough_and_do_not_overlap(
    seen: Seen, pages: dict[str, Path], size: tuple[int, int]
) -> None:
    for name in pages:
        page, _ = seen(name, size)
        pictures: list[list[tuple[str, dict[str, float]]]] = page.evaluate(TEXTS_OF_PICTURES)
        assert len(pictures) == 7
        for words in pictures:
            assert words
            for number, (word, box) in enumerate(words):
                # A turned label is as wide as a line is high.
                assert min(box["height"], max(box["width"], 9)) >= 9, (name, word, box)
                assert box["x"] >= 0, (name, word)
                assert box["x"] + box["width"] <= size[0], (name, word)
                for other, another in words[number + 1 :]:
                    across = min(box["x"] + box["width"], another["x"] + another["width"]) - max(box["x"], another["x"])
                    down = min(box["y"] + box["height"], another["y"] + another["height"]) - max(box["y"], another["y"])
                    assert across <= 1 or down <= 4, (name, word, other)


def test_years_unfold_and_scroll_in_their_own_box_without_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["long"], PHONE)
    numbers = page.locator("table.numbers")
    expect(numbers).not_to_be_visible()
    page.get_by_text("The numbers of all 85 years").click()
    expect(numbers).to_be_visible()
    box = page.locator(".scrolls").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= PHONE[0]
    expect(page.get_by_role("rowheader", name="1940", exact=True)).to_be_visible()
    page.context.close()


def test_the_dark_page_is_dark_and_its_letters_are_bright(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["tamar"], DESK, dark=True)
    see(page, "report-tamar-dark")
    light, _ = opened(browser, pages["tamar"], DESK)
    assert mean_brightness(page) < 90
    assert mean_brightness(light) > 190
    page.context.close()
    light.context.close()


def mean_brightness(page: Page) -> float:
    """That of the lower half of the first window, where the anomalies are."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("L")
    return float(np.asarray(picture)[450:].mean())


def test_it_prints_on_paper(seen: Seen) -> None:
    page, _ = seen("tamar", DESK)
    paper = page.pdf(format="A4", margin={"top": "15mm", "bottom": "15mm", "left": "15mm", "right": "15mm"})
    assert paper.startswith(b"%PDF")
    # Several sheets, each picture on one.
    assert 3 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") <= 12


def test_thirty_real_years_in_pictures(browser: Browser, tmp_path: Path) -> None:
    """All hours at the Tamar, where ERA5_SAMPLES has them; ERA5_REPORT_PICTURE is where the README's picture goes."""
    path = tmp_path / "tamar.html"
    write_page(tamar_answer(tamar_hours(tmp_path)), path)
    for size in (PHONE, DESK):
        page, _ = opened(browser, path, size)
        see(page, f"report-real-{size[0]}")
        assert page.locator("svg.drawn:visible").count() == 7
        page.context.close()
    if PICTURE:
        page, _ = opened(browser, path, (832, 930))
        page.screenshot(path=PICTURE)
        with Image.open(PICTURE) as shot:
            reduced = shot.convert("RGB").quantize(192, Image.Quantize.MEDIANCUT)
        reduced.save(PICTURE, optimize=True)
        page.context.close()


# The words of tables and code that are on more than one line.
SPLIT_WORDS = r"""
    () => [...document.querySelectorAll("td, th, p code")].flatMap(cell => {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), split = [];
        while (texts.nextNode())
            for (const word of texts.currentNode.data.matchAll(/\w+/g)) {
                const range = document.createRange();
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map(line => line.top)).size > 1) split.push(word[0]);
            }
        return split;
    })
"""


def test_the_page_of_the_routes_splits_no_word_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    app = make_app(Warehouse("postgresql://nobody@192.0.2.1:1/era5"))
    (tmp_path / "routes.html").write_bytes(route_page(app.openapi()))
    page, _ = opened(browser, tmp_path / "routes.html", PHONE)
    see(page, "routes-360")
    assert page.locator("td").count() > 50
    assert page.evaluate(SPLIT_WORDS) == []
    # What is wider than the window scrolls in its own box.
    for part in ("body", "main"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= PHONE[0]
    page.context.close()
