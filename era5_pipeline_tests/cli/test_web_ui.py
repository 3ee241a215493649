"""The web UI in Chromium, followed as the README says: graph, backfill, map and climate of the months."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from era5_pipeline_tests.backfills import damaged, sample_files
from era5_pipeline_tests.cli.test_up import everything_up, free_port
from era5_pipeline_tests.commands import Home, new_home

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# No request to anyone but the web UI; as root Chromium has no sandbox.
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Among the last 120 months, which is what Dagster plots, but not the last 90 days, which the dialog shows at first.
RANGE = "[2024-01-01...2024-03-01]"
# A folder for screenshots; unset: none are made.
SCREENSHOTS = os.environ.get("ERA5_SCREENSHOTS")
# Where to write the README's picture of the graph; unset: it is not written.
PICTURE = os.environ.get("ERA5_GRAPH_PICTURE")


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        yield page
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_months_are_backfilled_and_seen_as_the_readme_says(home: Home, page: Page) -> None:
    """Three months of files, of which one is damaged: it fails alone, and is run again once it is mended."""
    expect.set_options(timeout=120_000)
    files = sample_files(home.path / "inbox", "2024-01", "2024-03")
    with everything_up(home, free_port(), ERA5_FILES_DIR=str(home.path / "inbox")) as web:
        with damaged(files[1]):
            page.goto(web.url)
            page.get_by_text("Lineage", exact=True).click()
            assert_graph_is_open(page)
            launch_backfill(page)
            wait_for_months(page, web.url, "weather", materialized=2, failed=1)
            assert list(home.months()) == ["2024-01", "2024-03"]
            assert_reason_is_read(page, web.url, files[1].name)
        run_failed_again(page, web.url)
        wait_for_months(page, web.url, "weather", materialized=3, failed=0)
        see(page, "all-loaded")
        if PICTURE:
            draw_graph(page, web.url, PICTURE)
        assert_map_is_seen(page, f"{web.url}/assets/era5/weather?view=partitions&partition=2024-01-01")
        assert_climate_is_plotted(page, f"{web.url}/assets/era5/weather")
    months = home.months()
    assert {month: entry["rows"] for month, entry in months.items()} == {
        "2024-01": 744 * 9,
        "2024-02": 696 * 9,
        "2024-03": 744 * 9,
    }


def see(page: Page, name: str) -> None:
    """Keep a screenshot, where a folder for them is named."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


def assert_reason_is_read(page: Page, url: str, file: str) -> None:
    """The page of the failed month leads to why it failed, in the words of the pipeline, with nothing to be opened."""
    page.goto(f"{url}/assets/era5/raw?view=partitions&partition=2024-02-01")
    expect(page.get_by_text("failed, and did not materialize this asset")).to_be_visible()
    see(page, "month-that-failed")
    # "View logs" leads there too, in a tab of its own.
    page.goto(url + str(page.locator("a[href*='/runs/']").first.get_attribute("href")))
    for words in (f"{file}: is a damaged ZIP", "Download it again."):
        shown = page.get_by_text(words).first
        shown.scroll_into_view_if_needed()  # the log is longer than the window
        expect(shown).to_be_visible()
    see(page, "reason-of-the-failure")


def run_failed_again(page: Page, url: str) -> None:
    """Select the failed months in the dialog, and launch them."""
    page.goto(f"{url}/asset-groups")
    page.get_by_role("button", name="Materialize all").click()
    page.get_by_text("Show all partitions").click()
    page.get_by_role("button", name="Failed", exact=True).click()
    expect(page.get_by_text("1 partition", exact=True)).to_be_visible()
    see(page, "failed-months-selected")
    page.get_by_role("button", name="Launch 1 run").click()
    # Left at once, the page would take its request with it.
    expect(page.get_by_role("button", name="Launch 1 run")).to_have_count(0)


def assert_graph_is_open(page: Page) -> None:
    """Each asset is a box of its own with its checks: not a group, which says only how many it holds."""
    # A folded group hides what it holds; the kinds are shown below an asset's own box only.
    expect(page.get_by_text("Asset checks")).to_have_count(4)
    for kind in ("netcdf", "Parquet", "Postgres"):
        expect(page.get_by_text(kind, exact=True).first).to_be_visible()


def launch_backfill(page: Page) -> None:
    page.get_by_role("button", name="Materialize all").click()
    # Without this the dialog knows the last 90 days only: "Could not find partitions for provided range".
    page.get_by_text("Show all partitions").click()
    box = page.get_by_placeholder("ex: 1940-01-01")
    box.fill(RANGE)
    box.press("Enter")
    expect(page.get_by_text("3 partitions", exact=True)).to_be_visible()
    see(page, "backfill-dialog")
    page.get_by_role("button", name="Launch backfill").click()
    expect(page.get_by_role("button", name="Launch backfill")).to_have_count(0)


def wait_for_months(page: Page, url: str, asset: str, *, materialized: int, failed: int) -> None:
    """Wait until the asset's page counts so many months."""
    until = time.monotonic() + 900
    while time.monotonic() < until:
        page.goto(f"{url}/assets/era5/{asset}?view=partitions")
        expect(page.get_by_text("Missing (")).to_be_visible()
        counts = (f"Materialized ({materialized})", f"Failed ({failed})")
        if all(page.get_by_text(count).count() for count in counts):
            see(page, f"months-{materialized}-materialized-{failed}-failed")
            return
        time.sleep(2)
    see(page, "too-late")
    pytest.fail(f"not {' and '.join(counts)} within 900 s: {page.locator('body').inner_text()[:2000]}")


def assert_map_is_seen(page: Page, url: str) -> None:
    page.goto(url)
    picture = page.get_by_role("img", name="map", exact=True)
    expect(picture).to_be_visible()
    # Loaded by the browser, at the size of the preview: a broken image has no natural size.
    assert picture.evaluate("image => [image.complete, image.naturalWidth]") == [True, 360]
    for name in ("average temperature_2m [degC]", "average total_precipitation [mm/day]"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    assert page.get_by_text("workers", exact=True).count() == 0


def assert_climate_is_plotted(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Plots").click()
    plot = page.get_by_text("average temperature_2m [degC]", exact=True)
    expect(plot).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    for name in ("average total_precipitation [mm/day]", "seconds"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    for name in ("workers", "rows_per_second", "verify_seconds", "kept_locations"):
        expect(page.get_by_text(name, exact=True)).to_have_count(0)


def draw_graph(page: Page, url: str, path: str) -> None:
    """Write the README's picture of the graph."""
    page.set_viewport_size({"width": 1440, "height": 700})
    page.goto(f"{url}/asset-groups")
    assert_graph_is_open(page)
    page.wait_for_timeout(2000)
    page.screenshot(path=path, clip={"x": 595, "y": 230, "width": 790, "height": 150})
