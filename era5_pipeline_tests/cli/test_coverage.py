"""`era5 status --coverage`: the months of each area and variable, as a table, as JSON and as a picture."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import InProcess, assert_explained, in_terminal
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture(scope="module")
def filled_url(server_url: str, flat_months: FlatMonths) -> Iterator[str]:
    """Two areas: one with a gap of two months and an incomplete month, and one with a single month."""
    with fresh_database(server_url) as url:
        for month in ("2023-01", "2023-02", "2023-05"):
            load_month(Warehouse(url), flat_months(month))
        load_month(Warehouse(url), flat_months("2023-06", hours=100))
        load_month(Warehouse(url), flat_months("2023-06", north=-5.0, points=(1, 1), names=("u10",)))
        yield url


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    return InProcess(capsys, monkeypatch, tmp_path)


def test_table_names_the_months_of_each_area(here: InProcess, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    printed = here.run("status", "--coverage").out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "area variables complete incomplete preliminary not loaded in between" in lines
    area = "10.5/20/10.25/20.5, 6 places temperature_2m 3: 2023-01 to 2023-02, 2023-05 1: 2023-06 2: 2023-03 to 2023-04"
    assert area in lines
    assert "total_precipitation" in lines
    assert "-5/20 zonal_wind_10m 1: 2023-06" in lines
    assert "layout" not in printed


@pytest.mark.skipif(sys.platform != "linux", reason="script is another program elsewhere")
@pytest.mark.parametrize("columns", [50, 80, 120])
def test_names_and_areas_stay_whole_in_a_narrow_terminal(filled_url: str, tmp_path: Path, columns: int) -> None:
    printed = in_terminal(columns, "status", "--coverage", cwd=tmp_path, ERA5_DATABASE_URL=filled_url)
    assert max(map(len, printed.splitlines())) <= columns
    words = set(printed.replace(",", " ").split())
    assert {"10.5/20/10.25/20.5", "-5/20", "temperature_2m", "total_precipitation", "zonal_wind_10m"} <= words
    assert {"2023-01", "2023-02", "2023-03", "2023-04", "2023-05", "2023-06"} <= words
    assert "…" not in printed
    # No hours are preliminary: with 80 columns, a table without that column.
    assert ("───" in printed, "preliminary" in printed) == (columns > 50, columns > 80)


def test_json_lists_the_areas(here: InProcess, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    large, point = here.run("status", "--coverage", "--json").json()
    assert (large["area"], large["locations"]) == ("10.5/20/10.25/20.5", 6)
    assert large["variables"]["temperature_2m"] == {
        "complete": ["2023-01", "2023-02", "2023-05"],
        "incomplete": ["2023-06"],
        "preliminary": [],
        "missing": ["2023-03", "2023-04"],
    }
    assert point["location_ids"] == [[490400, 490401]]


def test_picture_is_written(here: InProcess, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    assert here.run("status", "--coverage", "--out", "a.png").err == "wrote a.png\n"
    with Image.open(here.home / "a.png") as picture:
        assert picture.width > 1000


def test_without_a_month_the_table_says_so_and_a_picture_is_refused(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert here.run("status", "--coverage").out.startswith("no month has been loaded yet")
    assert here.run("status", "--coverage", "--json").json() == []
    assert_explained(here.run("status", "--coverage", "--out", "a.png", code=3), "no month has been loaded yet")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--out", "a.png"), "only --coverage draws"),
        (("--coverage", "--out", "a.gif"), "pictures are PNG, PDF or SVG files"),
    ],
)
def test_options_that_make_no_sense_are_refused(here: InProcess, arguments: tuple[str, ...], what: str) -> None:
    assert_explained(here.run("status", *arguments, code=2), what)
