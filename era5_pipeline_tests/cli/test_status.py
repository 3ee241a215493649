"""`era5 status`: months that are there, that lack something, and that could not be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.errors import BadFileError
from era5_pipeline.warehouse.connect import Warehouse
from era5_pipeline.warehouse.load import load_month
from era5_pipeline_tests.commands import Here, assert_explained
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture(scope="module")
def filled_url(server_url: str, flat_months: FlatMonths) -> Iterator[str]:
    """A whole month, one that lacks hours, one with a hole, and one whose file was damaged."""
    with fresh_database(server_url) as url:
        warehouse = Warehouse(url)
        load_month(warehouse, flat_months("2023-07"))
        load_month(warehouse, flat_months("2023-08", hours=100))
        load_month(warehouse, flat_months("2023-10", missing=0.01))
        damaged = flat_months("2023-09", seed=9)
        content = damaged.path.read_bytes()
        damaged.path.write_bytes(content[: len(content) // 2])
        with pytest.raises(BadFileError):
            load_month(warehouse, damaged)
        damaged.path.write_bytes(content)
        yield url


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Here:
    return Here(capsys, monkeypatch, tmp_path)


def test_json_lists_every_month(here: Here, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    said = here.run("status", "--json")
    entries = said.json()
    assert said.err == ""
    assert [(e["month"], e["state"], e["rows"], e["hours"], e["hours_expected"], e["source"]) for e in entries] == [
        ("2023-07", "loaded", 744 * 6, 744, 744, "files"),
        ("2023-08", "incomplete", 600, 100, 744, "files"),
        ("2023-09", "failed", 0, 0, 720, None),
        ("2023-10", "incomplete", 744 * 6, 744, 744, "files"),
    ]
    assert entries[0]["expver"] == {"temperature_2m": {"0001": 744}, "total_precipitation": {"0001": 744}}
    assert entries[0]["last_attempt"]["outcome"] == "loaded"
    assert entries[2]["last_attempt"]["outcome"] == "failed"
    assert "damaged" in entries[2]["last_attempt"]["error"]


def test_table_fits_and_says_what_failed(here: Here, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    said = here.run("status").out
    assert "\x1b" not in said
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert any(line.startswith("2023-07 loaded 4,464 744 of 744 6 files 0001") for line in lines)
    assert any(line.startswith("2023-08 incomplete 600 100 of 744 6 files") for line in lines)
    assert any(line.startswith("2023-09 failed 0 0 of 720") for line in lines)
    assert any(line.startswith("3 months, 9,528 rows in ") for line in lines)
    assert any(line.startswith("2023-09: the last load was failed") and "damaged" in line for line in lines)


def test_nothing_loaded_yet(here: Here, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert "no month is loaded yet" in here.run("status").out
    assert here.run("status", "--json").json() == []


def test_server_that_is_not_there(here: Here) -> None:
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    said = here.run("status", code=5)
    assert_explained(said, "me@127.0.0.1:9/nowhere")
    assert "correct-horse" not in said.err
