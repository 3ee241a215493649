"""The web UI in Chromium, followed as docs/web-ui.md says: graph, backfill, map and climate of the months."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from era5_pipeline_tests.backfills import damaged, sample_files, wait_until
from era5_pipeline_tests.cli.test_up import LAUNCH, WebUI, everything_up
from era5_pipeline_tests.local_http import LocalServer
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.commands import Home

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
# No request to anyone but the web UI; as root Chromium has no sandbox.
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
# Among the last 120 months, which is what Dagster plots, but not the last 90 days, which the dialog shows at first.
RANGE = "[2024-01-01...2024-03-01]"
LAUNCHED = {
    "parameters": {
        "selector": {
            "repositoryLocationName": "era5_pipeline",
            "repositoryName": "__repository__",
            "jobName": "load_month",
        },
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": "2024-01-01"}]},
    }
}
# Traces of a successful attack: runs, and reported materializations.
TRACES = """{
  runsOrError { ... on Runs { results { runId } } }
  assetsOrError { ... on AssetConnection { nodes { assetMaterializations(limit: 1) { timestamp } } } }
}"""
BACKFILLS = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { status } } } }"
NO_TRACES = {"runs": 0, "materializations": 0}
ATTACKS = Path(__file__).with_name("attacks.html")
# A folder for screenshots; unset: none are made.
SCREENSHOTS = os.environ.get("ERA5_SCREENSHOTS")
# Where to write the picture of the graph in docs/web-ui.md; unset: it is not written.
PICTURE = os.environ.get("ERA5_GRAPH_PICTURE")


@pytest.fixture(scope="module")
def web(home: Home) -> Iterator[WebUI]:
    """What `era5 up` serves, with an empty folder for the source `files`."""
    (home.path / "inbox").mkdir()
    with everything_up(home, free_port(), ERA5_FILES_DIR=str(home.path / "inbox")) as web:
        yield web


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)  # on a busy machine a page takes more than 5 s
        yield page
        browser.close()


@pytest.mark.parametrize("site", ["evil.example", "localhost"])
def test_a_page_of_another_site_cannot_start_a_run(web: WebUI, page: Page, site: str) -> None:
    """Every request that a browser sends for such a page without asking the server first; a link still opens the UI."""
    with another_site(web.url) as port:
        page.goto(f"http://{site}:{port}/attack")
        expect(page.locator("#done")).to_have_text("done")
        assert traces(web) == NO_TRACES
        assert json.loads(page.locator("#answers").inner_text()) == {"socket": "refused", "read": "refused"}
        page.goto(f"http://{site}:{port}/link")
        page.get_by_text("the web UI").click()
        expect(page.get_by_text("Lineage", exact=True)).to_be_visible()
    see(page, f"link-from-{site}")


def test_a_name_that_was_led_to_this_machine_is_refused(web: WebUI, page: Page) -> None:
    """DNS rebinding: the browser takes the web UI for the attacker's own server."""
    port = urlsplit(web.url).port
    answer = page.goto(f"http://evil.example:{port}/")
    assert answer is not None
    assert answer.status == 421
    assert "does not answer to the name evil.example" in answer.text()
    see(page, "name-of-another-site")
    status = page.evaluate(
        """async body => (await fetch("/graphql", {method: "POST", body: body,
             headers: {"Content-Type": "application/json"}})).status""",
        json.dumps({"query": LAUNCH, "variables": LAUNCHED}),
    )
    assert status == 421
    assert traces(web) == NO_TRACES


def test_months_are_backfilled_and_seen_as_the_readme_says(home: Home, web: WebUI, page: Page) -> None:
    """Three months of files, of which one is damaged: it fails alone, and is run again once it is mended."""
    files = sample_files(home.path / "inbox", "2024-01", "2024-03")
    with damaged(files[1]):
        page.goto(web.url)
        open_group(page, "era5")
        launch_backfill(page)
        wait_for_months(page, web.url, "weather", materialized=2, failed=1)
        wait_until("the backfill has ended", lambda: backfill_states(web) == ["COMPLETED_FAILED"])
        assert_reason_is_read(page, web.url, files[1].name)
    run_failed_again(page, web.url)
    wait_for_months(page, web.url, "weather", materialized=3, failed=0)
    see(page, "all-loaded")
    if PICTURE:
        draw_graph(page, web.url, PICTURE)
    assert_map_is_seen(page, f"{web.url}/assets/era5/weather?view=partitions&partition=2024-01-01")
    assert_climate_is_plotted(page, f"{web.url}/assets/era5/weather")
    months = home.months()
    assert {month: (entry["state"], entry["rows"]) for month, entry in months.items()} == {
        "2024-01": ("loaded", 744 * 9),
        "2024-02": ("loaded", 696 * 9),
        "2024-03": ("loaded", 744 * 9),
    }


@contextmanager
def another_site(ui: str) -> Iterator[int]:
    """A site on a port of its own, with a page that attacks the web UI and one that links to it; yields the port."""
    question = urlencode({"query": LAUNCH, "variables": json.dumps(LAUNCHED)})
    body = json.dumps({"query": LAUNCH, "variables": LAUNCHED})
    attack = ATTACKS.read_text(encoding="utf-8")
    for name, value in (("UI", ui), ("QUESTION", question), ("BODY", body)):
        attack = attack.replace(f'"{name}"', json.dumps(value))
    pages = {"/attack": attack, "/link": f'<a href="{ui}/runs">the web UI</a>'}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = pages.get(self.path, "").encode()
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with LocalServer(("127.0.0.1", 0), Pages) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def traces(web: WebUI) -> dict[str, int]:
    found = web.ask(TRACES)
    materialized = [len(node["assetMaterializations"]) for node in found["assetsOrError"]["nodes"]]
    return {"runs": len(found["runsOrError"]["results"]), "materializations": sum(materialized)}


def backfill_states(web: WebUI) -> list[str]:
    return [backfill["status"] for backfill in web.ask(BACKFILLS)["partitionBackfillsOrError"]["results"]]


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
    page.goto(url)
    open_group(page, "era5")
    page.get_by_role("button", name="Materialize all").click()
    page.get_by_text("Show all partitions").click()
    page.get_by_role("button", name="Failed", exact=True).click()
    expect(page.get_by_text("1 partition", exact=True)).to_be_visible()
    see(page, "failed-months-selected")
    launch(page, "Launch 1 run")


def open_group(page: Page, name: str) -> None:
    """Show the assets of one data set: each is a box of its own with its checks."""
    page.get_by_text("Lineage", exact=True).click()
    page.locator(".CodeMirror").first.click()
    page.keyboard.type(f"group:{name}")
    page.keyboard.press("Enter")
    # A folded group hides what it holds; the kinds are shown below an asset's own box only.
    expect(page.get_by_text("Asset checks")).to_have_count(3)
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
    launch(page, "Launch backfill")


def launch(page: Page, button: str) -> None:
    """Press the button, and wait for the server's answer: a page that is left earlier takes its request with it."""
    with page.expect_response(lambda answer: '"operationName":"Launch' in (answer.request.post_data or "")) as launched:
        page.get_by_role("button", name=button).click()
    assert launched.value.ok


def wait_for_months(page: Page, url: str, asset: str, *, materialized: int, failed: int) -> None:
    """Wait until the asset's page counts that many months."""
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
    """Write the picture of the graph for docs/web-ui.md."""
    page.set_viewport_size({"width": 1440, "height": 700})
    page.goto(url)
    open_group(page, "era5")
    page.wait_for_timeout(2000)
    found = [checks.bounding_box() for checks in page.get_by_text("Asset checks").all()]
    first = min((box for box in found if box), key=lambda box: box["x"])
    page.screenshot(path=path, clip={"x": first["x"] - 24, "y": first["y"] - 52, "width": 790, "height": 150})
