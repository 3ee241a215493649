"""Tests of `cli/report`."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from PIL import Image

from era5_pipeline.cli.report import require_page
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.real_months import MEKONG, mekong

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.postgres.connect import Warehouse


@pytest.mark.parametrize("name", ["jakarta.html", "a/b/Jakarta.HTM", "x.y.html"])
def test_html_files_are_pages(name: str) -> None:
    require_page(Path(name), "--out")


@pytest.mark.parametrize("name", ["jakarta", "jakarta.png", ".html", "jakarta.html.txt"])
def test_other_names_are_refused_with_one_that_would_do(name: str) -> None:
    with pytest.raises(UsageError, match="a page is an HTML file") as refused:
        require_page(Path(name), "--out")
    assert ".html" in refused.value.remedy


PLACE = ("--lat", "10.75", "--lon", "106.25")


@pytest.fixture(scope="module")
def loaded(real_table: Callable[..., Warehouse]) -> Warehouse:
    """Two years and five months at one place."""
    return real_table(MEKONG.of(*(month for month in MEKONG.months if month >= "2023")))


@pytest.fixture
def here(loaded: Warehouse, here: InProcess) -> InProcess:
    here.set(ERA5_DATABASE_URL=loaded.url)
    return here


def statements_of(page: str) -> list[str]:
    """The SQL of the page, as a reader would copy it."""
    return [html.unescape(text) for text in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)]


def run_all(warehouse: Warehouse, page: str) -> list[list[tuple[Any, ...]]]:
    """The answers of the page's SQL, in a session that is not in UTC."""
    with psycopg.connect(warehouse.url, options="-c TimeZone=America/New_York") as connection:
        return [connection.execute(statement).fetchall() for statement in statements_of(page)]


def years_in(page: str) -> dict[str, list[str]]:
    """The numbers of every year, as the page shows them."""
    (body,) = re.findall(r'<table class="numbers">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    rows = re.findall(r'<tr><th scope="row">(\d{4})\*?</th>(.*?)</tr>', body)
    return {year: re.findall(r"<td>(.*?)</td>", cells) for year, cells in rows}


def test_the_page_is_written_and_its_sql_gives_its_numbers(here: InProcess, loaded: Warehouse) -> None:
    printed = here.run("report", *PLACE, "--days", "local", "--out", "pages/mekong.html")
    assert "cannot be told from 2 complete years (2023-2024)" in printed.out
    assert "wrote pages/mekong.html: 10.75 N 106.25 E, 2023-01-02 to 2025-05-31" in printed.err
    page = (here.home / "pages" / "mekong.html").read_text("utf-8")
    assert "Two complete years are not a climate" in page
    assert "location_id 581465" in page

    # By pandas alone, from the file as served.
    served = mekong().loc["2023":]
    local = served.assign(celsius=served["t2m"] - 273.15)
    local.index = local.index + np.timedelta64(7, "h")
    means = local["celsius"].groupby(local.index.year).mean()
    hours_before = local.index - np.timedelta64(1, "h")
    totals = (local["tp"] * 1000).groupby(hours_before.year).sum()
    days = local["celsius"].groupby(local.index.floor("D")).agg(["mean", "min", "max", "count"])
    days = days[days["count"] == 24]

    years, daily, rain = run_all(loaded, page)
    assert {year: mean for year, mean, _ in years} == pytest.approx(means.to_dict(), abs=1e-5)
    assert {year: total for year, total, _ in rain} == pytest.approx(
        {year: total for year, total in totals.items() if year >= 2023}, rel=1e-6, abs=0.01
    )
    assert len(daily) == len(days)
    np.testing.assert_allclose([row[1:] for row in daily], days[["mean", "min", "max"]].to_numpy(), atol=1e-4)
    shown = years_in(page)
    assert list(shown) == [f"{year}" for year in range(2023, 2026)]
    for year in range(2023, 2025):
        assert shown[f"{year}"][0] == f"{means[year]:.2f}"
        assert f"{(days['max'][days.index.year == year] > 35).sum()}" in shown[f"{year}"]
        assert f"{totals[year]:,.0f}" in shown[f"{year}"]


def test_missing_months_are_named_and_strict_is_exit_code_4(here: InProcess) -> None:
    asked = ("--from", "2022", "--to", "2024", "--title", "<Mekong> & more")
    printed = here.run("report", *PLACE, *asked, "--strict", "--out", "gap.html", code=4)
    assert "warning: no data for 2022-01 to 2022-12" in printed.err
    page = (here.home / "gap.html").read_text("utf-8")
    assert "2022-01 to 2022-12" in page
    assert "<h1>&lt;Mekong&gt; &amp; more</h1>" in page


@pytest.mark.parametrize(
    ("arguments", "message", "remedy", "code"),
    [
        ((*PLACE, "--out", "page.png"), "a page is an HTML file", "page.html", 2),
        ((*PLACE, "--out", "."), "a page is an HTML file", ".html", 2),
        (("--out", "page.html"), "no place is given", "--place", 2),
        ((*PLACE, "--from", "1950", "--to", "1960", "--out", "page.html"), "2023-01", "era5 load", 3),
        (("--lat", "-6.25", "--lon", "106.75", "--out", "page.html"), "no data there", "era5 load", 3),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    here: InProcess, arguments: tuple[str, ...], message: str, remedy: str, code: int
) -> None:
    assert_explained(here.run("report", *arguments, code=code), message, remedy)
    assert not list(here.home.glob("page*"))


def test_the_picture_of_era5_climate_is_drawn(here: InProcess) -> None:
    printed = here.run("climate", *PLACE, "--out", "stripes.png", "--title", "Near Ho Chi Minh City")
    assert printed.out == ""
    assert "wrote stripes.png: 10.75 N 106.25 E (Contains modified Copernicus" in printed.err
    with Image.open(here.home / "stripes.png") as picture:
        assert picture.format == "PNG"
        assert picture.convert("L").getextrema() != (255, 255)
    printed = here.run("climate", *PLACE, "--out", "stripes.svg", "--format", "json")
    assert json.loads(printed.out)["sentence"].startswith("10.75 N 106.25 E: whether it is getting warmer")
    assert "Near" not in (here.home / "stripes.svg").read_text("utf-8")
    assert_explained(here.run("climate", *PLACE, "--out", "stripes.bmp", code=2), "PNG, PDF or SVG", ".png")
    assert_explained(here.run("climate", *PLACE, "--title", "Mekong", code=2), "--title needs a picture", "--out")
    few = ("climate", *PLACE, "--from", "2025", "--out", "few.png")
    assert_explained(here.run(*few, code=3), "no year has all of its hours", "era5 load")
    assert not (here.home / "few.png").exists()
